"""What the events within a task do to it.

One table with a row or more for every handler, one fact a row. It is past 500 lines because it is read as one piece.
"""

from typing import Any

import pytest
from msgspec import Raw

from holdfast.core.events import Event
from holdfast.core.events.branch import BranchCreated, BranchMerged
from holdfast.core.events.conversation import (
    ConversationOpened,
    PermissionAnswered,
    PermissionRequested,
    ToolBlocked,
    TurnEnded,
    TurnInterrupted,
    TurnStarted,
)
from holdfast.core.events.inbox import InboxConsumed, InboxHandled
from holdfast.core.events.issue import BlockerReported
from holdfast.core.events.plan import PlanCreated, PlannedTask, PlannedWave
from holdfast.core.events.task import TaskCompleted, TaskFailed, TaskSkipped, TaskStarted, WaveCompleted
from holdfast.core.events.work import (
    CaseSubmitted,
    CommitChanged,
    CommitRefused,
    IterationEnded,
    LearningsProposed,
    MergeConflicted,
    TaskCommitted,
    TaskReopened,
    TaskRestarted,
    ValidationFinished,
    ValidationStarted,
    ValidatorFinished,
    VerdictGiven,
)
from holdfast.core.state import OpenMessage
from holdfast.core.task_state import Check, EvaluatorVerdict, Plan, Task, TaskStage, TaskStatus, Wave
from tests.core.logs import TS, Row, fold_once, row, session_log

STARTED = TaskStarted(task_id="1")
WORKER = ConversationOpened(conversation="w", agent="claude", role="worker", task="1")
EVALUATOR = ConversationOpened(conversation="e", agent="claude", role="evaluator", task="1")
TURN = (TurnStarted(conversation="w", turn="t"), TurnEnded(conversation="w", turn="t", stop_reason="end_turn"))
CASE = CaseSubmitted(task_id="1", iteration=1, case=Raw(b'{"summary":"done"}'))
VALID = ValidationFinished(task_id="1", passed=True)
ACCEPTED = VerdictGiven(task_id="1", iteration=1, accept=True)
REJECTED = VerdictGiven(task_id="1", iteration=1, accept=False, category="weak_test", concern="c", next_step="n")
COMMITTED = TaskCommitted(task_id="1", commit="abc")
CAPTURED = ValidationStarted(task_id="1", tree="t1", head="h1")
HOOKED = CommitChanged(task_id="1", commit="c2", tree="t2", reason="hook", files=["a.py"])
CONFLICT = MergeConflicted(task_id="1", files=["a.py"])


def asked(answer: str | None, conversation: str = "w") -> tuple[Event, ...]:
    """A permission request, answered by this option."""
    options = Raw(b'[{"id":"yes","name":"y","kind":"allow_once"},{"id":"no","name":"n","kind":"reject_once"}]')
    request = PermissionRequested(conversation=conversation, request="r", title="t", options=options)
    return (request, PermissionAnswered(request="r", option=answer))


def planned(*keys: str | None) -> PlanCreated:
    """Tasks 1, 2, …: each in a wave of its own."""
    names = [str(number) for number, _ in enumerate(keys, start=1)]
    return PlanCreated(
        tasks=[PlannedTask(id=name, key=key) for name, key in zip(names, keys, strict=True)],
        waves=[PlannedWave(wave=int(name), task_ids=[name]) for name in names],
    )


def at(stage: TaskStage, **more: Any) -> dict[str, Task]:
    return {"1": Task(**{"status": TaskStatus.IN_PROGRESS, "stage": stage, "iteration": 1, **more})}


