"""`analyze` and `verify` on logs that do not fit in the memory they may use."""

import os
import resource
from pathlib import Path

import pytest

from tests.cli.foreign import checkpoint, event, started
from tests.cli.program import Program

MB = 1_000_000


def use_at_most(megabytes: int) -> None:
    """In the child, before it starts: an allocation past this fails."""
    resource.setrlimit(resource.RLIMIT_AS, (megabytes * MB, megabytes * MB))


@pytest.fixture
def long_log(holdfast: Program) -> str:
    """50 MB: messages, and a checkpoint near the end."""
    path = Path(holdfast.cwd, "events.jsonl")
    text = "x" * 5000
    with path.open("wb") as file:
        file.write(started())
        for seq in range(1, 10_001):
            file.write(event("message.recorded", seq, {"conversation": "c", "speaker": "agent", "text": text}))
        file.write(checkpoint(10_001))
    assert path.stat().st_size > 50 * MB
    return str(path)


def test_a_log_of_50_mb_is_read_in_bounded_memory(holdfast: Program, long_log: str) -> None:
    for command in ("analyze", "verify"):
        outcome = holdfast(command, long_log, "--json", preexec_fn=lambda: use_at_most(120))
        assert outcome.object["events"] == 10_002


def test_a_line_of_10_mb_is_a_line(holdfast: Program) -> None:
    path = Path(holdfast.cwd, "events.jsonl")
    path.write_bytes(started() + event("message.recorded", 1, {"text": "x" * (10 * MB)}) + checkpoint(2))
    found = holdfast("analyze", str(path), "--json", preexec_fn=lambda: use_at_most(200)).object
    assert (found["events"], found["malformed"], found["decision"]["case"]) == (3, [], "auto")


def test_10_mb_without_a_newline_are_one_torn_line(holdfast: Program) -> None:
    path = Path(holdfast.cwd, "events.jsonl")
    path.write_bytes(started() + checkpoint(1) + b'{"text":"' + b"x" * (10 * MB))
    found = holdfast("analyze", str(path), "--json", preexec_fn=lambda: use_at_most(200)).object
    assert [note["line"] for note in found["malformed"]] == [3]
    assert found["decision"]["case"] == "auto"


def test_noise_without_end_is_named_line_by_line_up_to_a_bound(holdfast: Program) -> None:
    path = Path(holdfast.cwd, "events.jsonl")
    path.write_bytes(started() + b"\xfe\xed\n" * 100_000 + os.urandom(MB) + b"\n" + checkpoint(1))
    outcome = holdfast("analyze", str(path), "--json", preexec_fn=lambda: use_at_most(200))
    assert len(outcome.object["malformed"]) == 1000
    assert len(outcome.out) < MB
    assert outcome.object["decision"]["case"] == "auto"
