"""Conversations in whose place another was opened: nobody goes on with them, so they end."""

from holdfast.core.conversation.states import OVER
from holdfast.core.decide.attribution import EVALUATOR, WORKER
from holdfast.core.state import Conversation, RunState


def superseded(state: RunState) -> list[str]:
    """Those that are not over though another plays their part, or their evaluator's verdict is in."""
    return [
        name
        for name, talk in state.conversations.items()
        if talk.state not in OVER and not _plays_its_part(state, name, talk)
    ]


def _plays_its_part(state: RunState, name: str, talk: Conversation) -> bool:
    """Also of one whose part nobody knows: it is not for us to end."""
    task = state.tasks.get(talk.task or "")
    if task is not None and talk.role == WORKER:
        return task.worker == name  # a task that was restarted has none
    if task is not None and talk.role == EVALUATOR:
        return task.evaluator == name
    asked, phase = state.research.get(talk.about or ""), state.phases.get(talk.about or "")
    if asked is not None:
        return asked.talk in (None, name)
    return phase is None or talk.role is None or phase.talks.get(talk.role, name) == name
