"""Where a pipeline that was cut off goes on: seventeen rules of an ancestor, each with what we make of it.

Its mistakes stand beside them: a file that was there decided what had been done, and what remembered the rest was
written over. Here the log decides; a rule that is not about the log is tried where it belongs, and named here.
"""

from pathlib import Path

import msgspec
import pytest

from holdfast.core.decide.phases import decide
from holdfast.core.events import Event
from holdfast.core.events.conversation import ConversationOpened
from holdfast.core.events.inbox import InboxConsumed, InboxHandled
from holdfast.core.events.phase import PhaseFailed, PhaseReopened, ResearchRequested, WorkflowChosen
from holdfast.core.events.session import RunResumed, SessionStart
from holdfast.core.events.task import TaskStarted
from holdfast.core.work.workflow import PlanShape, Workflow
from tests.core.logs import fold_all, session_log
from tests.core.phase_logs import (
    BEGUN,
    BOUNDS,
    BUILT,
    DONE_TASK,
    LEFT_OUT,
    PIPELINE,
    PLANNED,
    REVIEWED,
    REVIEWERS,
    completed,
    conversation_events,
    delivered,
    describe,
    document,
    plan,
    review,
    started,
    state_of,
    through,
    turn,
)

WANTED = WorkflowChosen(workflow={}, wanted=["product_management"])
PLANNING: tuple[Event, ...] = (*LEFT_OUT, *through("architecting"), started("planning"))
ASKED = (*PLANNING, *conversation_events("planning", "planner", "end_turn"))
DESIGNED = (*PLANNING, plan("A", needs_design=True), delivered("planning"), *completed("planning"))
QUESTION = ResearchRequested(research="r-1", conversation="c-planner", topic="t", question="q")
FAILED = (PhaseFailed(phase="planning", round=1, reason="x"), PhaseReopened(phase="planning"))
WORKING = (
    *(*PLANNED, started("implementing"), TaskStarted(task_id="A")),
    ConversationOpened(conversation="w", agent="a", role="worker", task="A"),
)
RESUMED = RunResumed(summary="on")

ROWS: dict[str, tuple[int, tuple[Event, ...], str]] = {
    "after a failure planning is incomplete until its plan was taken": (
        4,
        (*ASKED, document("planning"), *FAILED),
        "tell planning planner (begin)",
    ),
    "and complete once it was": (4, (*ASKED, plan("A"), delivered("planning"), *FAILED), "close planning (done)"),
    "product management that was asked for comes first": (5, (WANTED,), "enter product_management"),
    "it is not over because something of it lies there": (
        5,
        (WANTED, started("product_management"), document("product_management")),
        "tell product_management product_manager (begin)",
    ),
    "once it is over the rest follows": (5, (WANTED, *through("product_management")), "enter architecting"),
    "a plan that needs a design leads to designing": (6, DESIGNED, "enter designing"),
    "and not past it because its file is there": (6, (*DESIGNED, document("designing")), "enter designing"),
    "one that needs none leads past it": (6, PLANNED, "enter implementing"),
    "a review that passed leads to completing": (
        6,
        (*REVIEWED, *(review(role) for role in REVIEWERS), *completed("reviewing", "passed")),
        "enter completing",
    ),
    "one that failed never does": (
        6,
        (*REVIEWED, review(REVIEWERS[0], passed=False), *completed("reviewing", "failed")),
        "enter fixing (reviewing failed)",
    ),
    "a question that was being looked into still is": (
        9,
        (*ASKED, QUESTION, *conversation_events("r-1", "researcher")),
        "research r-1 (go on)",
    ),
    "who is spoken to follows from the phase, not from how it began": (
        10,
        (*BUILT, started("reviewing"), review()),
        "; ".join(f"review reviewing {role} (begin)" for role in REVIEWERS),
    ),
    "the phase is gone on with though nothing new came in": (
        12,
        (*PLANNING, *conversation_events("planning", "planner")),
        "tell planning planner (go on)",
    ),
    "a coder's turn that was cut off goes on in its conversation, with an agent that is alive": (
        14,
        (*WORKING, *turn("w", None)),
        "work A (go on)",
    ),
    "a question whose answer is lacking is looked into again, whatever its agent left": (
        16,
        (*ASKED, QUESTION, *conversation_events("r-1", "researcher", "end_turn")),
        "research r-1 (nudge)",
    ),
    "an agent that disappeared, too often even, is replaced when its role is needed again": (
        17,
        (*PLANNING, *conversation_events("planning", "planner"), *turn("c-planner", None) * 9, RESUMED),
        "tell planning planner (go on)",
    ),
    "that one reviewer disappeared does not cancel the others": (
        17,
        (*REVIEWED, *conversation_events("reviewing", REVIEWERS[0]), review(REVIEWERS[1]), review(REVIEWERS[2])),
        f"review reviewing {REVIEWERS[0]} (go on)",
    ),
}

ELSEWHERE = {  # what is no matter of the log
    1: "cli/test_ls.py: test_the_run_that_moved_last_comes_first",
    2: "cli/test_run_terminal.py: test_of_several_runs_one_is_picked",
    3: "cli/test_names.py: test_id_slug_and_prefix_mean_the_same_run",
    8: "cli/test_run_detached.py: test_of_two_resumes_at_once_one_works_and_the_other_touches_nothing",
    11: "cli/test_door.py: test_it_starts_from_any_folder_also_one_that_was_removed",
}
BELOW = (7, 13, 15)


@pytest.mark.parametrize("what", ROWS)
def test_rule(what: str) -> None:
    _, events, expected = ROWS[what]
    log = session_log(*BEGUN, *events) + session_log(SessionStart(command="resume"), sid="s2")
    assert describe(decide(fold_all(log), PIPELINE, BOUNDS)) == expected


def test_a_run_is_known_by_what_its_log_says_it_is() -> None:
    """The seventh: nothing has a name by default."""
    state = fold_all(session_log(*BEGUN) + session_log(SessionStart(command="resume"), sid="s2"))
    assert state.run is not None
    assert state.run.run_id == "r"


def test_a_signal_that_was_applied_is_not_applied_again_and_one_that_was_not_is() -> None:
    """The thirteenth: the cursor is in the log, and so is what was made of each."""
    taken = [InboxConsumed(cursor=number, message=f"m{number}", kind="signal.submit_done") for number in (1, 2)]
    state = state_of(*taken, InboxHandled(message="m1"), SessionStart(command="resume"))
    assert (state.inbox_cursor, list(state.messages)) == (2, ["m2"])


def test_how_tasks_are_dispatched_is_as_it_was_chosen_and_only_what_is_left_is_dispatched() -> None:
    """The fifteenth: the workflow, with its shape, is part of the log, and no setting of later changes it."""
    chosen = WorkflowChosen(workflow=msgspec.to_builtins(PIPELINE))
    tasks = (plan("A", "B"), *PLANNED[-2:], started("implementing"), *DONE_TASK[:3])
    state = state_of(chosen, *LEFT_OUT, *through("architecting"), *through("planning"), *tasks, RESUMED)
    kept = msgspec.convert(state.workflow, Workflow)
    assert kept == PIPELINE
    assert kept.shape is PlanShape.GRAPH
    assert describe(decide(state, kept, BOUNDS)) == "start B"


def test_every_rule_has_its_test() -> None:
    assert {*(row[0] for row in ROWS.values()), *ELSEWHERE, *BELOW} == set(range(1, 18))
    for place in ELSEWHERE.values():
        file, name = place.split(": ")
        assert f"def {name}(" in (Path(__file__).parents[1] / file).read_text(encoding="utf-8")
