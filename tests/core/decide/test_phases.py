"""Which phase a run is in, and what comes next: read from its log alone. Every rule of resuming is a row here."""

import pytest

from holdfast.core.decide.actions import ActionKey, RuntimeFacts
from holdfast.core.decide.fix_tasks import plan_with_fix_task
from holdfast.core.decide.phases import MAX_SIGNAL_PROMPTS, decide
from holdfast.core.events import Event
from holdfast.core.events.conversation import ConversationOpened
from holdfast.core.events.inbox import InboxHandled
from holdfast.core.events.issue import BlockerReported
from holdfast.core.events.phase import (
    ApprovalAnswered,
    ApprovalRequested,
    PhaseFailed,
    PhaseReopened,
    ResearchAnswered,
    ResearchRequested,
    WorkflowChosen,
    WorkPublished,
)
from holdfast.core.events.session import RunResumed, SessionStart
from holdfast.core.events.task import TaskFailed, TaskStarted
from holdfast.core.messages.addressing import messages_for, shared_addresses, undeliverable_reason
from holdfast.core.task_state import TaskStatus
from holdfast.core.work.workflow import Bounds, PhaseKind, PhaseSpec, Workflow
from tests.core.logs import fold_all, session_log
from tests.core.phase_logs import (
    BEGUN,
    BOUNDS,
    BUILT,
    CHANGE,
    DENIED,
    DONE_TASK,
    DRAFTED,
    HEARD,
    LEFT_OUT,
    PIPELINE,
    PLANNED,
    REVIEWED,
    REVIEWERS,
    SKIPPED_TASK,
    completed,
    conversation_events,
    delivered,
    describe,
    document,
    next_of,
    plan,
    review,
    started,
    state_of,
    through,
    turn,
    words,
)

DRAFT_APPROVED = ApprovalAnswered(phase="product_management", round=1, approved=True)
PLANNING: tuple[Event, ...] = (*LEFT_OUT, *through("architecting"), started("planning"))
ASKED = (*PLANNING, *conversation_events("planning", "planner", "end_turn"))
PASSED = (*REVIEWED, *(review(role) for role in REVIEWERS), *completed("reviewing", "passed"))
FAILED = (*REVIEWED, review(REVIEWERS[0], passed=False), *(review(role) for role in REVIEWERS[1:]))
SENT_BACK = (*FAILED, *completed("reviewing", "failed"))
COMPLETING = (*PASSED, started("completing"))
SUMMED = (*COMPLETING, document("completing"), delivered("completing", "summary"))
REQUEST = ApprovalRequested(phase="completing", round=1)
GIVEN = ApprovalAnswered(phase="completing", round=1, approved=True)
PUBLISHED = WorkPublished(phase="completing", round=1)
QUESTION = ResearchRequested(research="r-1", conversation="c-planner", topic="t", question="q")
ANSWER = ResearchAnswered(research="r-1", answer="a")
REVIEW_ALL = "; ".join(f"review reviewing {role} (begin)" for role in REVIEWERS)

