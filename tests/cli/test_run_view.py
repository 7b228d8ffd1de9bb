"""What one sees of `run`: and whatever becomes of the one who looks, the run goes on."""

import json
import os
import signal
from pathlib import Path
from typing import IO

import pytest

from tests.cli.program import Program, finished
from tests.support.projects import Project


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    """The agent waits at it, in the middle of its turn, until somebody opens it."""
    path = tmp_path / "gate"
    os.mkfifo(path)
    return path


@pytest.fixture
def play(gate: Path, tmp_path: Path, project: Project) -> list[str]:
    book = tmp_path / "book.yaml"
    steps = f"[say: I begin., run: {{command: cat {gate}}}, write: {{path: b.txt, text: b}}, say: I am done.]"
    book.write_text(f"turns: [steps: {steps}]\n", encoding="utf-8")
    return ["run", "add b", "--repo", project.path, "--agent", f"playbook:{book}", "--allow", "allow-all"]


def open_gate(gate: Path) -> None:
    with gate.open("wb"):
        pass


def until(pipe: IO[bytes], words: str) -> list[str]:
    """The lines that come, up to the one with these words."""
    told = [pipe.readline().decode()]
    while words not in told[-1]:
        assert told[-1], told
        told.append(pipe.readline().decode())
    return told


def test_words_go_to_stderr_as_it_works(holdfast: Program, gate: Path, play: list[str]) -> None:
    with holdfast.start(*play) as process:
        assert process.stderr is not None
        told = until(process.stderr, "I begin.")
        open_gate(gate)
        outcome = finished(process)
    assert any("started: add b" in line for line in told)
    assert "“I am done.”" in outcome.err
    assert "session ended: all tasks done" in outcome.err.splitlines()[-2]
    assert outcome.err.splitlines()[-1].startswith("done; see it: holdfast diff ")
    assert outcome.out == ""


def test_json_is_each_event_and_at_last_how_it_ended(holdfast: Program, gate: Path, play: list[str]) -> None:
    with holdfast.start(*play, "--json") as process:
        open_gate(gate)
        *events, ended = finished(process).objects
    assert [events[0]["type"], events[-1]["type"]] == ["session.start", "session.end"]
    assert ended.items() >= {"ended": "all_done", "detail": None}.items()


def test_quiet_says_only_how_it_ended(holdfast: Program, gate: Path, play: list[str]) -> None:
    with holdfast.start(*play, "--quiet") as process:
        open_gate(gate)
        (line,) = finished(process).err.splitlines()
    assert line.startswith("done; ")


@pytest.mark.parametrize("options", [(), pytest.param(("--json",), marks=pytest.mark.torture)])
def test_a_reader_that_goes_does_not_end_the_run(
    holdfast: Program, gate: Path, play: list[str], options: tuple[str, ...]
) -> None:
    with holdfast.start(*play, *options) as process:
        pipe = process.stdout if options else process.stderr
        assert pipe is not None
        until(pipe, "I begin.")
        pipe.close()
        process.stdout, process.stderr = (None, process.stderr) if options else (process.stdout, None)
        open_gate(gate)
        finished(process)
    (run,) = holdfast("ls", "--json").objects
    assert (run["status"], run["tasks_done"]) == ("done", 1)


def test_a_reader_that_does_not_read_holds_up_nothing(holdfast: Program, gate: Path, play: list[str]) -> None:
    ours, theirs = os.pipe()
    os.set_blocking(theirs, False)
    while True:
        try:
            os.write(theirs, b"x" * 65536)
        except BlockingIOError:
            break
    os.set_blocking(theirs, True)
    with holdfast.start(*play, "--json", stdout=theirs) as process:
        os.close(theirs)
        open_gate(gate)
        run_until_done(holdfast)
        os.close(ours)
        finished(process)


def run_until_done(holdfast: Program) -> None:
    """Wait as anybody can: by the log of the run."""
    (folder,) = Path(holdfast.home, "runs").iterdir()
    with holdfast.start("logs", "-f", folder.name, "--json", "--type", "session.end") as log:
        assert log.stdout is not None
        found = json.loads(log.stdout.readline())
        while found["data"]["reason"] == "planned":
            found = json.loads(log.stdout.readline())
        assert found["data"]["reason"] == "all_done"
        log.send_signal(signal.SIGINT)
        finished(log, code=130)
