import pytest

from holdfast.core.decide.resume import (
    Choice,
    Opening,
    ResumeCase,
    ResumeChoice,
    ResumeDecision,
    ResumeOption,
    ResumeOutcome,
    chosen_tasks,
    decide_resume,
    given_choice,
    is_finished,
    opening_of,
    parse_choice,
    resolve_choice,
    resume_events,
    task_actions,
    tasks_for_choice,
    workspace_actions,
)
from holdfast.core.events import Event
from holdfast.core.events.agent import AgentSpawned
from holdfast.core.events.branch import BranchCreated, BranchDeleted, BranchMerged
from holdfast.core.events.checkpoint import Checkpoint
from holdfast.core.events.issue import BlockerReported, ErrorEncountered, WarningLogged
from holdfast.core.events.phase import PhaseFailed, PhaseStarted
from holdfast.core.events.plan import Dependency, PlanCreated, PlannedTask
from holdfast.core.events.session import ResumeChosen, RunResumed, SessionEnd, SessionStart
from holdfast.core.events.task import TaskCompleted, TaskFailed, TaskSkipped, TaskStarted, WaveStarted
from holdfast.core.events.work import TaskCommitted, TaskReopened, TaskRestarted
from holdfast.core.state import Issue, RunState
from holdfast.leaf.errors import BadInput, DecisionNeeded
from tests.core.logs import analysis_of, entry, fold_all, session_log

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
CUSTOM = ResumeOption("C", "Provide custom instructions", Choice.CUSTOM)


def decision_on(*events: Event) -> ResumeDecision:
    return analysis_of(session_log(START, *events)).decision


def warning_of(decision: ResumeDecision) -> str | None:
    (skip,) = [option for option in decision.options if option.choice is Choice.SKIP]
    return skip.warning


# Each case


def test_without_issues_it_goes_on_by_itself_with_the_planned_step() -> None:
    assert decision_on(PLAN, POINT) == ResumeDecision(ResumeCase.AUTO, "wave-2-start")


def test_a_checkpoint_without_a_step_goes_on_by_itself_all_the_same() -> None:
    assert decision_on(Checkpoint(label="l")) == ResumeDecision(ResumeCase.AUTO)


def test_with_issues_there_are_four_ways_on() -> None:
    assert decision_on(POINT, FAILED) == ResumeDecision(
        ResumeCase.ISSUES,
        "wave-2-start",
        ("2",),
        (
            ResumeOption(
                "A", "Restart Task #2 from scratch: new branch, new agent; its work so far is saved", Choice.RESTART
            ),
            ResumeOption("B", "Continue past it — skip Task #2, proceed to next wave", Choice.SKIP),
            CUSTOM,
            ResumeOption("D", "Retry Task #2: keep its work and conversation", Choice.RETRY),
        ),
    )


def test_issues_of_no_task_restart_from_the_checkpoint() -> None:
    found = decision_on(POINT, ErrorEncountered(error="E"))
    assert found.affected == ()
    assert found.offered_choices == (Choice.RESTART, Choice.SKIP, Choice.CUSTOM, Choice.RETRY)
    assert found.options[0].label.startswith('Restart from "wave-1-complete": ')


def test_issues_of_no_task_and_no_checkpoint_restart_from_the_beginning() -> None:
    found = decision_on(ErrorEncountered(error="E"))
    assert (found.case, found.next_step) == (ResumeCase.ISSUES, None)
    assert found.options[0].label.startswith("Restart from the beginning: ")


def test_without_a_checkpoint_a_plan_is_offered_for_reuse() -> None:
    assert decision_on(PLAN, TaskStarted(task_id="1")) == ResumeDecision(
        ResumeCase.NO_CHECKPOINT,
        options=(
            ResumeOption("A", "Restart from scratch (reuse existing plan)", Choice.RESTART),
            ResumeOption("B", "Restart from scratch (create new plan)", Choice.REPLAN),
            CUSTOM,
        ),
    )


@pytest.mark.parametrize(
    "before", [(), (WaveStarted(wave=1),), (PlanCreated(),)], ids=["none", "a wave", "an empty one"]
)
def test_without_a_checkpoint_and_without_tasks_in_a_plan_none_is_offered(before: tuple[Event, ...]) -> None:
    found = decision_on(*before)
    assert found.case is ResumeCase.NO_CHECKPOINT
    assert found.options[0] == ResumeOption("A", "Restart from scratch (same goal, no plan was made)", Choice.RESTART)


def test_a_finished_session_has_nothing_to_decide() -> None:
    assert decision_on(POINT, FAILED, SessionEnd(reason="completed")) == ResumeDecision(ResumeCase.COMPLETE)