ROWS: dict[str, tuple[tuple[Event, ...], str]] = {
    # the way forward
    "nothing was begun": ((), "leave out product_management (optional, and not requested)"),
    "it was asked for": (
        (WorkflowChosen(workflow={}, wanted=["product_management"]),),
        "enter product_management",
    ),
    "the first was left out": (LEFT_OUT, "enter architecting"),
    "a phase began, and nobody was spoken to": (
        (*LEFT_OUT, started("architecting")),
        "tell architecting architect (begin)",
    ),
    "its agent handed in its document": (
        (*LEFT_OUT, started("architecting"), delivered("architecting")),
        "close architecting (done)",
    ),
    "it is over": ((*LEFT_OUT, *through("architecting")), "enter planning"),
    "the plan needs no design": (
        (*PLANNING, plan("A"), delivered("planning"), *completed("planning")),
        "leave out designing (its condition is not met: plan.needs_design)",
    ),
    "the plan needs a design": (
        (*PLANNING, plan("A", needs_design=True), delivered("planning"), *completed("planning")),
        "enter designing",
    ),
    "it is planned": (PLANNED, "enter implementing"),
    "it is to be built": ((*PLANNED, started("implementing")), "start A 1"),
    "all is built": ((*PLANNED, started("implementing"), *DONE_TASK), "close implementing (done)"),
    "that phase is over": (BUILT, "enter reviewing"),
    "the checks come first": ((*BUILT, started("reviewing")), "check reviewing validators"),
    "then three at once": (REVIEWED, REVIEW_ALL),
    "all passed": ((*REVIEWED, *(review(role) for role in REVIEWERS)), "close reviewing (passed)"),
    "one did not": (FAILED, "close reviewing (failed)"),
    "the checks failed, and nobody need read it": (
        (*BUILT, started("reviewing"), review(passed=False)),
        "close reviewing (failed)",
    ),
    "a summary first": (COMPLETING, "summarize completing"),
    "then a person is asked": (SUMMED, "ask approval completing"),
    "who has not answered": ((*SUMMED, REQUEST), "stop (waiting)"),
    "and approved": ((*SUMMED, REQUEST, GIVEN), "publish completing"),
    "it is published": ((*SUMMED, REQUEST, GIVEN, PUBLISHED), "close completing (done)"),
    "all is over": ((*SUMMED, REQUEST, GIVEN, PUBLISHED, *completed("completing")), "stop (all_done)"),
    # resuming: the verdict decides, never a file or that somebody began
    "a failed review leads to fixing": (SENT_BACK, "enter fixing (reviewing failed)"),
    "a passed review leads to completing": (PASSED, "enter completing"),
    "a review that some have given is not over": (
        (*REVIEWED, review(REVIEWERS[0])),
        "; ".join(f"review reviewing {role} (begin)" for role in REVIEWERS[1:]),
    ),
    "a document alone ends nothing": (
        (*PLANNING, *conversation_events("planning", "planner", "end_turn"), document("planning")),
        "tell planning planner (nudge)",
    ),
    "a plan alone ends nothing": (
        (*PLANNING, *conversation_events("planning", "planner", "end_turn"), plan("A")),
        "tell planning planner (nudge)",
    ),
    "a plan and the word for it do": ((*ASKED, plan("A"), delivered("planning")), "close planning (done)"),
    "after a failure planning is incomplete without its plan": (
        (
            *ASKED,
            document("planning"),
            PhaseFailed(phase="planning", round=1, reason="blocked"),
            PhaseReopened(phase="planning"),
        ),
        "tell planning planner (begin)",
    ),
    "a failed phase waits for a person": (
        (*ASKED, PhaseFailed(phase="planning", round=1, reason="blocked")),
        "stop (failed)",
    ),
    "a failed review that is tried again leads to fixing": (
        (*SENT_BACK, PhaseFailed(phase="reviewing", round=3, reason="review_cap"), PhaseReopened(phase="reviewing")),
        "enter fixing (reviewing failed)",
    ),
    "a design is made though its file may be there": (
        (*PLANNING, plan("A", needs_design=True), delivered("planning"), *completed("planning"), document("designing")),
        "enter designing",
    ),
    "only unfinished tasks are begun": (
        (
            *LEFT_OUT,
            *through("architecting"),
            started("planning"),
            plan("A", "B"),
            delivered("planning"),
            *completed("planning"),
            *completed("designing", "skipped", 0),
            started("implementing"),
            *DONE_TASK[:3],
        ),
        "start B",
    ),
    # agents that die, fall silent, or give up
    "its turn was cut off": ((*PLANNING, *conversation_events("planning", "planner")), "tell planning planner (go on)"),
    "a reviewer was cut off": (
        (*REVIEWED, *conversation_events("reviewing", REVIEWERS[0]), *(review(role) for role in REVIEWERS[1:])),
        f"review reviewing {REVIEWERS[0]} (go on)",
    ),
    "it said nothing of use": (ASKED, "tell planning planner (nudge)"),
    "it never does": (
        (*ASKED, *turn("c-planner", "end_turn") * (MAX_SIGNAL_PROMPTS - 1)),
        "give up planning (no_signal: planner)",
    ),
    "prompts that it answers with an error do not count": (
        (*ASKED, *turn("c-planner", "refused") * 4),
        "tell planning planner (go on)",
    ),
    "nor do they when it answers again": (
        (*ASKED, *turn("c-planner", "refused") * 4, *turn("c-planner", "end_turn")),
        "tell planning planner (nudge)",
    ),
    "turns that took words along do not count": (
        (*ASKED, *turn("c-planner", "end_turn", "m") * 9),
        "tell planning planner (nudge)",
    ),
    "it died too often": (
        (*PLANNING, *conversation_events("planning", "planner"), *turn("c-planner", None) * 4),
        "stop (parked)",
    ),
    "it died too often, and the run was resumed": (
        (
            *PLANNING,
            *conversation_events("planning", "planner"),
            *turn("c-planner", None) * 4,
            RunResumed(summary="on"),
        ),
        "tell planning planner (go on)",
    ),
    "it is blocked": ((*ASKED, BlockerReported(description="no key", phase="planning")), "give up planning (blocked)"),
    "another is blocked": (
        (*ASKED, BlockerReported(description="no key", phase="designing")),
        "tell planning planner (nudge)",
    ),
    "a task failed": (
        (*PLANNED, started("implementing"), TaskStarted(task_id="A"), TaskFailed(task_id="A", error="iter_cap")),
        "stop (iter_cap)",
    ),
    "there is no plan to work off": ((started("implementing"),), "give up implementing (there is no plan)"),
    # what people say
    "words reach the agent at work": ((*ASKED, words("m")), "tell planning planner (message)"),
    "words for it by name": ((*ASKED, words("m", "planning")), "tell planning planner (message)"),
    "words for somebody else": ((*ASKED, words("m", "designing")), "tell planning planner (nudge)"),
    "words when all is over are a wish for more": (
        (*SUMMED, REQUEST, GIVEN, PUBLISHED, *completed("completing"), words("m")),
        "take as change completing (m)",
    ),
    "words instead of an approval are one as well": ((*SUMMED, REQUEST, words("m")), "take as change completing (m)"),
    # changes
    "a change before planning waits there": (
        (*LEFT_OUT, started("architecting"), CHANGE),
        "tell architecting architect (begin)",
    ),
    "a change in planning waits for its end": ((*ASKED, CHANGE), "tell planning planner (nudge)"),
    "and is planned then": (
        (*ASKED, CHANGE, plan("A"), delivered("planning"), *completed("planning")),
        "enter planning (a change was asked for)",
    ),
    "one that planning began with is dealt with by it": (
        (
            *LEFT_OUT,
            *through("architecting"),
            CHANGE,
            started("planning", changes=["m1"]),
            plan("A"),
            delivered("planning"),
            *completed("planning"),
        ),
        "leave out designing (its condition is not met: plan.needs_design)",
    ),
    "a change while it is built": (
        (*PLANNED, started("implementing"), CHANGE),
        "enter planning (a change was asked for)",
    ),
    "a change after a review failed": ((*SENT_BACK, CHANGE), "enter planning (a change was asked for)"),
    "a change when approval was asked": ((*SUMMED, REQUEST, CHANGE), "enter planning (a change was asked for)"),
    "a change when all is over": (
        (*SUMMED, REQUEST, GIVEN, PUBLISHED, *completed("completing"), CHANGE),
        "enter planning (a change was asked for)",
    ),
    "a change survives a failure and its retry": (
        (
            *SENT_BACK,
            CHANGE,
            PhaseFailed(phase="reviewing", round=1, reason="review_cap"),
            PhaseReopened(phase="reviewing"),
        ),
        "enter planning (a change was asked for)",
    ),
    "a change survives a planning that failed": (
        (
            *BUILT,
            CHANGE,
            started("planning", 2, changes=["m1"]),
            PhaseFailed(phase="planning", round=2, reason="blocked"),
            PhaseReopened(phase="planning"),
        ),
        "tell planning planner (begin)",
    ),
    # changes instead of an approval
    "who is denied what it handed in is told why, and hands in anew": (
        (*DRAFTED, DENIED, CHANGE),
        "enter product_management (a change was asked for)",
    ),
    "so it is for words that come while approval is waited for": (
        (*DRAFTED, CHANGE),
        "enter product_management (a change was asked for)",
    ),
    "what it was told, it is not told again": (HEARD, "ask approval product_management"),
    "what was approved stays, and the change is planned": (
        (*DRAFTED, DRAFT_APPROVED, CHANGE),
        "close product_management (done)",
    ),
    "a change that was heard is still for planning": (
        (*HEARD, *completed("product_management", round_=2), *through("architecting"), started("planning")),
        "tell planning planner (begin)",
    ),
    # research
    "a question is looked into, and whoever asked waits": ((*ASKED, QUESTION), "research r-1 (begin)"),
    "research that was cut off is gone on with": (
        (*ASKED, QUESTION, *conversation_events("r-1", "researcher")),
        "research r-1 (go on)",
    ),
    "that somebody looks into it is no answer": (
        (*ASKED, QUESTION, *conversation_events("r-1", "researcher", "end_turn")),
        "research r-1 (nudge)",
    ),
    "nobody found anything": (
        (
            *ASKED,
            QUESTION,
            *conversation_events("r-1", "researcher", "end_turn"),
            *turn("c-researcher", "end_turn") * 2,
        ),
        "end research r-1",
    ),
    "a researcher who answers with errors did not look": (
        (*ASKED, QUESTION, *conversation_events("r-1", "researcher", "refused"), *turn("c-researcher", "refused") * 3),
        "research r-1 (go on)",
    ),
    "its answer goes to whoever asked": ((*ASKED, QUESTION, ANSWER), "tell planning planner (message)"),
    "once": (
        (*ASKED, QUESTION, ANSWER, InboxHandled(message="r-1"), *turn("c-planner", "end_turn", "r-1")),
        "tell planning planner (nudge)",
    ),
    "a second answer is none": (
        (*ASKED, QUESTION, ANSWER, InboxHandled(message="r-1"), *turn("c-planner", "end_turn", "r-1"), ANSWER),
        "tell planning planner (nudge)",
    ),
    "nobody waits for it any more": ((*ASKED, QUESTION, plan("A"), delivered("planning")), "close planning (done)"),
}


