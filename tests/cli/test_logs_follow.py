"""`logs -f`: events as they come, until the reader has seen enough."""

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

import pytest

from tests.cli.owner import owner_of
from tests.cli.program import Program, finished
from tests.cli.runs import DONE, log_of, make_run, resume_run, said

RUN = "auth-abc234"


@pytest.fixture
def run(holdfast: Program) -> str:
    return make_run(holdfast.home, RUN, said("before"))


class Following:
    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        self._out: IO[bytes] = process.stdout
        self.process = process

    def next_line(self) -> str:
        return self._out.readline().decode().rstrip("\n")

    def next_event(self) -> Any:
        return json.loads(self.next_line())


@contextmanager
def following(holdfast: Program, *options: str) -> Iterator[Following]:
    with holdfast.start("logs", "-f", RUN, *options) as process:
        try:
            yield Following(process)
        finally:
            process.kill()


def test_it_goes_on_with_what_another_process_writes(holdfast: Program, run: str) -> None:
    with following(holdfast, "--json") as log:
        assert [log.next_event()["type"] for _ in range(3)] == ["session.start", "run.created", "message.recorded"]
        with owner_of(holdfast.home, run) as owner:
            assert log.next_event()["data"]["command"] == "resume"
            for number in range(3):
                owner.say(f"hello {number}")
                assert log.next_event()["data"]["text"] == f"hello {number}"


def test_a_line_is_told_when_it_is_whole(holdfast: Program, run: str) -> None:
    line = '{"sid":"s9","seq":0,"type":"later","data":{}}'
    with following(holdfast, "--type", "later") as log, owner_of(holdfast.home, run) as owner:
        owner.write_raw(line[:20])
        owner.write_raw(line[20:])
        with log_of(holdfast.home, run).open("ab") as file:
            file.write(b"\n")
        assert log.next_line().endswith("later")


def test_n_says_how_far_back_it_begins(holdfast: Program, run: str) -> None:
    with following(holdfast, "-n", "1", "--json") as log:
        assert log.next_event()["data"]["text"] == "before"
        resume_run(holdfast.home, run, said("after"))
        assert [log.next_event()["type"], log.next_event()["data"]["text"]] == ["session.start", "after"]


def test_n_counts_before_it_follows_and_types_hold_for_both(holdfast: Program, run: str) -> None:
    with following(holdfast, "-n", "1", "--type", "message.*") as log:
        assert "text=before" in log.next_line()
        resume_run(holdfast.home, run, said("after"), DONE)
        assert "text=after" in log.next_line()


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_ctrl_c_ends_it_without_noise_and_ends_nothing_else(
    holdfast: Program, run: str, options: tuple[str, ...]
) -> None:
    with owner_of(holdfast.home, run) as owner, following(holdfast, "-n", "1", *options) as log:
        assert log.next_line()
        log.process.send_signal(signal.SIGINT)
        assert finished(log.process, code=130).err == ""
        owner.say("still here")


def test_a_reader_that_went_away_ends_it_in_silence(holdfast: Program, run: str) -> None:
    process = holdfast.start("logs", "-f", RUN)
    assert process.stdout is not None
    assert process.stdout.readline()
    process.stdout.close()
    process.stdout = None
    resume_run(holdfast.home, run, said("into the void"))
    assert finished(process).err == ""


def test_a_run_that_is_removed_ends_it_with_a_word(holdfast: Program, run: str) -> None:
    with following(holdfast, "-n", "1") as log:
        assert log.next_line()
        shutil.rmtree(log_of(holdfast.home, run).parent)
        assert os.path.join(RUN, "events.jsonl") in finished(log.process, code=1).complaint