# Whom it touches


def test_affected_tasks_are_named_once_in_the_order_of_their_numbers() -> None:
    failures = [TaskFailed(task_id=task) for task in ("T-10", "T-9", "T-1")]
    blocker = BlockerReported(description="no key", task_id="T-9")
    found = decision_on(POINT, *failures, blocker)
    assert found.affected == ("T-1", "T-9", "T-10")
    assert found.options[0].label.startswith("Restart Tasks #T-1, #T-9, #T-10 from scratch: ")


def test_an_error_touches_the_task_of_the_agent_that_met_it() -> None:
    log = session_log(START, POINT, AgentSpawned(name="eng", task=2)) + entry(ErrorEncountered(), 3, agent="eng")
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
        ((PLAN, POINT, FAILED), "Tasks #3, #4 would be missing their input"),
        ((PLAN, POINT, TaskFailed(task_id="3")), "Task #4 would be missing its input"),
        ((PLAN, POINT, TaskFailed(task_id="4")), None),
        ((PLAN, POINT, TaskFailed(task_id="5")), None),
        ((PLAN, POINT, TaskFailed(task_id="9")), None),
        ((PLAN, POINT, TaskSkipped(task_id="3"), FAILED), "Task #4 would be missing its input"),
        ((PLAN, POINT, TaskCompleted(task_id="3"), TaskCompleted(task_id="4"), FAILED), None),
        ((PLAN, POINT, TaskStarted(task_id="3"), FAILED), "Tasks #3, #4 would be missing their input"),
        ((PLAN, POINT, FAILED, TaskFailed(task_id="3")), "Task #4 would be missing its input"),
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
    assert warning.startswith("the tasks that depend on it are unknown: the plan has a cycle: '1' → '2' → '1'")


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
    policy: str | None, instructions: str | None, decision: ResumeDecision, chosen: ResumeChoice | None
) -> None:
    assert parse_choice(policy, instructions, decision) == chosen


@pytest.mark.parametrize(("policy", "decision"), [("replan", ISSUES), ("skip", EARLY)])
def test_choice_that_is_not_offered_is_refused(policy: str, decision: ResumeDecision) -> None:
    with pytest.raises(BadInput, match=f"--on-issue {policy} is not possible here; use one of re"):
        parse_choice(policy, None, decision)


def test_choice_that_was_given_counts_when_the_run_needs_one() -> None:
    """By the run as it is then: it may have ended since its user looked at it."""
    for decision in (ISSUES, EARLY):
        chosen = given_choice(decision, on_issue="restart", instructions=None, default="ask")
        assert chosen == ResumeChoice(Choice.RESTART)
    recorded = decision_on(POINT, FAILED, ResumeChosen(choice="restart", tasks=["2"]))
    assert given_choice(recorded, on_issue=None, instructions=None, default="skip") is None
    assert given_choice(recorded, on_issue="skip", instructions=None, default=None) == ResumeChoice(Choice.SKIP)
    goes_on = decision_on(POINT)
    assert goes_on.case is ResumeCase.AUTO
    assert given_choice(goes_on, on_issue="restart", instructions=None, default=None) is None
    assert given_choice(goes_on, on_issue=None, instructions="go", default="retry") == ResumeChoice(None, "go")
    assert given_choice(ISSUES, on_issue=None, instructions=None, default="ask") is None


def test_recorded_choice_is_not_asked_for_again() -> None:
    chosen = ResumeChosen(choice="restart", tasks=["2"])
    found = decision_on(POINT, FAILED, chosen)
    assert (found.case, found.chosen, found.affected) == (ResumeCase.AUTO, Choice.RESTART, ("2",))
    assert found.options == ISSUES.options
    assert decision_on(POINT, FAILED, chosen, RunResumed(summary="on", decision="restart")).chosen is None
    assert decision_on(POINT, FAILED, ResumeChosen(choice="of a newer version")).case is ResumeCase.ISSUES


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
    assert tasks_for_choice(choice, fold_all(session_log(START, *BEGUN, *events)), affected) == names


# What a session does, as a table

THREE = PlanCreated(tasks=[PlannedTask(id="1"), PlannedTask(id="2"), PlannedTask(id="3")])


def branch(task: str | None) -> BranchCreated:
    return BranchCreated(name=f"b-{task}", task=task)


def chosen(choice: str, *tasks: str) -> ResumeChosen:
    return ResumeChosen(choice=choice, tasks=list(tasks), instructions="mind the kelp")


