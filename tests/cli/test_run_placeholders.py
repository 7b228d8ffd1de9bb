"""The placeholder of a failed task, with a person's commit on top of it: it is never merged, and that commit stays."""

import os
import re
from pathlib import Path
from typing import Any

import pytest

from tests.cli.program import failpoint_environment
from tests.support.cli_stage import BLOCKED, EVALUATE, SUBMIT, Stage, branch, worker
from tests.support.variants import every

KILLED = -9
LOOP = ("--workflow", "loop")
PARTIAL = {"write": {"path": "a.txt", "text": "partial\n"}}
AGAIN = {"when": "You are the worker on task", "steps": [{"write": {"path": "rest.txt", "text": "rest\n"}}, SUBMIT]}


def failed(stage: Stage, **files: str) -> str:
    """A run whose task failed, and a commit of a person's on top of its placeholder."""
    agent = stage.book(EVALUATE, worker(PARTIAL, BLOCKED))
    run = stage.run(*LOOP, stage.tasks("T-1"), "--agent", agent, code=1)
    tree = tree_of(stage, run)
    for name, text in files.items():
        Path(tree, f"{name}.txt").write_text(text)
    git = ("-c", "user.name=Eve", "-c", "user.email=eve@example.com")
    stage.project.git("add", "--all", at=tree)
    stage.project.git(*git, "commit", "--quiet", "--message=By hand", at=tree)
    stage.book(EVALUATE, {"when": "", "steps": AGAIN["steps"]})
    return run


def tree_of(stage: Stage, run: str) -> str:
    return os.path.join(stage.home_of(run), "tasks", "T-1")


def log(stage: Stage, run: str) -> list[str]:
    form = "--format=%an: %s"
    return stage.project.git(
        "log", "--reverse", "--topo-order", "--no-merges", form, f"main..{branch(run)}"
    ).splitlines()


def assert_whole(stage: Stage, run: str) -> None:
    assert log(stage, run) == ["Eve: By hand", "Ada: make T-1"]
    assert {name: stage.file(run, name) for name in ("a.txt", "mine.txt", "rest.txt")} == {
        "a.txt": "partial",
        "mine.txt": "mine",
        "rest.txt": "rest",
    }
    assert stage.data(run, "session.end")[-1]["reason"] == "all_done"


def unwound(stage: Stage, run: str) -> Any:
    return [commit for d in stage.data(run, "run.resumed") for commit in d["unwound"]]


def test_a_commit_on_top_of_a_placeholder_stays_and_the_placeholder_goes(stage: Stage) -> None:
    run = failed(stage, mine="mine\n")
    stage.resume(run, "--on-issue", "fix")
    assert_whole(stage, run)
    assert len(unwound(stage, run)) == 1


@pytest.mark.parametrize(
    "point",
    every(
        3, ["effect.commit.unwind.before", "commit.unwind.kept", "effect.commit.unwind.after", "effect.commit.before"]
    ),
)
def test_killed_while_a_placeholder_is_taken_back_it_ends_the_same(stage: Stage, point: str) -> None:
    run = failed(stage, mine="mine\n")
    env = failpoint_environment(stage.folder, f"{point}:1")
    stage.holdfast("resume", run, "--on-issue", "fix", code=KILLED, env=env, cold=True)
    stage.resume(run, "--on-issue", "fix")
    assert_whole(stage, run)


def test_a_commit_that_needs_the_placeholder_is_for_a_person_to_decide(stage: Stage) -> None:
    run = failed(stage, a="partial, by hand\n")
    tip, main = stage.project.tip(branch(run, "T-1")), stage.project.tip(branch(run))
    asked = stage.holdfast("resume", run, "--on-issue", "fix", code=6)
    assert stage.project.tip(branch(run, "T-1")) == tip
    assert stage.project.tip(branch(run)) == main
    (printed,) = set(re.findall(r"git -C \S+ reset --soft \S+ && git -C \S+ commit --reuse-message=\w+", asked.err))
    for command in printed.split(" && "):
        stage.project.git(*command.split()[1:])
    stage.resume(run, "--on-issue", "fix")
    assert log(stage, run) == ["Eve: By hand", "Ada: make T-1"]
    assert (stage.file(run, "a.txt"), stage.file(run, "rest.txt")) == ("partial, by hand", "rest")
