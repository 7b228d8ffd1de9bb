"""A task that failed: its work is kept, a person decides, and the next attempt goes on with all of it."""

import pytest

from tests.support.stage import EVALUATE, SUBMIT, Stage, branch, worker

AGAIN = {"when": "Task `T-1` is not done", "steps": [{"write": {"path": "two.txt", "text": "2\n"}}, SUBMIT]}
BEGIN = worker({"write": {"path": "one.txt", "text": "1\n"}}, task="T-1")


@pytest.fixture
def failed(stage: Stage) -> str:
    """A run whose only attempt at its task came to nothing."""
    options = ("--workflow", "loop", stage.tasks("T-1"), "--set", "caps.iterations=1")
    return stage.run(*options, "--agent", stage.book(EVALUATE, AGAIN, BEGIN), code=1)


def test_its_partial_work_is_a_placeholder_commit(stage: Stage, failed: str) -> None:
    assert stage.project.git("log", "-1", "--format=%s", branch(failed, "T-1")).startswith("FAILED (no_case)")
    assert stage.project.show(f"{branch(failed, 'T-1')}:one.txt") == "1"
    assert stage.subjects(failed) == []
    before = stage.project.footprint(), len(stage.events(failed))
    complaint = stage.holdfast("resume", failed, code=6).err
    assert "--on-issue" in complaint
    assert (stage.project.footprint(), len(stage.events(failed))) == before


def test_the_next_attempt_is_judged_by_all_that_was_done(stage: Stage, failed: str) -> None:
    assert stage.resume(failed, "--on-issue", "fix")["ended"] == "all_done"
    (prompt,) = stage.prompts(failed, "evaluator")
    assert "+++ b/one.txt" in prompt
    assert "+++ b/two.txt" in prompt
    assert stage.subjects(failed) == ["make T-1", "Merge task T-1"]
    (resumed,) = stage.data(failed, "run.resumed")
    assert (resumed["last_stop"], resumed["retried"], resumed["decision"]) == ("no_case", ["T-1"], "fix")
    assert len(resumed["unwound"]) == 1
    assert stage.project.git("for-each-ref", "refs/holdfast/salvage") == ""

    count = len(stage.events(failed))
    assert "nothing to resume" in stage.holdfast("resume", failed, code=4).err
    assert len(stage.events(failed)) == count


def test_words_reach_the_prompts(stage: Stage, failed: str) -> None:
    stage.resume(failed, "--on-issue", "look at the kelp")
    assert "look at the kelp" in stage.prompts(failed, "worker")[-1]
    assert "look at the kelp" in stage.prompts(failed, "evaluator")[-1]


@pytest.mark.torture
def test_one_that_fails_again_stops_again(stage: Stage, failed: str) -> None:
    stage.book(EVALUATE, BEGIN)  # it has nothing more to submit
    for attempts in (2, 3):
        assert stage.resume(failed, "--on-issue", "fix", code=1)["ended"] == "no_case"
        assert len(stage.data(failed, "task.failed")) == attempts
    tip = branch(failed, "T-1")
    assert stage.project.git("log", "--format=%s", f"main..{tip}").splitlines() == ["FAILED (no_case): task T-1"]


def test_skipping_it_warns_of_what_builds_on_it_and_goes_on(stage: Stage) -> None:
    agent = stage.book(EVALUATE, BEGIN, worker({"write": {"path": "next.txt", "text": "n\n"}}, SUBMIT, task="T-2"))
    tasks = stage.tasks("T-1", {"id": "T-2", "depends_on": ["T-1"]})
    run = stage.run("--workflow", "loop", tasks, "--agent", agent, "--set", "caps.iterations=1", code=1)
    assert stage.states(run) == {"T-1": "FAILED", "T-2": "PENDING"}
    skipped = stage.holdfast("resume", run, "--on-issue", "skip", "--quiet")
    assert "Task #T-2 would be left without its input" in skipped.err
    assert stage.states(run) == {"T-1": "SKIPPED", "T-2": "COMPLETE"}
    assert stage.subjects(run) == ["make T-2", "Merge task T-2"]