BEGUN_1 = (THREE, TaskStarted(task_id="1"), branch("1"))
ONE_DONE = (*BEGUN_1, TaskCompleted(task_id="1"))
AT_WORK = (THREE, TaskStarted(task_id="2"), branch("2"))
FAILED_2 = (*AT_WORK, TaskFailed(task_id="2", error="QA", attempts=3))
BLOCKED_2 = (*AT_WORK, BlockerReported(description="no key", task_id="2"))
MERGED_1 = (
    THREE,
    TaskStarted(task_id="1"),
    branch("1"),
    BranchMerged(name="b-1", target="main"),
    TaskCompleted(task_id="1"),
)
BAD_PHASE = (PhaseStarted(phase="planning", round=1), PhaseFailed(phase="planning", round=1, reason="x"))

#  what the log has                          before git is compared with it | after | what is recorded
RESUMES: dict[str, tuple[tuple[Event, ...], str]] = {
    "nothing yet": ((), "- | - | run.resumed"),
    "a task at work": (AT_WORK, "- | - | run.resumed"),
    "a task done, its branch never merged": (ONE_DONE, "delete 1 | - | run.resumed"),
    "a task done, its branch merged": (MERGED_1, "- | - | run.resumed"),
    "a task failed, nothing chosen": (FAILED_2, "- | - | run.resumed"),
    "retry": ((*FAILED_2, chosen("retry", "2")), "- | unwind 2 | task.reopened 2, run.resumed retry"),
    "instructions": ((*FAILED_2, chosen("custom", "2")), "- | unwind 2 | task.reopened 2, run.resumed custom"),
    "replan": ((*FAILED_2, chosen("replan", "2")), "- | unwind 2 | task.reopened 2, run.resumed replan"),
    "retry, of a task whose restart had begun": (
        (*FAILED_2, BranchDeleted(name="b-2"), chosen("retry", "2")),
        "- | - | task.reopened 2, run.resumed retry",
    ),
    "restart": ((*FAILED_2, chosen("restart", "2")), "discard 2 | - | task.restarted 2, run.resumed restart"),
    "restart of several": (
        (*FAILED_2, TaskStarted(task_id="3"), branch("3"), chosen("restart", "2", "3")),
        "discard 2, discard 3 | - | task.restarted 2, task.restarted 3, run.resumed restart",
    ),
    "restart, and another is done": (
        (*ONE_DONE, *FAILED_2[1:], chosen("restart", "2")),
        "discard 2, delete 1 | - | task.restarted 2, run.resumed restart",
    ),
    "skip a failed task": ((*FAILED_2, chosen("skip", "2")), "- | - | task.skipped 2, run.resumed skip"),
    "skip a blocked task": ((*BLOCKED_2, chosen("skip", "2")), "- | fail 2 | task.skipped 2, run.resumed skip"),
    "skip one that has no worktree": (
        (THREE, TaskStarted(task_id="3"), chosen("skip", "3")),
        "- | - | task.skipped 3, run.resumed skip",
    ),
    "a task that is there no more": ((*FAILED_2, chosen("retry", "9")), "- | - | run.resumed retry"),
    "a choice of a newer version": ((*FAILED_2, chosen("bargain", "2")), "- | - | run.resumed"),
    "a choice of an older version": ((*FAILED_2, chosen("fix", "2")), "- | - | run.resumed"),
    "a choice that was acted on": (
        (*FAILED_2, chosen("retry", "2"), TaskReopened(task_id="2"), RunResumed(summary="on", decision="retry")),
        "- | - | run.resumed",
    ),
    "a failed phase": (BAD_PHASE, "- | - | phase.reopened planning, run.resumed"),
    "a failed phase, and a skip": (
        (*BAD_PHASE, *FAILED_2, chosen("skip", "2")),
        "- | - | task.skipped 2, phase.reopened planning, run.resumed skip",
    ),
}
WORKTREES = ("1", "2")


def resumed(state: RunState, outcome: ResumeOutcome | None = None) -> str:
    """What a session does with a state, in one line."""
    pick = chosen_tasks(state)
    before, after = workspace_actions(state, pick), task_actions(state, pick, WORKTREES)
    outcome = outcome or ResumeOutcome(salvaged={action.task: ["ref"] for action in before})
    lists = [[f"{step} {task}" for step, task in actions] for actions in (before, after)]
    lists.append([_told(event) for event in resume_events(state, pick, outcome)])
    return " | ".join(", ".join(each) or "-" for each in lists)


def _told(event: Event) -> str:
    about = next(
        (getattr(event, name, None) for name in ("task_id", "phase", "decision") if hasattr(event, name)), None
    )
    return event.type if about is None else f"{event.type} {about}"


