"""The state diagrams of a chat: each change of its conversation, and the change of its task in the same append."""

import pytest

from holdfast.core.conversation.states import ConversationState, InvalidTransition
from holdfast.core.decide.transitions import conversation_change, task_change
from holdfast.core.state import Conversation, RunState
from holdfast.core.task_state import Task, TaskStage, TaskStatus
from holdfast.core.work.task_states import InvalidTaskTransition

CHAT = {"name": "chat", "about": "a chat", "chat": True}


def chat(state: str, status: TaskStatus, *, turns: int = 1, stage: TaskStage = TaskStage.WORK) -> RunState:
    return RunState(
        workflow=CHAT,
        tasks={"T-1": Task(status, stage=stage, worker="c")},
        conversations={"c": Conversation("claude", "worker", "T-1", state=state, turns=turns)},
    )


@pytest.mark.parametrize(
    ("fact", "state", "target", "expected"),
    [
        ("a resume starts the agent", chat("waiting_for_input", TaskStatus.REVIEW), "starting", ["starting"]),
        ("the agent is ready", chat("starting", TaskStatus.REVIEW), "waiting_for_input", ["waiting_for_input"]),
        (
            "the token was rejected",
            chat("starting", TaskStatus.IN_PROGRESS),
            "waiting_for_input",
            ["waiting_for_input", "review"],
        ),
        (
            "the user sends a message",
            chat("waiting_for_input", TaskStatus.REVIEW),
            "running",
            ["running", "in_progress"],
        ),
        (
            "the turn ends",
            chat("running", TaskStatus.IN_PROGRESS),
            "waiting_for_input",
            ["waiting_for_input", "review"],
        ),
        (
            "the first prompt follows",
            chat("starting", TaskStatus.IN_PROGRESS, turns=0),
            "waiting_for_input",
            ["waiting_for_input"],
        ),
        (
            "the work is being accepted",
            chat("starting", TaskStatus.IN_PROGRESS, stage=TaskStage.MERGE),
            "waiting_for_input",
            ["waiting_for_input"],
        ),
        ("the chat is finished", chat("waiting_for_input", TaskStatus.COMPLETE), "completed", ["completed"]),
        ("it is there already", chat("waiting_for_input", TaskStatus.REVIEW), "waiting_for_input", []),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_change(fact: str, state: RunState, target: str, expected: list[str]) -> None:
    events = conversation_change(state, "c", ConversationState(target))
    assert [event.state for event in events] == expected, fact  # type: ignore[attr-defined]


@pytest.mark.parametrize("ended", ["completed", "failed", "cancelled"])
@pytest.mark.parametrize("target", list(ConversationState))
def test_ended_conversation_stays_ended(ended: str, target: ConversationState) -> None:
    with pytest.raises(InvalidTransition):
        conversation_change(chat(ended, TaskStatus.COMPLETE), "c", target)


def test_task_of_another_workflow_does_not_follow() -> None:
    state = chat("running", TaskStatus.IN_PROGRESS)
    state.workflow = None
    assert len(conversation_change(state, "c", ConversationState.WAITING)) == 1


def test_task_in_the_state_does_not_change() -> None:
    assert task_change(chat("running", TaskStatus.REVIEW), "T-1", TaskStatus.REVIEW) == []


def test_complete_task_cannot_be_reviewed() -> None:
    with pytest.raises(InvalidTaskTransition, match="it can become pending"):
        task_change(chat("completed", TaskStatus.COMPLETE), "T-1", TaskStatus.REVIEW)
