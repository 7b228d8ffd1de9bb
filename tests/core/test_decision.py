import pytest

from holdfast.core.decision import Case, Choice, Decision, Option, decide_resume
from holdfast.core.events import Event
from holdfast.core.events.agent import AgentSpawned
from holdfast.core.events.checkpoint import Checkpoint
from holdfast.core.events.issue import BlockerReported, ErrorEncountered
from holdfast.core.events.plan import Dependency, PlanCreated, PlannedTask
from holdfast.core.events.session import SessionEnd, SessionStart
from holdfast.core.events.task import TaskCompleted, TaskFailed, TaskSkipped, TaskStarted, WaveStarted
from holdfast.core.state import Issue
from tests.core.logs import analysis_of, entry, sitting

START = SessionStart(command="implement")
POINT = Checkpoint(label="wave-1-complete", plan_step="wave-2-start")
PLAN = PlanCreated(
    tasks=[PlannedTask(id=name) for name in ("1", "2", "3", "4", "5")],
    dependencies=[
        Dependency(task_id="2", blocked_by="1"),
        Dependency(task_id="3", blocked_by="2"),
        Dependency(task_id="4", blocked_by="3"),
    ],
)
FAILED = TaskFailed(task_id="2", error="QA failed 3 rounds", attempts=3)
CUSTOM = Option("C", "Provide custom instructions", Choice.CUSTOM)


def decision_on(*events: Event) -> Decision:
    return analysis_of(sitting(START, *events)).decision


def warning_of(decision: Decision) -> str | None:
    (skip,) = [option for option in decision.options if option.choice is Choice.SKIP]
    return skip.warning


# Each case


def test_without_issues_it_goes_on_by_itself_with_the_planned_step() -> None:
    assert decision_on(PLAN, POINT) == Decision(Case.AUTO, "wave-2-start")


def test_a_checkpoint_without_a_step_goes_on_by_itself_all_the_same() -> None:
    assert decision_on(Checkpoint(label="l")) == Decision(Case.AUTO)


def test_with_issues_there_are_three_ways_on() -> None:
    assert decision_on(POINT, FAILED) == Decision(
        Case.ISSUES,
        "wave-2-start",
        ("2",),
        (
            Option("A", "Fix the problem, restart Task #2 from scratch", Choice.FIX),
            Option("B", "Continue past it — skip Task #2, proceed to next wave", Choice.SKIP),
            CUSTOM,
        ),
    )


def test_issues_of_no_task_restart_from_the_checkpoint() -> None:
    found = decision_on(POINT, ErrorEncountered(error="E"))
    assert found.affected == ()
    assert [option.label for option in found.options] == [
        'Fix the problem, restart from "wave-1-complete"',
        "Continue past it — proceed to the next planned step",
        "Provide custom instructions",
    ]


def test_issues_of_no_task_and_no_checkpoint_restart_from_the_beginning() -> None:
    found = decision_on(ErrorEncountered(error="E"))
    assert (found.case, found.next_step) == (Case.ISSUES, None)
    assert found.options[0].label == "Fix the problem, restart from the beginning"


def test_without_a_checkpoint_a_plan_is_offered_for_reuse() -> None:
    assert decision_on(PLAN, TaskStarted(task_id="1")) == Decision(
        Case.NO_CHECKPOINT,
        options=(
            Option("A", "Restart from scratch (reuse existing plan)", Choice.RESTART),
            Option("B", "Restart from scratch (create new plan)", Choice.REPLAN),
            CUSTOM,
        ),
    )


@pytest.mark.parametrize(
    "before", [(), (WaveStarted(wave=1),), (PlanCreated(),)], ids=["none", "a wave", "an empty one"]
)
def test_without_a_checkpoint_and_without_tasks_in_a_plan_none_is_offered(before: tuple[Event, ...]) -> None:
    found = decision_on(*before)
    assert found.case is Case.NO_CHECKPOINT
    assert found.options[0] == Option("A", "Restart from scratch (same goal, no plan was made)", Choice.RESTART)


def test_a_finished_session_has_nothing_to_decide() -> None:
    assert decision_on(POINT, FAILED, SessionEnd(reason="completed")) == Decision(Case.COMPLETE)


# Whom it touches


def test_affected_tasks_are_named_once_in_the_order_of_their_numbers() -> None:
    failures = [TaskFailed(task_id=task) for task in ("T-10", "T-9", "T-1")]
    blocker = BlockerReported(description="no key", task_id="T-9")
    found = decision_on(POINT, *failures, blocker)
    assert found.affected == ("T-1", "T-9", "T-10")
    assert found.options[0].label == "Fix the problem, restart Tasks #T-1, #T-9, #T-10 from scratch"


def test_an_error_touches_the_task_of_the_agent_that_met_it() -> None:
    log = sitting(START, POINT, AgentSpawned(name="eng", task=2)) + entry(ErrorEncountered(), 3, agent="eng")
    assert analysis_of(log).decision.affected == ("2",)


def test_the_same_issues_in_any_order_give_the_same_decision() -> None:
    issues = [Issue("task.failed", seq, task=task) for seq, task in enumerate(["T-1", "T-01", "1", None, "T-2"])]
    decisions = [
        decide_resume(finished=False, checkpoint=None, issues=order, plan=None, tasks={})
        for order in (issues, issues[::-1], issues[2:] + issues[:2])
    ]
    assert decisions[0] == decisions[1] == decisions[2]
    assert decisions[0].affected == ("1", "T-01", "T-1", "T-2")


# What skipping leaves behind


@pytest.mark.parametrize(
    ("events", "warning"),
    [
        ((PLAN, POINT, FAILED), "Tasks #3, #4 would be left without their input"),
        ((PLAN, POINT, TaskFailed(task_id="3")), "Task #4 would be left without its input"),
        ((PLAN, POINT, TaskFailed(task_id="4")), None),
        ((PLAN, POINT, TaskFailed(task_id="5")), None),
        ((PLAN, POINT, TaskFailed(task_id="9")), None),
        ((PLAN, POINT, TaskSkipped(task_id="3"), FAILED), "Task #4 would be left without its input"),
        ((PLAN, POINT, TaskCompleted(task_id="3"), TaskCompleted(task_id="4"), FAILED), None),
        ((PLAN, POINT, TaskStarted(task_id="3"), FAILED), "Tasks #3, #4 would be left without their input"),
        ((PLAN, POINT, FAILED, TaskFailed(task_id="3")), "Task #4 would be left without its input"),
        ((PLAN, POINT, ErrorEncountered()), None),
        ((POINT, FAILED), None),
    ],
)
def test_skipping_warns_of_unfinished_tasks_that_would_miss_their_input(
    events: tuple[Event, ...], warning: str | None
) -> None:
    assert warning_of(decision_on(*events)) == warning


CIRCLE = PlanCreated(
    tasks=[PlannedTask(id="1"), PlannedTask(id="2")],
    dependencies=[Dependency(task_id="1", blocked_by="2"), Dependency(task_id="2", blocked_by="1")],
)


def test_skipping_no_task_warns_of_nothing_whatever_the_plan() -> None:
    assert warning_of(decision_on(CIRCLE, POINT, ErrorEncountered())) is None


def test_skipping_in_a_plan_that_cannot_work_warns_that_nobody_can_tell() -> None:
    warning = warning_of(decision_on(CIRCLE, POINT, FAILED))
    assert warning is not None
    assert warning.startswith("the plan cannot tell what depends on it: the plan goes in a circle: '1' → '2' → '1'")
