"""What is in the way of a run's task stays so past the checkpoints of others; of any other log, nothing does."""

import pytest

from holdfast.core.decide.resume import ResumeCase
from holdfast.core.events import Event
from holdfast.core.events.checkpoint import Checkpoint
from holdfast.core.events.issue import BlockerReported, ErrorEncountered
from holdfast.core.events.plan import PlanCreated, PlannedTask, PlannedWave
from holdfast.core.events.session import RunCreated, SessionStart
from holdfast.core.events.task import TaskCompleted, TaskFailed, TaskSkipped, TaskStarted
from holdfast.core.events.work import CaseSubmitted, TaskReopened
from tests.core.logs import analysis_of, session_log
from tests.core.phase_logs import PLANNED, completed, delivered, next_of, plan, started, state_of

START = SessionStart(command="run")
RUN = RunCreated(run_id="r1", goal="g")
POINT = Checkpoint(label="wave-1-complete", plan_step="wave-2-start")
BEGUN = TaskStarted(task_id="2")
BLOCKED = BlockerReported(task_id="2", description="no key")
FAILED = TaskFailed(task_id="2", error="blocked")
ERROR = ErrorEncountered(error="TypeError", file="a.py")


def planned(**keys: str) -> PlanCreated:
    names = [name.removeprefix("t") for name in keys]
    return PlanCreated(
        tasks=[PlannedTask(id=name, key=key) for name, key in zip(names, keys.values(), strict=True)],
        waves=[PlannedWave(wave=int(name), task_ids=[name]) for name in names],
    )


PLAN = planned(t1="a", t2="b")

STAY: dict[str, tuple[Event, ...]] = {
    "a failure": (BEGUN, FAILED, POINT),
    "a failure, and what led to it": (BEGUN, BLOCKED, FAILED, POINT),
    "what blocks one that has not failed yet": (BEGUN, BLOCKED, POINT),
    "a failure, past all that comes later": (BEGUN, FAILED, POINT, TaskStarted(task_id="1"), POINT),
    "a failure that the next plan does not touch": (BEGUN, FAILED, planned(t1="changed", t2="b"), POINT),
}
GO: dict[str, tuple[Event, ...]] = {
    "an error, which is no task's": (ERROR, POINT),
    "a failure of what was opened again": (BEGUN, FAILED, TaskReopened(task_id="2"), POINT),
    "a failure of what was skipped": (BEGUN, BLOCKED, FAILED, TaskSkipped(task_id="2"), POINT),
    "a blocker that its worker got past": (BEGUN, BLOCKED, CaseSubmitted(task_id="2", iteration=1), POINT),
    "a blocker of what is done": (BEGUN, BLOCKED, TaskCompleted(task_id="2"), POINT),
    "a failure of what is planned otherwise": (BEGUN, BLOCKED, FAILED, POINT, planned(t1="a", t2="changed")),
    "a failure of what left the plan and came back": (BEGUN, FAILED, planned(t1="a"), PLAN, POINT),
    "a blocker of what left the plan and came back": (BEGUN, BLOCKED, planned(t1="a"), PLAN, POINT),
    "a failure of what is in the plan no more": (BEGUN, BLOCKED, FAILED, POINT, planned(t1="a")),
}


@pytest.mark.parametrize("events", STAY.values(), ids=STAY)
def test_a_checkpoint_does_not_leave_behind(events: tuple[Event, ...]) -> None:
    analysis = analysis_of(session_log(START, RUN, PLAN, *events))
    assert {issue.task for issue in analysis.issues} == {"2"}
    assert analysis.decision.case is ResumeCase.ISSUES
    assert analysis.decision.affected == ("2",)


@pytest.mark.parametrize("events", GO.values(), ids=GO)
def test_nobody_is_asked_any_more_about(events: tuple[Event, ...]) -> None:
    analysis = analysis_of(session_log(START, RUN, PLAN, *events))
    assert (analysis.issues, analysis.decision.case) == ((), ResumeCase.AUTO)


@pytest.mark.parametrize("events", [*STAY.values(), *GO.values()], ids=[*STAY, *GO])
def test_in_a_log_that_is_no_runs_a_checkpoint_leaves_all_of_it_behind(events: tuple[Event, ...]) -> None:
    analysis = analysis_of(session_log(START, PLAN, *events, POINT))
    assert (analysis.issues, analysis.decision.case) == ((), ResumeCase.AUTO)


AGAIN: tuple[Event, ...] = (
    *(*PLANNED, started("implementing"), TaskStarted(task_id="A"), TaskFailed(task_id="A", error="blocked")),
    started("planning", 2, changes=["m"]),
)
REWORDED = PlanCreated(
    tasks=[PlannedTask(id="A", summary="make A", description="in another way", key="another")],
    waves=[PlannedWave(wave=1, task_ids=["A"])],
)
CLOSED: tuple[Event, ...] = (
    *(delivered("planning", "submit_plan"), *completed("planning", round_=2), Checkpoint(label="planning-2-done")),
    *(*completed("designing", "skipped", 0), started("implementing", 2)),
)


def test_a_failed_task_that_is_planned_again_as_it_was_waits_for_a_person() -> None:
    events = (*AGAIN, plan("A"), *CLOSED)
    assert next_of(*events) == "stop (failed)"
    assert [issue.task for issue in state_of(*events).issues] == ["A"]


def test_a_failed_task_that_is_planned_otherwise_is_begun() -> None:
    events = (*AGAIN, REWORDED, *CLOSED)
    assert next_of(*events) == "start A 1"
    assert state_of(*events).issues == []
