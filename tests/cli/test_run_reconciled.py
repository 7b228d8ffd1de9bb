"""What others did to a run's branches and worktrees is repaired, shown, logged, and told to the agent."""

import asyncio
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.cli.program import failpoint_environment
from tests.support.cli_stage import EVALUATE, SUBMIT, Stage, branch, killed, wait_for_event, worker
from tests.support.variants import every
from tests.support.wait import until

HANG = {"hang": {"how": "turn", "seconds": 100, "once": True}}
HALF = {"write": {"path": "half.txt", "text": "half\n"}}
AGAIN = {"when": "outside Holdfast", "steps": [{"write": {"path": "whole.txt", "text": "whole\n"}}, SUBMIT]}

MORE = {"when": "is open again", "steps": [SUBMIT]}


@pytest.fixture
def run(stage: Stage) -> str:
    """A run that was killed while its agent was at work."""
    agent = stage.book(EVALUATE, AGAIN, MORE, worker(HALF, HANG, SUBMIT), sessions={"interrupted": "next"})
    with stage.start("run", stage.tasks("T-1"), "--workflow", "loop", "--agent", agent) as process:
        wait_for_event(process, "turn.started")
        asyncio.run(until(lambda: any(Path(stage.folder).rglob("once/*"))))
        killed(process)
    return stage.only_run()


def actions(stage: Stage, run: str) -> list[tuple[str, str, Any]]:
    return [(d["action"], d["subject"], d["task"]) for d in stage.data(run, "workspace.reconciled")]


def warnings(stage: Stage, run: str) -> list[str]:
    return [d["message"] for d in stage.data(run, "warning.logged")]


def lose_worktree(stage: Stage, run: str) -> None:
    shutil.rmtree(Path(stage.home_of(run), "tasks", "T-1"))


def lose_branch(stage: Stage, run: str) -> None:
    lose_worktree(stage, run)
    stage.project.git("worktree", "prune")
    stage.project.git("branch", "-D", branch(run, "T-1"))


def test_an_agent_whose_worktree_was_deleted_is_told_so_in_its_next_prompt(stage: Stage, run: str) -> None:
    lose_worktree(stage, run)
    shown = stage.holdfast("resume", run)
    assert "The worktree tasks/T-1 was deleted outside Holdfast" in shown.err
    assert actions(stage, run) == [("recreate worktree", "tasks/T-1", "T-1")]
    _, continued = stage.prompts(run, "worker")
    assert continued.count("The worktree tasks/T-1 was deleted outside Holdfast") == 1
    assert stage.file(run, "whole.txt") == "whole"
    (resumed,) = stage.data(run, "run.resumed")
    assert any("tasks/T-1" in line for line in resumed["reconciled"])


def test_an_agent_whose_branch_was_deleted_is_told_so_and_what_is_lost(stage: Stage, run: str) -> None:
    lose_branch(stage, run)
    stage.resume(run)
    assert [action for action, _, _ in actions(stage, run)] == ["recreate branch", "recreate worktree"]
    _, continued = stage.prompts(run, "worker")
    assert continued.count(f"The branch {branch(run, 'T-1')} was deleted outside Holdfast") == 1
    assert continued.count("The worktree tasks/T-1 was deleted outside Holdfast") == 1


@pytest.mark.parametrize(
    "point", every(2, ["effect.branch.restore.before", "effect.branch.restore.after", "effect.worktree.make.after"])
)
def test_a_kill_while_it_is_repaired_does_not_keep_the_agent_from_being_told(
    stage: Stage, run: str, point: str
) -> None:
    lose_branch(stage, run)
    stage.holdfast(
        "resume", run, code=-signal.SIGKILL, cold=True, env=failpoint_environment(stage.folder, f"{point}:1")
    )
    stage.resume(run)
    _, continued = stage.prompts(run, "worker")
    assert continued.count(f"The branch {branch(run, 'T-1')} was deleted outside Holdfast") == 1
    assert continued.count("The worktree tasks/T-1 was deleted outside Holdfast") == 1


def test_a_kill_while_the_agent_is_told_has_it_told_again_and_then_no_more(stage: Stage, run: str) -> None:
    lose_worktree(stage, run)
    stage.holdfast(
        "resume", run, code=-signal.SIGKILL, cold=True, env=failpoint_environment(stage.folder, "prompt.before:1")
    )
    stage.resume(run)
    stage.holdfast("send", run, "one more thing")
    stage.resume(run)
    prompts = stage.prompts(run, "worker")
    assert [prompt.count("was deleted outside Holdfast") for prompt in prompts] == [0, 1, 1, 0]


def test_what_the_log_knows_nothing_of_is_warned_of_and_left_alone(stage: Stage, run: str) -> None:
    stray, tree = branch(run, "stray"), Path(stage.home_of(run), "tasks", "stray")
    stage.project.git("worktree", "add", "-b", stray, str(tree), branch(run))
    shown = stage.holdfast("resume", run)
    orphans = [text for text in warnings(stage, run) if "that is not in the log" in text]
    assert len(orphans) == 2
    assert all(text in shown.err for text in orphans)
    assert tree.is_dir()
    assert stray in stage.project.branches()


def test_what_is_left_of_a_merged_task_is_removed_and_that_is_logged(stage: Stage) -> None:
    agent = stage.book(EVALUATE, worker(HALF, SUBMIT))
    command = ("run", stage.tasks("T-1", "T-2"), "--workflow", "loop", "--agent", agent)
    fatal = failpoint_environment(stage.folder, "effect.worktree.remove.before:1")
    stage.holdfast(*command, code=-signal.SIGKILL, cold=True, env=fatal)
    run = stage.only_run()
    shown = stage.holdfast("resume", run)
    gone = [("remove worktree", "tasks/T-1", "T-1"), ("delete branch", branch(run, "T-1"), "T-1")]
    assert actions(stage, run) == gone
    assert all(d["message"] in shown.err for d in stage.data(run, "workspace.reconciled"))
    assert stage.project.branches() == [branch(run)]
