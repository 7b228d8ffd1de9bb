"""`attach`: a run at work, watched from another process."""

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from holdfast.core.events.issue import WarningLogged
from holdfast.core.events.task import TaskFailed
from tests.cli.owner import owner_of
from tests.cli.program import Program, finished
from tests.cli.runs import DONE, make_run, said
from tests.cli.scenes import FIRST_WAVE, SECOND_WAVE

RUN = "auth-abc234"


@pytest.fixture
def run(holdfast: Program) -> str:
    return make_run(holdfast.home, RUN, *FIRST_WAVE)


class Attached:
    """Someone who watches. Words come on stderr; with --json, the log on stdout."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        assert process.stderr is not None
        self.process = process
        self._out, self._err = process.stdout, process.stderr

    def event(self) -> Any:
        return json.loads(self._out.readline())

    def line(self) -> str:
        return self._err.readline().decode().rstrip("\n")

    def until(self, words: str) -> list[str]:
        found = [self.line()]
        while words not in found[-1]:
            assert len(found) < 50, found
            found.append(self.line())
        return found

    def look_away(self) -> None:
        self._err.close()
        self.process.stderr = None


@contextmanager
def attached(holdfast: Program, *options: str) -> Iterator[Attached]:
    """Whatever is written from here on, it sees."""
    with holdfast.start("attach", RUN, *options) as process:
        try:
            view = Attached(process)
            assert view.line() == f"attached to {RUN}; Ctrl-C detaches, the run continues"
            yield view
        finally:
            process.kill()


def test_it_tells_what_happens_and_ends_with_the_session(holdfast: Program, run: str) -> None:
    with owner_of(holdfast.home, run) as owner:
        owner.append(*SECOND_WAVE)
        with attached(holdfast) as view:
            told = view.until("needs you")
            assert "  spent        4,000 tokens, $0.11" in told
            assert view.line() == f"  T-3: Run rm -rf build  →  holdfast approve {RUN} 3f9a01bc22de   (or deny)"
            assert view.line() == ""
            owner.append(WarningLogged(message="\x1b[2Jslow"), TaskFailed(task_id="T-2", error="no key"))
            assert view.line()[10:] == "              warning: ·[2Jslow"
            assert view.line()[10:] == "T-2           failed: no key"
            owner.end()
            assert view.line().endswith("session ended: all tasks done")
            assert finished(view.process).err == ""


def test_json_is_the_log_as_it_is_written(holdfast: Program, run: str) -> None:
    with owner_of(holdfast.home, run) as owner, attached(holdfast, "--json") as view:
        owner.append(TaskFailed(task_id="T-2", error="no key"))
        event = view.event()
        assert (event["type"], event["data"]["taskId"]) == ("task.failed", "T-2")
        owner.end()
        assert view.event()["type"] == "session.end"
        assert finished(view.process) == (0, "", "")


def test_ctrl_c_detaches_says_so_and_the_run_goes_on(holdfast: Program, run: str) -> None:
    with owner_of(holdfast.home, run) as owner:
        owner.append(*SECOND_WAVE)
        with attached(holdfast) as view:
            view.until("needs you")
            view.process.send_signal(signal.SIGINT)
            told = finished(view.process, code=130).err.splitlines()
            assert (
                told[-1] == f"detached; {RUN} continues. Watch it: holdfast attach {RUN}; stop it: holdfast stop {RUN}"
            )
        owner.say("still here")


def test_a_runner_that_dies_ends_it_with_the_next_step(holdfast: Program, run: str) -> None:
    with owner_of(holdfast.home, run) as owner:
        owner.append(*SECOND_WAVE)
        with attached(holdfast) as view:
            view.until("needs you")
            owner.say("my last words")
            owner.kill()
            told = finished(view.process).err.splitlines()
            assert told[-2].endswith("“my last words”")
            assert told[-1] == f"the runner died; nothing is lost. Continue with: holdfast resume {RUN}"


def test_a_reader_that_goes_ends_it_and_not_the_run(holdfast: Program, run: str) -> None:
    with owner_of(holdfast.home, run) as owner:
        owner.append(*SECOND_WAVE)
        with attached(holdfast) as view:
            view.until("needs you")
            view.look_away()
            owner.say("into the void")
            assert finished(view.process).out == ""
        owner.say("still here")


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_there_must_be_somebody_at_work(holdfast: Program, options: tuple[str, ...]) -> None:
    make_run(holdfast.home, RUN, said("hello"), DONE)
    complaint = holdfast("attach", RUN, *options, code=4).complaint
    assert complaint == f"{RUN} is not running (done); see: holdfast show {RUN}"
