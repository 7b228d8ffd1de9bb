"""The prompt that continues an interrupted turn, with everything that arrived since."""

from holdfast.core.conversation.interruption import PendingUpdates
from holdfast.core.conversation.states import AfterInterruption
from holdfast.core.events.conversation import MessageRecorded
from holdfast.core.messages.schema import message_text
from holdfast.core.state import Conversation
from holdfast.engine.agents.prompt import Composed, Delivery
from holdfast.engine.agents.transcript import interrupted_turn
from holdfast.store.base import Log
from holdfast.workflows.continuation_prompt import continue_turn, repeat_request


async def compose_continuation(
    log: Log, conversation_id: str, state: Conversation, policy: AfterInterruption, since: PendingUpdates
) -> Composed | None:
    """Return None if no turn was interrupted, or a person decides how to continue."""
    turn = await interrupted_turn(log, conversation_id)
    if turn is None or (policy is AfterInterruption.ASK and not since.messages):
        return None
    repeated = [message_text(message.body) for key, message in state.unheard.items() if key in turn.later_messages]
    notices = [text for key, text in since.notices.items() if key not in turn.notices]
    restate = repeat_request if policy is AfterInterruption.RETRY else continue_turn
    text = restate(turn, [*repeated, *since.messages.values()], notices)
    # Not the user's text: if this turn is interrupted too, the request is still the user's.
    recorded = MessageRecorded(conversation=conversation_id, speaker="system", text=text)
    return Composed(recorded, Delivery(tuple(since.messages), tuple(since.notices)))