@pytest.mark.parametrize("what", ROWS)
def test_what_comes_next_follows_from_the_log(what: str) -> None:
    events, expected = ROWS[what]
    assert next_of(*events) == expected


@pytest.mark.parametrize("what", ROWS)
def test_a_run_that_was_cut_off_there_goes_on_as_if_it_had_not_been(what: str) -> None:
    events, expected = ROWS[what]
    log = session_log(*BEGUN, *events) + session_log(SessionStart(command="resume"), sid="s2")
    assert describe(decide(fold_all(log), PIPELINE, BOUNDS)) == expected


@pytest.mark.parametrize("what", ROWS)
def test_in_every_state_there_is_something_to_do_or_a_reason_to_stop(what: str) -> None:
    state = state_of(*ROWS[what][0])
    actions = decide(state, PIPELINE, BOUNDS)
    assert actions
    under_way = frozenset(action.key for action in actions)
    assert decide(state, PIPELINE, BOUNDS, RuntimeFacts(busy=under_way)) == [] or actions[0].kind == "stop"
    (stuck,) = decide(state, PIPELINE, BOUNDS, RuntimeFacts(stuck=under_way))[:1]
    assert stuck.kind == "stop" or stuck.key not in under_way


def test_the_loop_of_review_and_fix_has_its_limit() -> None:
    rounds: list[Event] = []
    for number in (1, 2, 3):
        rounds += [started("reviewing", number), review(passed=False, round_=number)]
        rounds += completed("reviewing", "failed", number)
        if number < 3:
            assert next_of(*BUILT, *rounds) == "enter fixing (reviewing failed)"
            rounds += [started("fixing", number), *completed("fixing", "done", number)]
            assert next_of(*BUILT, *rounds) == "enter reviewing"
    assert next_of(*BUILT, *rounds) == "give up reviewing (review_cap)"
    rounds.append(PhaseFailed(phase="reviewing", round=3, reason="review_cap"))
    assert next_of(*BUILT, *rounds) == "stop (review_cap)"