@pytest.mark.parametrize("what", RESUMES)
def test_what_a_session_does_with_what_the_log_has(what: str) -> None:
    events, expected = RESUMES[what]
    assert resumed(fold_all(session_log(START, *events))) == expected


def test_every_choice_is_in_the_table() -> None:
    listed = {event.choice for events, _ in RESUMES.values() for event in events if isinstance(event, ResumeChosen)}
    assert listed > {*Choice}


def test_resume_records_what_was_done_for_whom() -> None:
    state = fold_all(session_log(START, *FAILED_2, chosen("restart", "2"), sid="s1"))
    outcome = ResumeOutcome(
        instructions="not these: the choice has its own",
        last_sid="s1",
        salvaged={"2": ["refs/a", "refs/b"]},
        settled=["merge 1: it had happened"],
        reconciled=["b-1 was lost; it is created again"],
        warnings=["plan.md was edited"],
        plan=THREE,
    )
    warned, restarted, planned, done = resume_events(state, chosen_tasks(state), outcome)
    assert warned == WarningLogged(message="plan.md was edited")
    assert isinstance(restarted, TaskRestarted)
    assert restarted.salvaged == ["refs/a", "refs/b"]
    assert planned == THREE
    assert done == RunResumed(
        summary="0 of 3 tasks done; restarting from scratch 2; the plan was changed meanwhile",
        last_stop="killed",
        decision="restart",
        pending=["1", "3"],
        settled=["merge 1: it had happened"],
        reconciled=["b-1 was lost; it is created again"],
        instructions="mind the kelp",
        restarted=["2"],
        salvaged=["refs/a", "refs/b"],
    )


def test_plan_comes_before_a_skip() -> None:
    """A changed plan must not bring back the task that a person skipped."""
    state = fold_all(session_log(START, *FAILED_2, chosen("skip", "2")))
    assert resumed(state, ResumeOutcome(plan=THREE)).endswith("plan.created, task.skipped 2, run.resumed skip")


@pytest.mark.parametrize(
    ("command", "ended", "opening"),
    [
        ("plan", True, Opening.START),
        ("plan", False, Opening.FINISH_PLANNING),
        ("run", True, Opening.RESUME),
        ("run", False, Opening.RESUME),
        ("resume", False, Opening.RESUME),
    ],
)
def test_session_opens_by_what_the_one_before_left(command: str, ended: bool, opening: Opening) -> None:
    end = [SessionEnd(reason="planned")] if ended else []
    assert opening_of(fold_all(session_log(SessionStart(command=command), *end))) is opening


RETRY, ONLY_WORDS = ResumeChoice(Choice.RETRY, "i"), ResumeChoice(None, "i")
AUTO, RECORDED = ResumeDecision(ResumeCase.AUTO), ResumeDecision(ResumeCase.AUTO, chosen=Choice.SKIP)


@pytest.mark.parametrize(
    ("decision", "given", "acted_on"),
    [
        (ISSUES, RETRY, RETRY),
        (EARLY, RETRY, RETRY),
        (AUTO, None, ResumeChoice()),
        (AUTO, RETRY, ONLY_WORDS),
        (RECORDED, None, ResumeChoice()),
        (RECORDED, RETRY, RETRY),
        (ResumeDecision(ResumeCase.WAITING), RETRY, ONLY_WORDS),
        (ResumeDecision(ResumeCase.COMPLETE), RETRY, ONLY_WORDS),
    ],
)
def test_choice_that_a_resume_acts_on(
    decision: ResumeDecision, given: ResumeChoice | None, acted_on: ResumeChoice
) -> None:
    assert resolve_choice(decision, given) == acted_on


@pytest.mark.parametrize("decision", [ISSUES, EARLY])
@pytest.mark.parametrize("given", [None, ONLY_WORDS])
def test_decision_is_needed_where_none_was_given(decision: ResumeDecision, given: ResumeChoice | None) -> None:
    with pytest.raises(DecisionNeeded, match=r"a decision is needed \(A: .* --on-issue retry\|restart\|skip"):
        resolve_choice(decision, given)


@pytest.mark.parametrize("case", ResumeCase)
def test_only_a_complete_run_without_news_is_finished(case: ResumeCase) -> None:
    decision = ResumeDecision(case)
    assert is_finished(decision, has_news=False) is (case is ResumeCase.COMPLETE)
    assert not is_finished(decision, has_news=True)


def test_fork_with_work_of_its_parent_is_resumed() -> None:
    """Else what was left to be cleaned up at the point would stay for ever."""
    past = session_log(SessionStart(command="plan"), *FAILED_2, SessionEnd(reason="planned"))
    assert opening_of(fold_all(past)) is Opening.RESUME
