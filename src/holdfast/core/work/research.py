"""Research that agents asked for: one question of one asker is looked into once, however often it is asked."""

from holdfast.core.state import Conversation, PhaseStatus, Research, RunState, TaskStatus

_OVER = (TaskStatus.COMPLETE, TaskStatus.SKIPPED, PhaseStatus.COMPLETE, PhaseStatus.SKIPPED)


def asked_before(state: RunState, conversation: str, question: str) -> str | None:
    """The research for the same question: of this conversation; or of one that it replaced, when it has no answer."""
    same = [(name, one) for name, one in state.research.items() if _is_same(one.question, question)]
    return next(
        (name for name, one in same if one.conversation == conversation or _is_replaced(state, one, conversation)), None
    )


def waits_for_delivery(state: RunState, name: str) -> bool:
    """Its answer is on its way: not told yet, or told in a turn that did not come to its end."""
    asker = state.conversations.get(state.research[name].conversation) or Conversation()
    return name in state.messages or name in asker.unheard


def is_wanted(state: RunState, asker: Conversation) -> bool:
    """The task or the phase of whoever asked is not over yet."""
    task, phase = state.tasks.get(asker.task or ""), state.phases.get(asker.about or "")
    status = task.status if task is not None else phase.status if phase is not None else None
    return status not in _OVER


def _is_replaced(state: RunState, research: Research, conversation: str) -> bool:
    before, now = state.conversations.get(research.conversation), state.conversations.get(conversation)
    if before is None or now is None or research.answered:
        return False
    return (before.task, before.about, before.role) == (now.task, now.about, now.role)


def _is_same(one: str, other: str) -> bool:
    return " ".join(one.split()).casefold() == " ".join(other.split()).casefold()
