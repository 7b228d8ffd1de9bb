"""`logs`: a run's events, oldest first."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.foreign import SEED_LOG, event, put, started
from tests.cli.program import Program
from tests.cli.runs import DONE, log_of, make_run, said, tasks

RUN = "auth-abc234"


def types(holdfast: Program, *options: str) -> list[str]:
    return [line["type"] for line in holdfast("logs", RUN, "--json", *options).objects]


@pytest.fixture
def log(holdfast: Program) -> Path:
    make_run(holdfast.home, RUN, *tasks(2), said("Grüße"), DONE)
    return log_of(holdfast.home, RUN)


def test_events_are_told_one_a_line(holdfast: Program, log: Path) -> None:
    assert holdfast("logs", RUN).lines == [
        f"2026-02-14 10:00:00  session.start              command=run, host={socket.gethostname()}",
        f"2026-02-14 10:00:00  run.created                run_id={RUN}, goal=Add OAuth login, workflow=solo",
        "2026-02-14 10:00:00  task.started               worker of 1 taskId=1",
        "2026-02-14 10:00:00  task.completed             worker of 1 taskId=1",
        "2026-02-14 10:00:00  task.started               worker of 2 taskId=2",
        "2026-02-14 10:00:00  task.completed             worker of 2 taskId=2",
        "2026-02-14 10:00:00  message.recorded           conversation=c, speaker=agent, text=Grüße, more=false",
        "2026-02-14 10:00:00  session.end                reason=all_done",
    ]


def test_values_are_told_as_json_has_them(holdfast: Program) -> None:
    put(holdfast.home, "runs", RUN, "events.jsonl", log=event("x", 0, {"a": True, "b": None, "c": ["d"]}, agent="me"))
    assert holdfast("logs", RUN).lines == [f'2026-02-14 10:00:00  {"x":26} me a=true, c=["d"]']


def test_json_prints_the_lines_exactly_as_they_stand(holdfast: Program, log: Path) -> None:
    process = holdfast.start("logs", RUN, "--json")
    out, _ = process.communicate()
    assert out == log.read_bytes()


def test_json_prints_text_of_any_encoding_exactly_as_it_stands(holdfast: Program) -> None:
    odd = started() + b'{"sid":"s1","seq":1,"type":"x","data":{"text":"\xff\xfe"}}\n' + event("x", 2, {"t": "第一波"})
    put(holdfast.home, "runs", RUN, "events.jsonl", log=odd)
    process = holdfast.start("logs", RUN, "--json", env={"PYTHONIOENCODING": "ascii"})
    out, _ = process.communicate()
    assert out == odd


@pytest.mark.parametrize("count", [0, 1, 8, 1_000_000])
def test_n_gives_only_the_last(holdfast: Program, log: Path, count: int) -> None:
    everything = log.read_text().splitlines()
    assert holdfast("logs", RUN, "-n", str(count), "--json").lines == everything[max(0, 8 - count) :]


def test_n_counts_what_is_wanted(holdfast: Program, log: Path) -> None:
    assert types(holdfast, "-n", "1", "--type", "task.*") == ["task.completed"]
    assert types(holdfast, "--last", "3", "--type", "task.started") == ["task.started", "task.started"]


def test_n_reaches_back_over_a_long_log(holdfast: Program) -> None:
    messages = b"".join(event("message.recorded", seq, {"text": "x" * 1000}) for seq in range(2, 3000))
    put(holdfast.home, "runs", RUN, "events.jsonl", log=started() + event("rare", 1) + messages)
    assert types(holdfast, "-n", "2", "--type", "rare", "--type", "session.start") == ["session.start", "rare"]


@pytest.mark.parametrize("count", ["-1", "x"])
def test_n_must_be_a_number(holdfast: Program, log: Path, count: str) -> None:
    assert "is not a number" in holdfast("logs", RUN, f"--last={count}", code=2).complaint


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        (["task.*"], ["task.started", "task.completed"] * 2),
        (["*.start", "run.created", "session.[ef]nd"], ["session.start", "run.created", "session.end"]),
        (["TASK.*", ""], []),
    ],
)
def test_type_takes_names_and_patterns(holdfast: Program, log: Path, patterns: list[str], expected: list[str]) -> None:
    assert types(holdfast, *(part for pattern in patterns for part in ("--type", pattern))) == expected


def test_unreadable_lines_are_told_where_they_stand(holdfast: Program) -> None:
    log = started() + b"noise \x1b[31m\n" + b"\n" + event("x", 1) + b'{"torn'
    put(holdfast.home, "runs", RUN, "events.jsonl", log=log)
    first, second, third = holdfast("logs", RUN).lines
    assert "session.start" in first
    assert "(unreadable line: not JSON" in second
    assert third.endswith("  x")
    outcome = holdfast("logs", RUN, "--json")
    assert [line["type"] for line in outcome.objects] == ["session.start", "x"]
    assert outcome.err.startswith("skipped an unreadable line: not JSON")


def test_a_log_without_events_prints_nothing(holdfast: Program) -> None:
    put(holdfast.home, "runs", RUN, "events.jsonl", log=b"")
    for options in ((), ("-n", "5"), ("-n", "0"), ("--json",)):
        assert holdfast("logs", RUN, *options) == (0, "", "")


def test_escape_sequences_in_a_log_do_not_reach_the_terminal(holdfast: Program) -> None:
    evil = "\x1b]0;owned\x07\x9b31m\r\n\x08"
    log = event(f"type{evil}", 0, {f"key{evil}": evil, "deep": [evil]}, agent=evil, ts=evil)
    put(holdfast.home, "runs", RUN, "events.jsonl", log=log)
    (line,) = holdfast("logs", RUN).lines
    assert line.isprintable()
    assert holdfast("logs", RUN, "--json").object["agent"] == evil


def test_a_long_value_is_shortened_for_people_only(holdfast: Program) -> None:
    make_run(holdfast.home, RUN, said("x" * 5000))
    assert len(holdfast("logs", RUN, "-n", "1").out) < 400
    assert len(holdfast("logs", RUN, "-n", "1", "--json").out) > 5000


def test_a_reader_that_has_enough_is_no_error(holdfast: Program) -> None:
    put(holdfast.home, "runs", RUN, "events.jsonl", log=SEED_LOG * 500)
    for options in ((), ("--json",)):
        process = holdfast.start("logs", RUN, *options)
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().strip()
        process.stdout.close()
        assert process.wait() == 0
        assert process.stderr.read() == b""
        process.stderr.close()


def test_piping_into_head_is_quiet(holdfast: Program) -> None:
    put(holdfast.home, "runs", RUN, "events.jsonl", log=SEED_LOG * 500)
    script = f"set -o pipefail; {sys.executable} -m holdfast logs {RUN} --json | head -1"
    done = subprocess.run(
        ["bash", "-c", script], env=holdfast.environment(), cwd=holdfast.cwd, capture_output=True, check=True
    )
    assert (done.stdout, done.stderr) == (SEED_LOG.splitlines(keepends=True)[0], b"")


def test_a_type_that_does_not_exist_is_not_an_empty_answer(holdfast: Program, log: Path) -> None:
    assert "did you mean task.started" in holdfast("logs", RUN, "--type", "task.startd", code=2).complaint
    assert holdfast("logs", RUN, "--type", "branch.*").err == "no event of this log is branch.*\n"
    assert types(holdfast, "--type", "session.end") == ["session.end"]
