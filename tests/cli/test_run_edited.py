"""The plan is edited while the run rests: exactly what changed, and what builds on it, is done again."""

import shutil
import signal
from pathlib import Path

import pytest

from tests.support.cli_stage import BLOCKED, EVALUATE, SUBMIT, Stage, branch, worker
from tests.support.projects import write

MAKE = {"run": "t=$(git rev-parse --abbrev-ref HEAD | sed 's,.*/,,'); date +%N > $t.txt"}


AGAIN = {"when": "is not done", "steps": [MAKE, SUBMIT]}


def task(number: int, words: str, needs: str = "") -> str:
    return f"---\nid: T-{number}\ntitle: task {number}\n{needs}---\n{words}\n\n## Acceptance criteria\n\n- works\n"


@pytest.mark.torture
def test_only_what_changed_and_what_builds_on_it_runs_again(stage: Stage) -> None:
    folder = f"{stage.folder}/tasks"
    write(
        folder,
        {
            "T-1-one.md": task(1, "the first"),
            "T-2-two.md": task(2, "the second"),
            "T-3-three.md": task(3, "the third", "depends_on: [T-2]\n"),
        },
    )
    run = stage.run("--workflow", "waves", folder, "--agent", stage.book(EVALUATE, AGAIN, worker(MAKE, SUBMIT)))
    first = [d["taskId"] for d in stage.data(run, "task.completed")]
    assert sorted(first) == ["T-1", "T-2", "T-3"]

    Path(folder, "T-2-two.md").write_text(task(2, "the second, in another way"))
    write(folder, {"T-0-zero.md": task(0, "one more, before all others")})
    assert stage.resume(run)["ended"] == "all_done"
    again = [d["taskId"] for d in stage.data(run, "task.completed")][3:]
    assert sorted(again) == ["T-0", "T-2", "T-3"]
    assert "the plan was changed" in stage.data(run, "run.resumed")[-1]["summary"]
    assert any("in another way" in text for text in stage.prompts(run, "worker"))
    stage.holdfast("resume", run, code=4)


@pytest.fixture
def given_up(stage: Stage) -> str:
    """A run whose task failed, with something done of it, was skipped, and then written anew in the list."""
    begun = worker({"write": {"path": "half.txt", "text": "half\n"}}, BLOCKED)
    rest = {"when": "in another way", "steps": [{"write": {"path": "rest.txt", "text": "rest\n"}}, SUBMIT]}
    agent = stage.book(EVALUATE, rest, begun)
    run = stage.run("--workflow", "loop", stage.tasks("T-1"), "--agent", agent, code=1)
    assert stage.resume(run, "--on-issue", "skip")["ended"] == "all_done"
    stage.tasks({"id": "T-1", "description": "in another way"})
    return run


def assert_done_once(stage: Stage, run: str) -> None:
    """With what was there of it, and without the placeholder that had kept that."""
    assert stage.states(run) == {"T-1": "COMPLETE"}
    assert stage.subjects(run) == ["make T-1", "Merge task T-1"]
    assert (stage.file(run, "half.txt"), stage.file(run, "rest.txt")) == ("half", "rest")
    assert stage.project.branches() == [branch(run)]
    assert stage.project.git("for-each-ref", "refs/holdfast/salvage") == ""
    stage.holdfast("verify", run)
    stage.holdfast("resume", run, code=4)


def test_what_failed_and_was_skipped_is_done_once_it_is_written_anew(stage: Stage, given_up: str) -> None:
    assert stage.resume(given_up)["ended"] == "all_done"
    assert_done_once(stage, given_up)


@pytest.mark.parametrize("side", ["before", pytest.param("after", marks=pytest.mark.torture)])
def test_what_is_written_anew_survives_a_kill_over_its_placeholder(stage: Stage, given_up: str, side: str) -> None:
    passes = Path(stage.folder, "passes")
    passes.touch()
    armed = {"HOLDFAST_CRASH": f"effect.commit.unwind.{side}:1", "HOLDFAST_CRASH_FILE": str(passes)}
    stage.holdfast("resume", given_up, code=-signal.SIGKILL, cold=True, env=armed)
    assert stage.states(given_up) == {"T-1": "PENDING"}
    assert stage.resume(given_up)["ended"] == "all_done"
    assert_done_once(stage, given_up)


def test_what_is_written_anew_survives_that_its_worktree_is_deleted(stage: Stage, given_up: str) -> None:
    shutil.rmtree(Path(stage.home_of(given_up), "tasks", "T-1"))
    assert stage.resume(given_up)["ended"] == "all_done"
    assert_done_once(stage, given_up)


def test_what_is_skipped_is_skipped_though_it_was_written_anew_meanwhile(stage: Stage) -> None:
    agent = stage.book(EVALUATE, worker({"write": {"path": "half.txt", "text": "half\n"}}, BLOCKED))
    run = stage.run("--workflow", "loop", stage.tasks("T-1"), "--agent", agent, code=1)
    stage.tasks({"id": "T-1", "description": "in another way"})
    assert stage.resume(run, "--on-issue", "skip")["ended"] == "all_done"
    assert stage.states(run) == {"T-1": "SKIPPED"}
    assert stage.data(run, "run.resumed")[-1]["skipped"] == ["T-1"]
    stage.holdfast("resume", run, code=4)


def test_a_worker_whose_task_was_changed_is_told_that_it_changed_and_what_it_was(stage: Stage) -> None:
    """In the same conversation, once, and not the evaluator, which sees it for the first time."""
    again = {"when": "The task changed after you got it", "steps": [MAKE, SUBMIT]}
    agent = stage.book(EVALUATE, again, worker(MAKE, SUBMIT), {"when": "is open again", "steps": [SUBMIT]})
    run = stage.run("--workflow", "loop", stage.tasks({"id": "T-1", "description": "be brief"}), "--agent", agent)
    stage.tasks({"id": "T-1", "description": "be polite"})
    assert stage.resume(run)["ended"] == "all_done"
    first, second = stage.prompts(run, "worker")
    assert "The task changed" not in first
    assert "The old task was:\n\n```text\nmake T-1\n\nbe brief\n\n- works\n```" in second
    assert second.count("be polite") == 1
    assert not any("The task changed" in prompt for prompt in stage.prompts(run, "evaluator"))
    assert [bool(d["notices"]) for d in stage.data(run, "turn.started")] == [False, False, True, False]
    stage.holdfast("send", run, "and be quick")
    assert stage.resume(run)["ended"] == "all_done"
    assert "The task changed" not in stage.prompts(run, "worker")[-1]


def test_a_worker_that_is_killed_over_a_changed_task_is_told_of_the_change_again(stage: Stage) -> None:
    agent = stage.book(EVALUATE, {"when": "The task changed", "steps": [MAKE, SUBMIT]}, worker(MAKE, SUBMIT))
    run = stage.run("--workflow", "loop", stage.tasks({"id": "T-1", "description": "be brief"}), "--agent", agent)
    stage.tasks({"id": "T-1", "description": "be polite"})
    passes = Path(stage.folder, "passes")
    passes.touch()
    armed = {"HOLDFAST_CRASH": "prompt.before:1", "HOLDFAST_CRASH_FILE": str(passes)}
    stage.holdfast("resume", run, code=-signal.SIGKILL, cold=True, env=armed)
    assert stage.resume(run)["ended"] == "all_done"
    _, killed, after = stage.prompts(run, "worker")
    assert killed.count("The task changed") == after.count("The task changed") == 1
    assert after.startswith("Your last turn was interrupted")
