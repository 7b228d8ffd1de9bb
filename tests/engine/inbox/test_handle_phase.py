"""What a report of a phase's agent means: taken in once, from whom it is wanted, in the phase in which it is."""

from typing import Any

import pytest

from holdfast.core.events import Event
from holdfast.core.events.phase import ResearchRequested
from holdfast.core.messages.signals import read_signal
from holdfast.core.work.workflow import Workflow
from holdfast.engine.inbox.handle_phase import MAX_RESEARCH_REQUESTS, phase_report_events
from holdfast.workflows.reader import parse_workflow
from tests.core.phase_logs import (
    LEFT_OUT,
    PIPELINE,
    REVIEWED,
    REVIEWERS,
    completed,
    conversation_events,
    delivered,
    review,
    started,
    state_of,
    through,
)

PLANNING = (
    *LEFT_OUT,
    *through("architecting"),
    started("planning"),
    *conversation_events("planning", "planner", "end_turn"),
)
LOGIC = (*REVIEWED, *conversation_events("reviewing", REVIEWERS[0], "end_turn"))
PLAN = {
    "tasks": [{"id": "A", "title": "make A"}, {"id": "B", "title": "make B", "depends_on": ["A"]}],
    "needs_design": True,
}
PASS = {"passed": True, "summary": "well"}
ASKED = ResearchRequested(research="research-1", conversation="c-planner", topic="t", question="q")
SECTIONS = parse_workflow(
    "name: w\nabout: w\nphases:\n- {name: architecting, role: architect, sections: [Risks]}\n", "w.yaml"
)
DATA = parse_workflow(
    "name: w\nabout: a\nphases:\n- {name: architecting, role: architect, schema: {properties: {days: {const: x}}}}\n",
    "w.yaml",
)
ARCHITECT = (started("architecting"), *conversation_events("architecting", "architect", "end_turn"))


def reported_types(
    events: tuple[Event, ...], who: str, tool: str, arguments: dict[str, Any], flow: Workflow = PIPELINE
) -> list[str]:
    state = state_of(*events)
    role = state.conversations[who].role or ""
    return [event.type for event in phase_report_events(state, flow, who, read_signal(role, tool, arguments))]


DOCUMENT = {"title": "Shape", "text": "# Shape\n\n## Risks\n\nnone", "preferences": ["be brief"]}
ROWS: dict[str, tuple[list[str], list[str]]] = {
    "a plan ends planning, in one commit with it": (
        reported_types(PLANNING, "c-planner", "submit_plan", PLAN),
        ["plan.created", "artifact.stored", "phase.delivered"],
    ),
    "a second one comes too late": (
        reported_types((*PLANNING, delivered("planning")), "c-planner", "submit_plan", PLAN),
        ["warning.logged"],
    ),
    "so does one after the phase": (
        reported_types((*PLANNING, *completed("planning")), "c-planner", "submit_plan", PLAN),
        ["warning.logged"],
    ),
    "and one of a conversation of an earlier round": (
        reported_types((*PLANNING, started("planning", 2)), "c-planner", "submit_plan", PLAN),
        ["warning.logged"],
    ),
    "that it is done ends no planning": (
        reported_types(PLANNING, "c-planner", "submit_done", {"summary": "done"}),
        ["warning.logged"],
    ),
    "it is blocked": (reported_types(PLANNING, "c-planner", "report_blocker", {"reason": "x"}), ["blocker.reported"]),
    "it tells where it is": (
        reported_types(PLANNING, "c-planner", "report_progress", {"text": "x"}),
        ["progress.reported"],
    ),
    "it asks": (
        reported_types(PLANNING, "c-planner", "request_research", {"topic": "t", "question": "q"}),
        ["research.requested"],
    ),
    "an answer": (
        reported_types(
            (*PLANNING, ASKED, *conversation_events("research-1", "researcher", "end_turn")),
            "c-researcher",
            "submit_research",
            {"topic": "t", "answer": "a"},
        ),
        ["research.answered"],
    ),
    "a review": (reported_types(LOGIC, f"c-{REVIEWERS[0]}", "submit_review", PASS), ["review.given"]),
    "a second one of the same": (
        reported_types((*LOGIC, review(REVIEWERS[0])), f"c-{REVIEWERS[0]}", "submit_review", PASS),
        ["warning.logged"],
    ),
    "a document, with what it proposes": (
        reported_types(ARCHITECT, "c-architect", "submit_document", DOCUMENT, SECTIONS),
        ["artifact.stored", "preferences.proposed", "phase.delivered"],
    ),
    "a document that lacks a heading": (
        reported_types(ARCHITECT, "c-architect", "submit_document", {"title": "t", "text": "# Risk"}, SECTIONS),
        ["warning.logged"],
    ),
    "data that do not fit, though somebody stored them": (
        reported_types(ARCHITECT, "c-architect", "submit_document", {"title": "t", "text": "days: 3"}, DATA),
        ["warning.logged"],
    ),
    "data that do": (
        reported_types(ARCHITECT, "c-architect", "submit_document", {"title": "t", "text": "days: x"}, DATA),
        ["artifact.stored", "phase.delivered"],
    ),
    "a review, with what it proposes": (
        reported_types(LOGIC, f"c-{REVIEWERS[0]}", "submit_review", {**PASS, "preferences": ["be brief"]}),
        ["review.given", "preferences.proposed"],
    ),
}


@pytest.mark.parametrize("what", ROWS)
def test_what_a_report_means(what: str) -> None:
    found, expected = ROWS[what]
    assert found == expected


def test_a_plan_says_whether_it_needs_a_design() -> None:
    state = state_of(*PLANNING)
    plan = phase_report_events(state, PIPELINE, "c-planner", read_signal("planner", "submit_plan", PLAN))[0]
    after = state_of(*PLANNING, plan)
    assert after.plan is not None
    assert (after.plan.needs_design, after.plan.blocked_by) == (True, {"B": ["A"]})


def test_no_run_asks_without_end() -> None:
    many = [
        ResearchRequested(research=f"r{n}", conversation="c-planner", topic="t", question=f"q{n}")
        for n in range(MAX_RESEARCH_REQUESTS)
    ]
    assert reported_types((*PLANNING, *many), "c-planner", "request_research", {"topic": "t", "question": "q"}) == [
        "warning.logged"
    ]