def test_a_change_begins_the_loop_anew() -> None:
    twice = [
        started("reviewing"),
        *completed("reviewing", "failed"),
        started("reviewing", 2),
        *completed("reviewing", "failed", 2),
    ]
    change = [CHANGE, started("planning", 2, changes=["m1"]), plan("A"), *completed("planning", "done", 2)]
    again = [started("reviewing", 3), review(passed=False), *completed("reviewing", "failed", 3)]
    assert next_of(*BUILT, *twice, *change, *again) == "enter fixing (reviewing failed)"


def test_where_nobody_plans_words_for_a_run_that_is_done_open_a_task_again_in_its_phase() -> None:
    flow = Workflow(
        name="direct",
        about="tasks, and their end",
        phases=(PhaseSpec(name="building", kind=PhaseKind.TASKS), PhaseSpec(name="ending", kind=PhaseKind.COMPLETE)),
    )
    over = (plan("A"), started("building"), *DONE_TASK, *completed("building"), started("ending"), *completed("ending"))
    assert next_of(*over, workflow=flow) == "stop (all_done)"
    assert next_of(*over, words("m", "nobody"), workflow=flow) == "stop (all_done)"
    for anyone in (words("m"), words("m", "building")):
        assert next_of(*over, anyone, workflow=flow) == "enter building (there is a message for it)"
    assert next_of(*over, words("m"), started("building", 2), workflow=flow) == "reopen A (there is a message for it)"


