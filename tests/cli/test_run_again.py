"""A task that failed: its work is kept, a person decides, and the next attempt goes on with all of it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli_stage import EVALUATE, HANG, REJECT, SUBMIT, Stage, branch, killed, wait_for_event, worker

Step = Mapping[str, Any]

AGAIN = {"when": "Task `T-1` is not done", "steps": [{"write": {"path": "two.txt", "text": "2\n"}}, SUBMIT]}
BLOCKED = {"mcp": {"tool": "report_blocker", "arguments": {"reason": "there is no key"}}}
REJECTED = {"mcp": {"tool": "submit_verdict", "arguments": REJECT}}
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


@pytest.mark.parametrize(
    ("turns", "options", "attempts"),
    [
        ([BEGIN], ("--set", "caps.iterations=1"), 1),
        ([BEGIN], ("--set", "caps.iterations=3"), 3),
        ([worker(BLOCKED)], (), 1),
        (
            [{"when": "You are the evaluator", "steps": [REJECTED]}, worker(SUBMIT)],
            ("--set", "caps.evaluator_calls=1"),
            1,
        ),
    ],
    ids=["one iteration", "three iterations", "blocked", "rejected"],
)
def test_attempts_are_the_iterations_that_were_worked_on(
    stage: Stage, turns: list[Step], options: tuple[str, ...], attempts: int
) -> None:
    run = stage.run("--workflow", "loop", stage.tasks("T-1"), *options, "--agent", stage.book(*turns), code=1)
    assert [failed["attempts"] for failed in stage.data(run, "task.failed")] == [attempts]
    issues = stage.holdfast("analyze", run, "--json").object["issues"]
    assert [issue["attempts"] for issue in issues if issue["type"] == "task.failed"] == [attempts]


@pytest.mark.torture
def test_the_next_attempt_is_judged_by_all_that_was_done(stage: Stage, failed: str) -> None:
    assert stage.resume(failed, "--on-issue", "fix")["ended"] == "all_done"
    (prompt,) = stage.prompts(failed, "evaluator")
    assert "+++ b/one.txt" in prompt
    assert "+++ b/two.txt" in prompt
    assert stage.subjects(failed) == ["make T-1", "Merge task T-1"]
    (resumed,) = stage.data(failed, "run.resumed")
    assert (resumed["last_stop"], resumed["retried"], resumed["decision"]) == ("no_case", ["T-1"], "retry")
    assert len(resumed["unwound"]) == 1
    assert stage.project.git("for-each-ref", "refs/holdfast/salvage") == ""

    count = len(stage.events(failed))
    assert "nothing to resume" in stage.holdfast("resume", failed, code=4).err
    assert len(stage.events(failed)) == count


@pytest.mark.torture
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
    assert "Task #T-2 would be missing its input" in skipped.err
    assert stage.states(run) == {"T-1": "SKIPPED", "T-2": "COMPLETE"}
    assert stage.subjects(run) == ["make T-2", "Merge task T-2"]


@pytest.mark.torture
def test_it_is_not_forgotten_when_what_comes_later_is_done(stage: Stage) -> None:
    works = worker({"write": {"path": "x.txt", "text": "1\n"}}, SUBMIT)
    agent = stage.book(EVALUATE, {"when": "mind the kelp", "steps": [SUBMIT]}, worker(BLOCKED, task="C"), works)
    tasks = stage.tasks("A", {"id": "B", "depends_on": ["A"]}, "C")
    run = stage.run("--workflow", "waves", tasks, "--agent", agent, code=1)
    assert stage.states(run) == {"A": "COMPLETE", "B": "COMPLETE", "C": "FAILED"}
    stage.holdfast("resume", run, code=6)
    stage.resume(run, "--on-issue", "skip")
    labels = [d["label"] for d in stage.data(run, "checkpoint")]
    assert labels == ["run-start", "wave-1-complete", "wave-2-complete"]

    stage.holdfast("send", run, "mind the kelp")  # for the last of those that were done
    stage.resume(run)
    assert len([text for text in stage.prompts(run) if "mind the kelp" in text]) == 1


def until(stage: Stage, said: str) -> Step:
    """An agent waits for what the log is to say."""
    return {"run": f"until grep -q '{said}' {stage.home}/runs/*/events.jsonl; do sleep 0.05; done"}


def waiting_for(found: Step, *then: Step) -> list[dict[str, Any]]:
    """A stands still until what it asked for was found out, so that a task of the next wave begins."""
    ask = {"mcp": {"tool": "request_research", "arguments": {"topic": "q", "question": "which?"}}}
    answer = {"mcp": {"tool": "submit_research", "arguments": {"topic": "q", "answer": "this"}}}
    return [
        {"when": "You are a researcher", "steps": [found, answer]},
        {"when": "What was found out", "steps": [{"write": {"path": "A.txt", "text": "A\n"}}, *then]},
        worker(ask, task="A"),
        worker({"write": {"path": "B.txt", "text": "B\n"}}, *then, task="B"),
    ]


def test_one_that_failed_is_not_forgotten_when_a_wave_before_it_is_closed(stage: Stage) -> None:
    found = until(stage, '"type":"task.failed"')
    agent = stage.book(EVALUATE, *waiting_for(found, SUBMIT), worker(BLOCKED, task="C"))
    tasks = stage.tasks("A", "B", {"id": "C", "depends_on": ["B"]})
    run = stage.run("--workflow", "waves", tasks, "--agent", agent, code=1)
    types = [event["type"] for event in stage.events(run)]
    assert types.index("task.failed") < types.index("wave.completed")
    stage.holdfast("resume", run, code=6)
    stage.resume(run, "--on-issue", "skip")
    assert stage.data(run, "run.resumed")[-1]["skipped"] == ["C"]
    assert stage.states(run) == {"A": "COMPLETE", "B": "COMPLETE", "C": "SKIPPED"}


def test_half_of_what_is_blocked_is_never_merged_though_a_wave_before_it_is_closed(stage: Stage) -> None:
    found, closed = until(stage, '"type":"blocker.reported"'), until(stage, '"label":"wave-1-complete"')
    half = {"write": {"path": "C.txt", "text": "half\n"}}
    agent = stage.book(*waiting_for(found), worker(half, BLOCKED, closed, task="C"))
    own = Path(stage.folder, "own.yaml")
    own.write_text("name: own\nabout: nobody has to argue\nshape: graph\n")
    tasks = stage.tasks("A", "B", {"id": "C", "depends_on": ["B"]})
    run = stage.run("--workflow", str(own), tasks, "--agent", agent, code=1)
    assert stage.states(run) == {"A": "COMPLETE", "B": "COMPLETE", "C": "FAILED"}
    assert stage.project.git("ls-tree", "--name-only", branch(run), "C.txt") == ""


@pytest.mark.torture
def test_one_that_is_blocked_is_skipped_though_it_was_killed_before_it_failed(stage: Stage) -> None:
    agent = stage.book(worker(BLOCKED, HANG, {"say": "done"}))
    with stage.start("run", "find a key", "--agent", agent) as process:
        wait_for_event(process, "blocker.reported")
        stage.hangs()
        killed(process)
    run = stage.only_run()
    said = stage.holdfast("resume", run, "--on-issue", "skip").err
    assert stage.states(run) == {"T-1": "SKIPPED"}
    assert said.count("since ") == 1  # what happened meanwhile is told once
