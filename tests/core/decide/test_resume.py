import pytest

from holdfast.core.decide.resume import Case, Choice, Decision, Option, ResumeChoice, choice_of, decide_resume, tasks_of
from holdfast.core.events import Event
from holdfast.core.events.agent import AgentSpawned
from holdfast.core.events.branch import BranchCreated, BranchMerged
from holdfast.core.events.checkpoint import Checkpoint
from holdfast.core.events.issue import BlockerReported, ErrorEncountered
from holdfast.core.events.plan import Dependency, PlanCreated, PlannedTask
from holdfast.core.events.session import ResumeChosen, RunResumed, SessionEnd, SessionStart
from holdfast.core.events.task import TaskCompleted, TaskFailed, TaskSkipped, TaskStarted, WaveStarted
from holdfast.core.events.work import TaskCommitted
from holdfast.core.state import Issue
from holdfast.leaf.errors import BadInput
from tests.core.logs import analysis_of, entry, fold_all, sitting

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


def test_with_issues_there_are_four_ways_on() -> None:
    assert decision_on(POINT, FAILED) == Decision(
        Case.ISSUES,
        "wave-2-start",
        ("2",),
        (
            Option(
                "A", "Restart Task #2 from scratch: new branch, new agent; its work so far is saved", Choice.RESTART
            ),
            Option("B", "Continue past it — skip Task #2, proceed to next wave", Choice.SKIP),
            CUSTOM,
            Option("D", "Retry Task #2: keep its work and conversation", Choice.RETRY),
        ),
    )


def test_issues_of_no_task_restart_from_the_checkpoint() -> None:
    found = decision_on(POINT, ErrorEncountered(error="E"))
    assert found.affected == ()
    assert found.offered == (Choice.RESTART, Choice.SKIP, Choice.CUSTOM, Choice.RETRY)
    assert found.options[0].label.startswith('Restart from "wave-1-complete": ')


def test_issues_of_no_task_and_no_checkpoint_restart_from_the_beginning() -> None:
    found = decision_on(ErrorEncountered(error="E"))
    assert (found.case, found.next_step) == (Case.ISSUES, None)
    assert found.options[0].label.startswith("Restart from the beginning: ")


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
    assert found.options[0].label.startswith("Restart Tasks #T-1, #T-9, #T-10 from scratch: ")


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


# What is chosen

ISSUES = decision_on(POINT, FAILED)
EARLY = decision_on(PLAN, TaskStarted(task_id="1"))


@pytest.mark.parametrize(
    ("policy", "instructions", "decision", "chosen"),
    [
        ("retry", None, ISSUES, ResumeChoice(Choice.RETRY)),
        ("fix", None, ISSUES, ResumeChoice(Choice.RETRY)),
        ("restart", None, ISSUES, ResumeChoice(Choice.RESTART)),
        ("skip", None, ISSUES, ResumeChoice(Choice.SKIP)),
        ("restart", "mind the kelp", ISSUES, ResumeChoice(Choice.RESTART, "mind the kelp")),
        ("skip", "skip", ISSUES, ResumeChoice(Choice.SKIP, "skip")),
        (None, "skip", ISSUES, ResumeChoice(Choice.CUSTOM, "skip")),
        ("ask", "skip", ISSUES, ResumeChoice(Choice.CUSTOM, "skip")),
        ("mind the kelp", None, ISSUES, ResumeChoice(Choice.CUSTOM, "mind the kelp")),
        ("mind the kelp", "skip", ISSUES, ResumeChoice(Choice.CUSTOM, "mind the kelp\n\nskip")),
        ("Skip", None, ISSUES, ResumeChoice(Choice.CUSTOM, "Skip")),
        ("ask", None, ISSUES, None),
        (None, None, ISSUES, None),
        ("restart", None, EARLY, ResumeChoice(Choice.RESTART)),
        ("retry", None, EARLY, ResumeChoice(Choice.RESTART)),
        ("fix", None, EARLY, ResumeChoice(Choice.RESTART)),
        ("replan", None, EARLY, ResumeChoice(Choice.REPLAN)),
        (None, "use the old schema", EARLY, ResumeChoice(Choice.CUSTOM, "use the old schema")),
    ],
)
def test_policy_and_instructions_are_read_once(
    policy: str | None, instructions: str | None, decision: Decision, chosen: ResumeChoice | None
) -> None:
    assert choice_of(policy, instructions, decision) == chosen


@pytest.mark.parametrize(("policy", "decision"), [("replan", ISSUES), ("skip", EARLY)])
def test_choice_that_is_not_offered_is_refused(policy: str, decision: Decision) -> None:
    with pytest.raises(BadInput, match=f"--on-issue {policy} is not possible here; possible are re"):
        choice_of(policy, None, decision)


def test_recorded_choice_is_not_asked_for_again() -> None:
    chosen = ResumeChosen(choice="restart", tasks=["2"])
    found = decision_on(POINT, FAILED, chosen)
    assert (found.case, found.chosen, found.affected) == (Case.AUTO, Choice.RESTART, ("2",))
    assert found.options == ISSUES.options
    assert decision_on(POINT, FAILED, chosen, RunResumed(summary="on", decision="restart")).chosen is None
    assert decision_on(POINT, FAILED, ResumeChosen(choice="of a newer version")).case is Case.ISSUES


BEGUN = [TaskStarted(task_id=name) for name in ("1", "2", "3", "4")]
BLOCKED = BlockerReported(description="no key", task_id="3")
MERGED = (TaskCommitted(task_id="4", commit="c"), BranchCreated(name="b", task="4"), BranchMerged(name="b", target="m"))


@pytest.mark.parametrize(
    ("choice", "events", "affected", "names"),
    [
        (Choice.RETRY, (FAILED, BLOCKED), ["2", "3", "4"], ["2", "3"]),
        (Choice.CUSTOM, (FAILED, BLOCKED), ["2", "3", "4"], ["2", "3"]),
        (Choice.SKIP, (FAILED, BLOCKED), ["2", "3", "4"], ["2", "3", "4"]),
        (Choice.RESTART, (FAILED, BLOCKED), ["2", "3", "4"], ["2", "3", "4"]),
        (Choice.RESTART, (FAILED,), ["2", "9"], ["2"]),
        (Choice.RESTART, (TaskCompleted(task_id="1"),), [], ["2", "3", "4"]),
        (Choice.RESTART, MERGED, ["4"], ["1", "2", "3"]),
        (Choice.SKIP, MERGED, ["4"], []),
        (Choice.SKIP, (), [], []),
    ],
)
def test_tasks_of_a_choice(choice: Choice, events: tuple[Event, ...], affected: list[str], names: list[str]) -> None:
    assert tasks_of(choice, fold_all(sitting(START, *BEGUN, *events)), affected) == names