def test_words_for_a_phase_of_tasks_are_for_whichever_worker_comes_first() -> None:
    at_work = (
        *(*PLANNED, started("implementing"), TaskStarted(task_id="A")),
        ConversationOpened(conversation="w", agent="a", role="worker", task="A"),
        *turn("w", "end_turn"),
    )
    state = state_of(*at_work, words("m", "implementing"), words("n", "planning"))
    assert messages_for(state.messages, "A", shared_addresses(state, PIPELINE)) == ["m"]
    assert messages_for(state.messages, "planning") == ["n"]
    assert describe(decide(state, PIPELINE, BOUNDS)) == "work A (message)"
    assert next_of(*at_work, words("n", "planning")) == "end iteration A (no_case)"


def test_words_for_a_phase_without_a_listener_are_for_nobody_unless_somebody_plans() -> None:
    phases = (
        PhaseSpec(name="drafting", role="agent", exit="submit_done"),
        PhaseSpec(name="building", kind=PhaseKind.TASKS),
        PhaseSpec(name="reading", kind=PhaseKind.REVIEW, roles=("reviewer",)),
        PhaseSpec(name="ending", kind=PhaseKind.COMPLETE),
    )
    flow = Workflow(name="direct", about="nobody plans", phases=phases)
    deaf = [one.name for one in phases if undeliverable_reason(state_of(), flow, one.name) is not None]
    assert deaf == ["reading", "ending"]
    assert not any(undeliverable_reason(state_of(), PIPELINE, one.name) for one in PIPELINE.phases)
    namesake = state_of(plan("reading"))
    assert undeliverable_reason(namesake, flow, "reading") is None


def test_words_for_a_phase_of_tasks_that_is_still_to_come_wait_for_it() -> None:
    at_work = (*PLANNED, started("implementing"), TaskStarted(task_id="A"))
    for_it = words("m", "fixing")
    state = state_of(*at_work, for_it)
    assert messages_for(state.messages, "A", shared_addresses(state, PIPELINE)) == []
    state = state_of(*at_work, for_it, started("fixing"))
    assert messages_for(state.messages, "A", shared_addresses(state, PIPELINE)) == ["m"]


