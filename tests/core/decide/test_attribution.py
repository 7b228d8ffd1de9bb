"""Which agent the envelope of an event names."""

import pytest

from holdfast.core.decide.attribution import Attribution
from holdfast.core.events import Event
from holdfast.core.events.agent import AgentDied
from holdfast.core.events.budget import UsageRecorded
from holdfast.core.events.checkpoint import Checkpoint
from holdfast.core.events.conversation import (
    ConversationOpened,
    MessageRecorded,
    PermissionAnswered,
    PermissionRequested,
)
from holdfast.core.events.issue import BlockerReported
from holdfast.core.events.phase import ReviewGiven
from holdfast.core.events.task import TaskStarted
from holdfast.core.events.work import MemoryLoaded, ValidationFinished, VerdictGiven
from holdfast.core.state import Conversation, PermissionRequest, RunState

KNOWN = {
    "w": Conversation(agent="claude", role="worker", task="T-1"),
    "p": Conversation(agent="claude", role="architect", about="design"),
    "x": Conversation(agent="claude"),
}


def review(role: str) -> ReviewGiven:
    return ReviewGiven(phase="reviewing", round=1, role=role, passed=True)


TABLE: list[tuple[Event, str | None]] = [
    (TaskStarted(task_id="T-1"), "worker of T-1"),
    (VerdictGiven(task_id="T-1", iteration=1, accept=True), "evaluator of T-1"),
    (ValidationFinished(task_id="T-1", passed=True), None),
    (MessageRecorded(conversation="w", speaker="agent", text="done"), "worker of T-1"),
    (MessageRecorded(conversation="p", speaker="agent", text="done"), "architect of design"),
    (MessageRecorded(conversation="x", speaker="agent", text="done"), "claude"),
    (MessageRecorded(conversation="nobody", speaker="agent", text="done"), None),
    (UsageRecorded(conversation=None), None),
    (MemoryLoaded(task_id="T-1", role="evaluator"), "evaluator of T-1"),
    (MemoryLoaded(), None),
    (review("reviewer:logic"), "reviewer:logic of reviewing"),
    (review("validators"), None),
    (BlockerReported(task_id="T-1"), "worker of T-1"),
    (BlockerReported(phase="design"), None),
    (AgentDied(name="worker of T-1"), "worker of T-1"),
    (PermissionAnswered(request="r1"), "worker of T-1"),
    (Checkpoint(label="wave-1-complete"), None),
]


@pytest.mark.parametrize(("event", "agent"), TABLE, ids=[f"{n}-{event.type}" for n, (event, _) in enumerate(TABLE)])
def test_event_names_its_agent(event: Event, agent: str | None) -> None:
    state = RunState(conversations=dict(KNOWN), permissions={"r1": PermissionRequest("w", "Edit a.py")})
    assert Attribution(state).agent_of(event) == agent


def test_conversations_and_requests_are_followed() -> None:
    """Those that the state did not have yet."""
    attribution = Attribution(RunState())
    opened = ConversationOpened(conversation="c", agent="codex", role="worker", task="T-2")
    asked = PermissionRequested(conversation="c", request="r2", title="Edit a.py")
    events = [opened, asked, PermissionAnswered(request="r2")]
    assert [attribution.agent_of(event) for event in events] == ["worker of T-2"] * 3
