"""A change that is asked for instead of an approval: who hears it, and what begins anew by it."""

import pytest
from msgspec import Raw

from holdfast.core.decide.actions import ActionKey, RuntimeFacts
from holdfast.core.decide.phases import changes_for
from holdfast.core.events import Event
from holdfast.core.events.phase import (
    ApprovalAnswered,
    ApprovalRequested,
    ReviewGiven,
)
from holdfast.core.work.workflow import PhaseKind, PhaseSpec, Workflow
from tests.core.phase_logs import (
    CHANGE,
    HEARD,
    PIPELINE,
    PLANNED,
    completed,
    delivered,
    next_of,
    plan,
    started,
    state_of,
)


def test_whoever_plans_and_asks_for_approval_plans_anew_what_is_denied() -> None:
    phases = (
        PhaseSpec(name="planning", role="planner", exit="submit_plan", approval=True),
        PhaseSpec(name="building", kind=PhaseKind.TASKS),
    )
    flow = Workflow(name="approved", about="a plan that somebody has to agree to", phases=phases)
    assert flow.planner is not None
    asked = (started("planning"), plan("A"), delivered("planning"), ApprovalRequested(phase="planning", round=1))
    assert next_of(*asked, workflow=flow) == "stop (waiting)"
    denied = (*asked, ApprovalAnswered(phase="planning", round=1, approved=False), CHANGE)
    assert next_of(*denied, workflow=flow) == "enter planning (a change was asked for)"
    again = (*denied, started("planning", 2, changes=["m1"]), plan("B"), delivered("planning"))
    assert next_of(*again, workflow=flow) == "ask approval planning"


def test_a_change_that_a_phase_heard_is_told_to_the_one_that_plans_too() -> None:
    state, planner = state_of(*HEARD, *completed("product_management", round_=2)), PIPELINE.planner
    drafting = PIPELINE.phase("product_management")
    assert planner is not None
    assert drafting is not None
    assert changes_for(state, PIPELINE, planner) == (["m1"], [])
    assert changes_for(state, PIPELINE, drafting) == ([], ["m1"])
    assert [changes_for(state, PIPELINE, one) for one in PIPELINE.phases[1:2]] == [([], [])]


@pytest.mark.parametrize("busy", [ActionKey("phase", "implementing"), ActionKey("research", "r")])
def test_a_change_waits_until_nothing_is_under_way(busy: ActionKey) -> None:
    """Another phase that is just being entered would be the newest after it, and what is planned be heard by nobody."""
    log = (*PLANNED, CHANGE)
    assert next_of(*log, facts=RuntimeFacts(busy=frozenset({busy}))) == ""
    assert next_of(*log) == "enter planning (a change was asked for)"


def test_a_change_that_was_heard_before_does_not_begin_the_loop_anew() -> None:
    phases = (
        PhaseSpec(name="drafting", role="product_manager", exit="submit_document", approval=True),
        PhaseSpec(name="judging", kind=PhaseKind.REVIEW, roles=("reviewer",), on_fail="drafting", limit=2),
        PhaseSpec(name="planning", role="planner", exit="submit_plan"),
    )
    flow = Workflow(name="judged", about="a draft that is reviewed, then a plan", phases=phases)
    log: list[Event] = [CHANGE]
    for round_ in (1, 2):
        drafted = (started("drafting", round_, heard=["m1"]), delivered("drafting"), *completed("drafting"))
        judged = ReviewGiven(phase="judging", round=round_, role="reviewer", passed=False, findings=Raw(b"[]"))
        log += [*drafted, started("judging", round_), judged, *completed("judging", "failed", round_)]
    assert next_of(*log, workflow=flow) == "give up judging (review_cap)"
