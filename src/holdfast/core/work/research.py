"""Research that agents requested. A repeated question of the same agent is researched only once."""

from holdfast.core.phase_state import PhaseStatus, Research
from holdfast.core.state import Conversation, RunState
from holdfast.core.task_state import TaskStatus

_ENDED_STATUSES = (TaskStatus.COMPLETE, TaskStatus.SKIPPED, PhaseStatus.COMPLETE, PhaseStatus.SKIPPED)


def find_same_research(state: RunState, conversation_id: str, question: str) -> str | None:
    """The research with the same question: of this conversation, or unanswered of a conversation that it replaced."""
    same = [(key, research) for key, research in state.research.items() if _is_same(research.question, question)]
    return next(
        (
            key
            for key, research in same
            if research.conversation == conversation_id or _is_replaced(state, research, conversation_id)
        ),
        None,
    )


def is_answer_pending(state: RunState, research_id: str) -> bool:
    """Whether its answer is not delivered yet, or was delivered in a turn that did not finish."""
    asker = state.conversations.get(state.research[research_id].conversation) or Conversation()
    return research_id in state.messages or research_id in asker.unheard


def is_wanted(state: RunState, asker: Conversation) -> bool:
    """Whether the task or phase of the asking agent has not ended."""
    task, phase = state.tasks.get(asker.task or ""), state.phases.get(asker.about or "")
    status = task.status if task is not None else phase.status if phase is not None else None
    return status not in _ENDED_STATUSES


def _is_replaced(state: RunState, research: Research, conversation_id: str) -> bool:
    before, now = state.conversations.get(research.conversation), state.conversations.get(conversation_id)
    if before is None or now is None or research.answered:
        return False
    return (before.task, before.about, before.role) == (now.task, now.about, now.role)


def _is_same(question: str, other: str) -> bool:
    return " ".join(question.split()).casefold() == " ".join(other.split()).casefold()