TABLE = (
    row("a worker is its task's", STARTED, WORKER, tasks=at(TaskStage.WORK, worker="w")),
    row(
        "what its worker was refused is counted",
        *(STARTED, WORKER, ToolBlocked(conversation="w", tool="edit"), *asked("no")),
        tasks=at(TaskStage.WORK, worker="w", refused=2),
    ),
    row(
        "not what it was allowed, nor what nobody answered",
        *(STARTED, WORKER, *asked("yes"), *asked(None)),
        tasks=at(TaskStage.WORK, worker="w"),
    ),
    row(
        "nor what its evaluator was refused",
        *(STARTED, EVALUATOR, ToolBlocked(conversation="e", tool="edit"), *asked("no", "e")),
        tasks=at(TaskStage.WORK, evaluator="e"),
    ),
    row(
        "opened again, it begins to count anew",
        *(STARTED, WORKER, *asked("no"), TaskReopened(task_id="1")),
        tasks={"1": Task(worker="w")},
    ),
    row("so is an evaluator", STARTED, EVALUATOR, tasks=at(TaskStage.WORK, evaluator="e")),
    row(
        "somebody else is not",
        STARTED,
        ConversationOpened(conversation="x", agent="claude", role="coder", task="1"),
        tasks=at(TaskStage.WORK),
    ),
    row(
        "what was learnt is kept once",
        LearningsProposed(task_id="1", learnings=["a", "b"]),
        LearningsProposed(task_id="2", learnings=["b"]),
        learnings=["a", "b"],
    ),
    row("a case", STARTED, CASE, tasks=at(TaskStage.VALIDATE, case='{"summary":"done"}')),
    row(
        "a later case takes its place",
        STARTED,
        CASE,
        CaseSubmitted(task_id="1", iteration=1),
        tasks=at(TaskStage.VALIDATE, case="null"),
    ),
    row(
        "what a validator found, the last time",
        STARTED,
        ValidatorFinished(task_id="1", name="pytest", passed=False, output="1 failed"),
        ValidatorFinished(task_id="1", name="ruff", passed=False, problem="not there"),
        ValidatorFinished(task_id="1", name="pytest", passed=True, flaky=True),
        tasks=at(
            TaskStage.WORK,
            checks=[Check("ruff", passed=False, problem="not there"), Check("pytest", passed=True, flaky=True)],
        ),
    ),
    row("valid work is evaluated", STARTED, CASE, VALID, tasks=at(TaskStage.EVALUATE, case='{"summary":"done"}')),
    row(
        "what is not valid goes back to the worker",
        STARTED,
        WORKER,
        *TURN,
        CASE,
        ValidationFinished(task_id="1", passed=False, failed=["pytest"]),
        tasks=at(TaskStage.WORK, worker="w", iteration=2, since=1),
    ),
    row(
        "accepted work is committed, and the next case is for another evaluator",
        STARTED,
        EVALUATOR,
        CASE,
        VALID,
        ACCEPTED,
        tasks=at(
            TaskStage.COMMIT,
            case='{"summary":"done"}',
            evaluations=1,
            verdicts=[EvaluatorVerdict(1, accept=True, ts=TS)],
        ),
    ),
    row(
        "rejected work goes back to the worker",
        STARTED,
        CASE,
        VALID,
        REJECTED,
        tasks=at(
            TaskStage.WORK,
            iteration=2,
            evaluations=1,
            verdicts=[EvaluatorVerdict(1, accept=False, category="weak_test", concern="c", next_step="n", ts=TS)],
        ),
    ),
    row(
        "nothing came of an iteration",
        STARTED,
        IterationEnded(task_id="1", iteration=1, reason="no_case"),
        tasks=at(TaskStage.WORK, iteration=2, reason="no_case"),
    ),
    row(
        "whoever was to judge what came to nothing is not asked about what comes next",
        STARTED,
        EVALUATOR,
        CASE,
        VALID,
        IterationEnded(task_id="1", iteration=1, reason="lost"),
        tasks=at(TaskStage.WORK, iteration=2, reason="lost"),
    ),
    row(
        "once something came of the next one, that is past",
        STARTED,
        IterationEnded(task_id="1", iteration=1, reason="no_case"),
        CASE,
        ValidationFinished(task_id="1", passed=False),
        tasks=at(TaskStage.WORK, iteration=3),
    ),
    row(
        "what is captured is checked, judged and committed; earlier checks are past",
        STARTED,
        CASE,
        ValidatorFinished(task_id="1", name="pytest", passed=False),
        CAPTURED,
        ValidationFinished(task_id="1", passed=True, tree="t1"),
        tasks=at(TaskStage.EVALUATE, case='{"summary":"done"}', tree="t1", head="h1"),
    ),
    row(
        "a hook that changes the commit has the checks run again, and the verdict stands",
        STARTED,
        CAPTURED,
        HOOKED,
        tasks=at(TaskStage.VALIDATE, tree="t2", head="c2", unchecked="c2", recheck="hook"),
    ),
    row(
        "what a hook made, once it is checked, is committed",
        STARTED,
        CAPTURED,
        HOOKED,
        VALID,
        tasks=at(TaskStage.COMMIT, tree="t2", head="c2", unchecked="c2", recheck="hook"),
    ),
    row(
        "what a hook made, if it does not pass, goes back to the worker",
        STARTED,
        CAPTURED,
        HOOKED,
        ValidationFinished(task_id="1", passed=False),
        tasks=at(TaskStage.WORK, iteration=2, tree="t2", head="c2", unchecked="c2"),
    ),
    row(
        "what somebody else committed is judged too",
        STARTED,
        COMMITTED,
        CommitChanged(task_id="1", commit="c2", tree="t2", reason="moved"),
        VALID,
        tasks=at(TaskStage.EVALUATE, tree="t2", head="c2", commit="abc", unchecked="c2", recheck="moved"),
    ),
    row(
        "a hook that refuses is a check that failed",
        STARTED,
        CAPTURED,
        CommitRefused(task_id="1", tree="t1", output="no"),
        tasks=at(
            TaskStage.WORK,
            iteration=2,
            tree="t1",
            head="h1",
            hook_refused="t1",
            checks=[Check("commit hook", passed=False, output="no")],
        ),
    ),
    row(
        "with its commit, what came before it is past",
        STARTED,
        CAPTURED,
        HOOKED,
        COMMITTED,
        tasks=at(TaskStage.MERGE, tree="t2", head="c2", commit="abc"),
    ),
    row("a commit is to be merged", STARTED, COMMITTED, tasks=at(TaskStage.MERGE, commit="abc")),
    row("nothing to commit is nothing to merge", STARTED, TaskCommitted(task_id="1"), tasks=at(TaskStage.COMPLETE)),
    row(
        "a merged branch is its task's last step but one",
        BranchCreated(name="b", task="1"),
        STARTED,
        COMMITTED,
        BranchMerged(name="b", target="main"),
        tasks=at(TaskStage.COMPLETE, commit="abc"),
    ),
    row(
        "a branch that is merged by others does not end the work",
        BranchCreated(name="b", task="1"),
        STARTED,
        BranchMerged(name="b", target="main"),
        tasks=at(TaskStage.WORK),
    ),
    row(
        "a conflict goes back to the worker",
        STARTED,
        COMMITTED,
        CONFLICT,
        tasks=at(TaskStage.WORK, iteration=2, commit="abc", conflicts=["a.py"], conflicted=1),
    ),
    row(
        "a conflict is over with the next commit",
        STARTED,
        COMMITTED,
        CONFLICT,
        TaskCommitted(task_id="1", commit="def"),
        tasks=at(TaskStage.MERGE, iteration=2, commit="def", conflicted=1),
    ),
    row(
        "a task that is opened again has all its caps, its worker and its verdicts",
        STARTED,
        WORKER,
        EVALUATOR,
        *TURN,
        CASE,
        VALID,
        REJECTED,
        COMMITTED,
        CONFLICT,
        TaskFailed(task_id="1", error="iter_cap"),
        TaskReopened(task_id="1", reason="tried again"),
        tasks={
            "1": Task(
                reason="tried again",
                worker="w",
                since=1,
                verdicts=[EvaluatorVerdict(1, accept=False, category="weak_test", concern="c", next_step="n", ts=TS)],
            )
        },
    ),
    row(
        "a task that restarts has no worker and no checks, but what was said of it",
        *(STARTED, WORKER, *TURN, CASE, VALID, REJECTED, TaskFailed(task_id="1", error="iter_cap")),
        TaskRestarted(task_id="1", reason="chosen"),
        tasks={
            "1": Task(
                reason="chosen",
                verdicts=[EvaluatorVerdict(1, accept=False, category="weak_test", concern="c", next_step="n", ts=TS)],
            )
        },
    ),
    row(
        "what a worker may not have heard is for the one that restarts its task",
        STARTED,
        WORKER,
        InboxConsumed(message="m", cursor=1, kind="user", sender=None, body=Raw(b'{"text":"mind the kelp"}')),
        TurnStarted(conversation="w", turn="t", messages=["m"]),
        InboxHandled(message="m"),
        TurnInterrupted(conversation="w", turn="t"),
        TaskRestarted(task_id="1"),
        messages={"m": OpenMessage("user", None, '{"text":"mind the kelp"}')},
    ),
    row("a failure that is tried again is no issue", TaskFailed(task_id=1), TaskReopened(task_id="1"), issues=[]),
    row(
        "nor is what blocked it",
        BlockerReported(task_id=1, description="no key"),
        TaskReopened(task_id="1"),
        issues=[],
    ),
    row(
        "a wave is open again with its task",
        planned("a", "b"),
        WaveCompleted(wave=1),
        WaveCompleted(wave=2),
        TaskReopened(task_id="1"),
        plan=Plan(["1", "2"], {1: Wave(["1"]), 2: Wave(["2"], completed=True)}),
    ),
    # a plan that is made anew
    row(
        "finished work knows what it was made from",
        planned("a"),
        TaskCompleted(task_id="1", key="a"),
        tasks={"1": Task(TaskStatus.COMPLETE, key="a", done_key="a")},
    ),
    row(
        "so does work whose end did not say",
        planned("a"),
        TaskCompleted(task_id="1"),
        tasks={"1": Task(TaskStatus.COMPLETE, key="a", done_key="a")},
    ),
    row(
        "changed work is to be done, unchanged is done",
        planned("a", "b"),
        TaskCompleted(task_id="1"),
        TaskCompleted(task_id="2"),
        planned("a", "changed"),
        tasks={"1": Task(TaskStatus.COMPLETE, key="a", done_key="a"), "2": Task(key="changed", done_key="b")},
    ),
    row(
        "what was changed back before anybody began is done",
        planned("a"),
        TaskCompleted(task_id="1"),
        planned("changed"),
        planned("a"),
        tasks={"1": Task(TaskStatus.COMPLETE, key="a", done_key="a")},
    ),
    row(
        "what was changed back after that is not",
        planned("a"),
        TaskCompleted(task_id="1"),
        planned("changed"),
        STARTED,
        planned("a"),
        tasks={"1": Task(key="a")},
    ),
    row(
        "work that had begun is told of the change, by the same worker",
        planned("a"),
        STARTED,
        WORKER,
        *TURN,
        CASE,
        planned("changed"),
        tasks={"1": Task(key="changed", worker="w")},
    ),
    row(
        "finished work of which nobody knows what it was made from is left as it is",
        planned(None),
        TaskCompleted(task_id="1"),
        planned("a"),
        tasks={"1": Task(TaskStatus.COMPLETE, key="a")},
    ),
    row(
        "finished work goes with its name",
        planned("a", "b"),
        WORKER,
        TaskCompleted(task_id="1"),
        TaskCompleted(task_id="2"),
        planned("new", "a", "b"),
        tasks={
            "1": Task(key="new"),
            "2": Task(TaskStatus.COMPLETE, key="a", done_key="a"),
            "3": Task(TaskStatus.COMPLETE, key="b", done_key="b"),
        },
    ),
    row(
        "finished work stands for one task only",
        planned("a"),
        TaskCompleted(task_id="1"),
        planned("a", "a"),
        tasks={"1": Task(TaskStatus.COMPLETE, key="a", done_key="a"), "2": Task(key="a")},
    ),
    row(
        "what was skipped or has failed stays so while it is not changed",
        planned("a", "b"),
        TaskSkipped(task_id="1", reason="chosen"),
        TaskFailed(task_id="2", error="QA"),
        planned("a", "b", "c"),
        tasks={
            "1": Task(TaskStatus.SKIPPED, key="a", reason="chosen"),
            "2": Task(TaskStatus.FAILED, key="b", error="QA"),
            "3": Task(key="c"),
        },
    ),
    row(
        "once it is changed it is to be done, and none of its caps is used up",
        planned("a", "b"),
        TaskSkipped(task_id="1", reason="chosen"),
        TaskStarted(task_id="2"),
        TaskFailed(task_id="2", error="QA", attempts=3),
        planned("c", "d"),
        tasks={"1": Task(key="c"), "2": Task(key="d")},
    ),
    row(
        "nothing is in its way any more",
        planned("a"),
        STARTED,
        BlockerReported(task_id=1, description="no key"),
        TaskFailed(task_id=1, error="blocked"),
        planned("changed"),
        issues=[],
    ),
    row(
        "nor in that of what is changed before it failed",
        planned("a"),
        STARTED,
        BlockerReported(task_id=1, description="no key"),
        planned("changed"),
        issues=[],
    ),
    row(
        "what left the plan before it was done, and came back, is to be done; what was skipped stays so",
        planned("a", "b", "c", "d"),
        TaskStarted(task_id="2"),
        TaskStarted(task_id="3"),
        TaskFailed(task_id="3", error="QA"),
        TaskSkipped(task_id="4"),
        planned("a"),
        planned("a", "b", "c", "d"),
        tasks={"1": Task(key="a"), "2": Task(key="b"), "3": Task(key="c"), "4": Task(TaskStatus.SKIPPED, key="d")},
    ),
    row(
        "the wave of what is changed is open again",
        planned("a"),
        TaskSkipped(task_id="1"),
        WaveCompleted(wave=1),
        planned("changed"),
        plan=Plan(["1"], {1: Wave(["1"])}),
    ),
    row(
        "a wave that was closed stays so while nothing in it is to be done",
        planned("a", "b"),
        TaskCompleted(task_id="1"),
        WaveCompleted(wave=1),
        TaskCompleted(task_id="2"),
        WaveCompleted(wave=2),
        planned("a", "changed"),
        plan=Plan(["1", "2"], {1: Wave(["1"], started=True, completed=True), 2: Wave(["2"])}),
    ),
    # messages
    row(
        "a message says whom it is for",
        InboxConsumed(cursor=7, message="m", kind="user", body=Raw(b'{"text":"go","task":"1"}')),
        messages={"m": OpenMessage("user", body='{"text":"go","task":"1"}', task="1")},
    ),
    row(
        "or is for anyone",
        InboxConsumed(cursor=7, message="m", kind="user", body=Raw(b'{"text":"go","task":7}')),
        messages={"m": OpenMessage("user", body='{"text":"go","task":7}')},
    ),
)


@pytest.mark.parametrize("case", TABLE, ids=[case.fact for case in TABLE])
def test_fact(case: Row) -> None:
    assert getattr(fold_once(session_log(*case.events)).state, case.field) == case.expected


def test_the_newest_verdicts_of_a_task_are_kept() -> None:
    verdicts: list[Event] = [VerdictGiven(task_id="1", iteration=number, accept=False) for number in range(60)]
    task = fold_once(session_log(STARTED, *verdicts)).state.tasks["1"]
    assert [verdict.iteration for verdict in task.verdicts] == list(range(10, 60))
    assert task.evaluations == 60


def test_what_blocks_others_still_does_when_a_task_is_opened_again() -> None:
    blockers = [BlockerReported(task_id=number, description="no key") for number in (1, 2)]
    state = fold_once(session_log(*blockers, TaskReopened(task_id=1))).state
    assert [issue.task for issue in state.issues] == ["2"]


def test_who_argues_that_it_is_done_is_no_longer_blocked() -> None:
    blockers = [BlockerReported(task_id=number, description="no key") for number in (1, 2)]
    state = fold_once(session_log(*blockers, CASE)).state
    assert [issue.task for issue in state.issues] == ["2"]
