"""A task that changes nothing is done too, and leaves nothing: neither when it ends, nor when it is killed there."""

import pytest

from holdfast.leaf.failpoints import FAILPOINT_FILE_VARIABLE, FAILPOINT_VARIABLE
from tests.support.cli_stage import Stage, worker

NOTHING = worker({"say": "There is nothing to do."})


@pytest.mark.parametrize(
    "point",
    ["effect.worktree.remove.before:1", pytest.param("effect.branch.delete.before:1", marks=pytest.mark.torture)],
)
def test_killed_while_it_is_tidied_up_it_leaves_nothing_behind(stage: Stage, point: str) -> None:
    passes = stage.folder + "/passes"
    with open(passes, "w", encoding="utf-8"):
        pass
    killed = stage.start(
        "run",
        "look around",
        "--agent",
        stage.book(NOTHING),
        env={FAILPOINT_VARIABLE: point, FAILPOINT_FILE_VARIABLE: passes},
    )
    with killed:
        killed.communicate()
    assert killed.returncode == -9
    run = stage.only_run()
    stage.resume(run)
    assert stage.states(run) == {"T-1": "COMPLETE"}
    assert stage.project.git("for-each-ref", "--format=%(refname:lstrip=2)", "refs/heads/holdfast").split() == [
        f"holdfast/{run}/main"
    ]
    assert len(stage.project.git("worktree", "list").splitlines()) == 2  # the user's, and the run's own


def test_the_end_says_that_nothing_was_changed(stage: Stage) -> None:
    ended = stage.holdfast("run", "look around", "--agent", stage.book(NOTHING), "--quiet").err
    assert "done, nothing was changed" in ended
    assert "holdfast merge" not in ended


def test_what_was_never_committed_is_not_called_merged(stage: Stage) -> None:
    run = stage.run("look around", "--agent", stage.book(NOTHING))
    refused = stage.holdfast("merge", run, code=4)
    lines = stage.holdfast("show", run).lines
    assert lines[-1] == f"Done, nothing was changed. Keep only its log with: holdfast archive {run}"
    assert not any(line.lstrip().startswith("stopped") for line in lines)
    assert refused.complaint == f"run {run} has no commit to merge; see what it did: holdfast show {run}"


def test_a_task_without_a_case_is_not_said_to_submit_one(stage: Stage) -> None:
    shown = stage.holdfast("run", "look around", "--agent", stage.book(NOTHING))
    assert "ready, iteration 1" in shown.out + shown.err
    assert "a case" not in shown.out + shown.err