def test_words_are_for_nobody_when_all_is_over_unless_a_task_can_be_opened_again() -> None:
    phases = (
        PhaseSpec(name="drafting", role="agent", exit="submit_done"),
        PhaseSpec(name="building", kind=PhaseKind.TASKS),
        PhaseSpec(name="mending", kind=PhaseKind.TASKS, detour=True),
    )
    flow = Workflow(name="direct", about="nobody plans", phases=phases)
    begun = (*through("drafting"), plan("A"), started("building"))
    done, skipped = (*begun, *DONE_TASK, *completed("building")), (*begun, SKIPPED_TASK, *completed("building"))
    everyone = (None, "drafting", "building", "mending")
    for events, deaf in ((begun, []), (done, ["drafting", "mending"]), (skipped, list(everyone))):
        state = state_of(*events)
        assert [name for name in everyone if undeliverable_reason(state, flow, name) is not None] == deaf
    assert undeliverable_reason(state_of(*begun, SKIPPED_TASK), flow, None) is None
    assert not any(undeliverable_reason(state_of(*skipped), PIPELINE, one.name) for one in PIPELINE.phases)


def test_reviewers_run_at_once_unless_they_are_bounded() -> None:
    """`parallel` bounds tasks, not reviewers."""
    assert next_of(*REVIEWED, bounds=Bounds(parallel=1)) == REVIEW_ALL
    assert next_of(*REVIEWED, bounds=Bounds(reviewers=2)) == "; ".join(REVIEW_ALL.split("; ")[:2])
    busy = RuntimeFacts(busy=frozenset({ActionKey("phase", "reviewing", REVIEWERS[0])}))
    assert next_of(*REVIEWED, bounds=Bounds(reviewers=2), facts=busy) == f"review reviewing {REVIEWERS[1]} (begin)"


def test_what_is_under_way_is_waited_for_before_a_change_is_planned() -> None:
    state = state_of(*PLANNED, started("implementing"), TaskStarted(task_id="A"), CHANGE)
    assert decide(state, PIPELINE, BOUNDS, RuntimeFacts(busy=frozenset({ActionKey("task", "A")}))) == []
    assert describe(decide(state, PIPELINE, BOUNDS)) == "enter planning (a change was asked for)"


def test_approval_may_be_given_beforehand_or_after_it_was_asked() -> None:
    given = Bounds(auto_approve=True)
    assert next_of(*SUMMED, bounds=given) == "ask approval completing"
    assert next_of(*SUMMED, REQUEST, bounds=given) == "ask approval completing"
    assert next_of(*SUMMED, REQUEST, GIVEN, bounds=given) == "publish completing"


def test_what_may_be_spent_bounds_a_phase_but_not_a_run_that_is_done() -> None:
    assert next_of(*ASKED, bounds=Bounds(tokens=0)) == "stop (token_cap)"
    over = (*SUMMED, REQUEST, GIVEN, PUBLISHED, *completed("completing"))
    assert next_of(*over, bounds=Bounds(tokens=0)) == "stop (all_done)"


def test_a_worker_waits_for_what_it_asked_and_nobody_else_does() -> None:
    at_work = (
        *PLANNED,
        started("implementing"),
        TaskStarted(task_id="A"),
        ConversationOpened(conversation="w", agent="a", role="worker", task="A"),
        *turn("w", "end_turn"),
    )
    question = ResearchRequested(research="r-1", conversation="w", topic="t", question="q")
    assert next_of(*at_work) == "end iteration A (no_case)"
    assert next_of(*at_work, question) == "research r-1 (begin)"
    assert next_of(*at_work, question, ANSWER) == "work A (message)"


def test_a_fix_is_a_task_after_all_others_and_changes_none_of_them() -> None:
    before = state_of(*SENT_BACK)
    planned = plan_with_fix_task(before, "Fix it", "there is no note", ["fixed"])
    state = state_of(*SENT_BACK, started("fixing"), planned)
    assert {name: task.status for name, task in state.tasks.items()} == {
        "A": TaskStatus.COMPLETE,
        "fix-1": TaskStatus.PENDING,
    }
    assert next_of(*SENT_BACK, started("fixing"), planned) == "start fix-1 2"
    assert [task.id for task in plan_with_fix_task(state, "Fix more", "x", []).tasks] == ["A", "fix-1", "fix-2"]
