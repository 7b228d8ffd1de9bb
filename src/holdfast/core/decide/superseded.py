"""Conversations that another one replaced. They will not continue, so they are ended."""

from holdfast.core.conversation.states import ENDED_STATES
from holdfast.core.decide.attribution import EVALUATOR, WORKER
from holdfast.core.state import Conversation, RunState


def superseded_conversations(state: RunState) -> list[str]:
    """Open conversations whose role another one has taken over, or whose evaluator has given its verdict."""
    return [
        conversation_id
        for conversation_id, conversation in state.conversations.items()
        if conversation.state not in ENDED_STATES and not _is_current(state, conversation_id, conversation)
    ]


def _is_current(state: RunState, conversation_id: str, conversation: Conversation) -> bool:
    """Whether a conversation still has its role. True when its role is unknown."""
    task = state.tasks.get(conversation.task or "")
    if task is not None and conversation.role == WORKER:
        return task.worker == conversation_id  # a restarted task has none
    if task is not None and conversation.role == EVALUATOR:
        return task.evaluator == conversation_id
    research, phase = state.research.get(conversation.about or ""), state.phases.get(conversation.about or "")
    if research is not None:
        return research.talk in (None, conversation_id)
    return (
        phase is None
        or conversation.role is None
        or phase.talks.get(conversation.role, conversation_id) == conversation_id
    )
