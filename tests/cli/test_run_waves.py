"""A graph of tasks: several agents at once, merged in order, and one that fails does not hold the others up."""

import pytest

from tests.support.cli_stage import ACCEPT, EVALUATE, REJECT, SUBMIT, Stage, branch, worker

MAKE = {"run": "t=$(git rev-parse --abbrev-ref HEAD | sed 's,.*/,,'); echo $t > $t.txt"}


def test_tasks_run_at_once_and_are_merged_in_the_order_of_the_plan(stage: Stage) -> None:
    meet = {"run": f"touch {stage.folder}/b.there"}
    agent = stage.book(
        EVALUATE,
        worker({"wait_for": f"{stage.folder}/b.there"}, MAKE, SUBMIT, task="A"),  # only if B is at work too
        worker(meet, MAKE, SUBMIT, task="B"),
        worker({"read": "A.txt"}, {"read": "B.txt"}, MAKE, SUBMIT, task="C"),
    )
    tasks = stage.tasks("A", "B", {"id": "C", "depends_on": ["A", "B"]})
    run = stage.run("--workflow", "waves", tasks, "--agent", agent)
    merges = [subject for subject in stage.subjects(run) if subject.startswith("Merge")]
    assert merges == ["Merge task A", "Merge task B", "Merge task C"]
    labels = [d["label"] for d in stage.data(run, "checkpoint")]
    assert labels == ["run-start", "wave-1-complete", "wave-2-complete"]
    assert stage.file(run, "C.txt") == "C"
    assert stage.project.branches() == [branch(run)]
    assert len(stage.project.worktrees()) == 1


def conflicting(task: str) -> dict[str, object]:
    return worker({"write": {"path": "a.txt", "text": f"{task}\n"}}, SUBMIT, task=task)


def test_a_conflict_is_given_to_the_worker_and_merged_when_it_is_resolved(stage: Stage) -> None:
    resolve = {"when": "it conflicts with yours", "steps": [{"write": {"path": "a.txt", "text": "A and B\n"}}]}
    agent = stage.book(EVALUATE, resolve, conflicting("A"), conflicting("B"))
    run = stage.run("--workflow", "waves", stage.tasks("A", "B"), "--agent", agent)
    assert [(d["taskId"], d["files"]) for d in stage.data(run, "merge.conflicted")] == [("B", ["a.txt"])]
    assert stage.file(run, "a.txt") == "A and B"
    assert [subject for subject in stage.subjects(run) if subject.startswith("Merge task")] == [
        "Merge task A",
        "Merge task B",
    ]


BOTH_NEED_AN_END = (
    'validators.commands.end={"command": ["sh", "-c", '
    '"if grep -q A a.txt && grep -q B a.txt && ! grep -q end a.txt; then echo there is no end; exit 1; fi"]}'
)


@pytest.mark.parametrize(
    "first", [pytest.param("A and B\n", marks=pytest.mark.torture), "<<<<<<< ours\nA\n=======\nB\n>>>>>>> theirs\n"]
)
def test_what_validators_say_of_a_resolved_conflict_is_told_to_the_worker(stage: Stage, first: str) -> None:
    agent = stage.book(
        EVALUATE,
        {"when": "there is no end", "steps": [{"write": {"path": "a.txt", "text": "A and B, the end\n"}}]},
        {"when": "it conflicts with yours", "steps": [{"write": {"path": "a.txt", "text": first}}]},
        conflicting("A"),
        conflicting("B"),
    )
    run = stage.run("--workflow", "waves", stage.tasks("A", "B"), "--agent", agent, "--set", BOTH_NEED_AN_END)
    (repair,) = [prompt for prompt in stage.prompts(run, "worker") if "there is no end" in prompt]
    assert "the validators do not pass on the result: `end`." in repair
    assert "These files have conflict markers" not in repair
    assert ("These files still have conflict markers" in repair) == first.startswith("<")
    assert stage.file(run, "a.txt") == "A and B, the end"
    assert len(stage.data(run, "merge.conflicted")) == 1


@pytest.mark.torture
def test_a_conflict_that_nobody_resolves_fails_its_task_alone(stage: Stage) -> None:
    agent = stage.book(EVALUATE, conflicting("A"), conflicting("B"), worker(MAKE, SUBMIT, task="C"))
    options = ("--parallel", "3", "--set", "caps.conflict_attempts=1")
    run = stage.run("--workflow", "waves", stage.tasks("A", "B", "C"), "--agent", agent, *options, code=1)
    assert stage.states(run) == {"A": "COMPLETE", "B": "FAILED", "C": "COMPLETE"}
    assert [d["error"] for d in stage.data(run, "task.failed")] == ["conflicts"]
    assert stage.file(run, "a.txt") == "A"
    assert stage.file(run, "C.txt") == "C"


@pytest.mark.torture
def test_a_blocker_fails_its_task_and_says_why(stage: Stage) -> None:
    blocked = {"mcp": {"tool": "report_blocker", "arguments": {"reason": "No key.", "needed": "a key"}}}
    agent = stage.book(EVALUATE, worker(blocked, task="A"), worker(MAKE, SUBMIT, task="B"))
    run = stage.run("--workflow", "waves", stage.tasks("A", "B"), "--agent", agent, code=1)
    assert stage.states(run) == {"A": "FAILED", "B": "COMPLETE"}
    assert "No key. (needed: a key)" in stage.holdfast("analyze", run).out
    assert "A" in stage.holdfast("resume", run, code=6).err


@pytest.mark.torture
def test_a_blocker_that_the_worker_got_past_does_not_fail_a_later_iteration(stage: Stage) -> None:
    blocked = {"mcp": {"tool": "report_blocker", "arguments": {"reason": "No key."}}}
    agent = stage.book(
        {"when": "(?s)You are the evaluator.*Prior iterations", "steps": [ACCEPT]},
        {"when": "You are the evaluator", "steps": [{"mcp": {"tool": "submit_verdict", "arguments": REJECT}}]},
        {"when": "The evaluator rejected your case", "steps": [SUBMIT]},
        worker(blocked, MAKE, SUBMIT),
    )
    run = stage.run("--workflow", "waves", stage.tasks("A"), "--agent", agent)
    assert stage.states(run) == {"A": "COMPLETE"}
