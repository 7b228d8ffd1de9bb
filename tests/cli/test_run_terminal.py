"""What is asked on a terminal: whether a new run is meant, which run, and how to go on."""

import os

import pytest

from tests.cli.terminal import CTRL_C, conversation
from tests.support.cli_stage import HANG, HELLO, Stage, branch, killed, wait_for_event, worker

STUCK = worker({"write": {"path": "one.txt", "text": "1\n"}}, HANG)


def interrupted(stage: Stage, goal: str = "go on") -> str:
    known = {one["id"] for one in stage.holdfast("ls", "--json").objects}
    with stage.start("run", goal, "--agent", stage.book(STUCK)) as process:
        wait_for_event(process, "tool.returned")
        stage.hangs()
        killed(process)
    (run,) = {one["id"] for one in stage.holdfast("ls", "--json").objects} - known
    return str(run)


def test_a_new_run_beside_one_that_can_go_on_gives_time_to_think_again(stage: Stage) -> None:
    run = interrupted(stage)
    before = stage.project.footprint()
    with conversation(stage.holdfast, "run", "something else", "--agent", stage.book(STUCK)) as terminal:
        shown = terminal.until("Ctrl-C to cancel.")
        assert f"{run} (interrupted) is not finished here: go on" in shown
        assert f"holdfast resume {run}" in shown
        assert f"holdfast reset {run}" in shown
        terminal.type(CTRL_C)
        assert terminal.end() == 130
    assert stage.project.footprint() == before
    assert stage.only_run() == run


def test_nobody_waits_where_there_is_no_terminal(stage: Stage) -> None:
    run = interrupted(stage)
    with stage.start("run", "say hello", "--agent", stage.book(HELLO, name="other")) as process:
        _, err = process.communicate()
    assert (process.returncode, f"holdfast resume {run}" in err.decode()) == (0, True)


@pytest.mark.torture
def test_of_several_runs_one_is_picked(stage: Stage) -> None:
    older = interrupted(stage, "the older")
    newer = interrupted(stage, "the newer")
    with conversation(stage.holdfast, "resume") as terminal:
        shown = terminal.until("default 1] ")
        assert shown.index(newer) < shown.index(older)
        terminal.type("7\n")
        terminal.until("default 1] ")
        terminal.type(CTRL_C)
        assert terminal.end() == 130
    with conversation(stage.holdfast, "resume", "--quiet") as terminal:
        terminal.until("default 1] ")
        terminal.type("2\n")
        assert terminal.end() == 0
    assert stage.project.show(f"{branch(older)}:one.txt") == "1"
    assert stage.holdfast("ls", "--json").objects[0]["id"] == older


@pytest.mark.parametrize(("answer", "end"), [("B\n", 0), (CTRL_C, 130)])
def test_how_to_go_on_is_asked(stage: Stage, answer: str, end: int) -> None:
    options = ("--workflow", "loop", stage.tasks("T-1"), "--set", "caps.iterations=1")
    run = stage.run(*options, "--agent", stage.book(HELLO), code=1)
    count = len(stage.events(run))
    with conversation(stage.holdfast, "resume", run, "--quiet") as terminal:
        shown = terminal.until("Your choice: ")
        assert "[task.failed] Task #T-1" in shown
        assert "C. Provide custom instructions" in shown
        terminal.type(answer)
        assert terminal.end() == end
    if end == 0:
        assert stage.states(run) == {"T-1": "SKIPPED"}
    else:
        assert len(stage.events(run)) == count
    assert os.path.isdir(stage.home_of(run))
