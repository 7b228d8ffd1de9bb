"""What an agent reports, as a message in the run's inbox."""

import msgspec

from holdfast.core.signals import SubmitCase, SubmitDone
from holdfast.core.state import OpenMessage, RunState

SIGNAL = "signal."  # what the kind of such a message begins with

_CASES = (f"{SIGNAL}{SubmitCase.tool}", f"{SIGNAL}{SubmitDone.tool}")


class Report(msgspec.Struct, frozen=True):
    role: str
    signal: dict[str, object]
    conversation: str | None = None


def is_reported(state: RunState, worker: str | None) -> bool:
    """A case of this worker came in, and was not acted on yet."""
    reports = (message for message in state.messages.values() if message.kind in _CASES)
    return any(_conversation_of(report) == worker for report in reports)


def _conversation_of(message: OpenMessage) -> str | None:
    try:
        return msgspec.json.decode(message.body, type=Report).conversation
    except msgspec.MsgspecError:
        return None
