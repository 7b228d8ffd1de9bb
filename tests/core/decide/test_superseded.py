"""Which conversations nobody goes on with."""

from typing import Any

import pytest

from holdfast.core.decide.superseded import superseded_conversations
from holdfast.core.phase_state import PhaseProgress, Research
from holdfast.core.state import Conversation, RunState
from holdfast.core.task_state import Task

STATE: dict[str, Any] = {
    "tasks": {"T-1": Task(worker="w2", evaluator="e2"), "T-2": Task()},
    "phases": {"design": PhaseProgress(talks={"architect": "p2"})},
    "research": {"research-1": Research("w2", "a", "b", talk="r2")},
}

TABLE: dict[str, tuple[Conversation, bool]] = {
    "w1": (Conversation(role="worker", task="T-1", state="waiting_for_input"), True),
    "w2": (Conversation(role="worker", task="T-1", state="waiting_for_input"), False),
    "w3": (Conversation(role="worker", task="T-1", state="cancelled"), False),
    "w4": (Conversation(role="worker", task="T-2"), True),
    "w5": (Conversation(role="worker", task="T-9"), False),
    "e1": (Conversation(role="evaluator", task="T-1"), True),
    "e2": (Conversation(role="evaluator", task="T-1"), False),
    "e3": (Conversation(role="evaluator", task="T-2"), True),
    "p1": (Conversation(role="architect", about="design"), True),
    "p2": (Conversation(role="architect", about="design"), False),
    "p3": (Conversation(role="planner", about="design"), False),
    "r1": (Conversation(role="researcher", about="research-1"), True),
    "r2": (Conversation(role="researcher", about="research-1"), False),
    "x": (Conversation(agent="claude"), False),
}


@pytest.mark.parametrize("name", TABLE)
def test_superseded(name: str) -> None:
    conversation, expected = TABLE[name]
    assert superseded_conversations(RunState(**STATE, conversations={name: conversation})) == (
        [name] if expected else []
    )
