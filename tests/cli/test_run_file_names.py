"""Files whose names are no text: git and agents take them, so a run does too. The log shows their bytes as escapes."""

import os

from tests.cli.test_run_trees import LOOP, hook
from tests.support.cli_stage import EVALUATE, SUBMIT, Stage, branch, worker

LATIN_1 = r"f=$(printf 'caf\351.txt')"
WRITTEN = r"caf\xe9.txt"
ON_DISK = os.fsdecode(b"caf\xe9.txt")


def files(stage: Stage, run: str) -> list[str]:
    return stage.project.git("ls-tree", "-r", "-z", "--name-only", branch(run)).rstrip("\0").split("\0")


def test_agent_may_name_a_file_as_it_likes(stage: Stage) -> None:
    agent = stage.book(EVALUATE, worker({"run": f"{LATIN_1}; echo x > $f"}, SUBMIT))
    run = stage.run(*LOOP, stage.tasks("T-1"), "--agent", agent)
    assert files(stage, run) == ["a.txt", ON_DISK]
    assert [d["files_changed"] for d in stage.data(run, "task.completed")] == [[WRITTEN]]
    stage.holdfast("verify", run)


def test_hook_may_name_a_file_as_it_likes(stage: Stage) -> None:
    hook(stage, f"{LATIN_1}; echo x > $f; git add $f")
    agent = stage.book(EVALUATE, worker({"write": {"path": "a.py", "text": "x\n"}}, SUBMIT))
    run = stage.run(*LOOP, stage.tasks("T-1"), "--agent", agent)
    assert files(stage, run) == ["a.py", "a.txt", ON_DISK]
    assert [d["files"] for d in stage.data(run, "commit.changed")] == [[WRITTEN]]


def test_agent_is_told_of_a_nested_repository_of_any_name(stage: Stage) -> None:
    nested = f"{LATIN_1}; git init -q $f; echo x > $f/x"
    told = {"when": "git repositories of their own", "steps": [{"run": f"{LATIN_1}; rm -rf $f/.git"}, SUBMIT]}
    agent = stage.book(EVALUATE, told, worker({"run": nested}, SUBMIT))
    run = stage.run(*LOOP, stage.tasks("T-1"), "--agent", agent)
    assert [d["failed"] for d in stage.data(run, "validation.finished")] == [["nested repositories"], []]
    assert files(stage, run) == ["a.txt", f"{ON_DISK}/x"]


def test_conflicts_in_a_file_of_any_name_are_resolved(stage: Stage) -> None:
    writers = (worker({"run": f"{LATIN_1}; echo {task} > $f"}, SUBMIT, task=task) for task in ("A", "B"))
    resolve = {"when": "it conflicts with yours", "steps": [{"run": f"{LATIN_1}; echo both > $f"}]}
    agent = stage.book(EVALUATE, resolve, *writers)
    run = stage.run("--workflow", "waves", stage.tasks("A", "B"), "--agent", agent)
    assert [d["files"] for d in stage.data(run, "merge.conflicted")] == [[WRITTEN]]
    assert stage.file(run, ON_DISK) == "both"
