"""A prompt before and after it is sent: how it is composed, what it delivers, and how its turn ended."""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from holdfast.core.conversation.states import ASKED_AGAIN
from holdfast.core.events.conversation import MessageRecorded
from holdfast.engine.agents.content import NO_FILES, PromptFiles
from holdfast.leaf.errors import HoldfastError

NOTHING_TO_SAY = "nothing to say"  # the reason of a turn that did not start


class PromptRefused(HoldfastError):
    """An agent answered its prompt with an error, for example at its provider's limit: says nothing about the work."""


class AgentPaused(HoldfastError):
    """The agent's provider accepts no prompt now, and the log says until when. Not a failed attempt."""


class TurnResult(NamedTuple):
    """How a turn ended. `reason` is the protocol's, or `interrupted`, `refused` or `no_tools` with a message.

    `limited`: because of its provider's limit or an outage.
    """

    turn_id: str
    reason: str
    detail: str | None = None
    limited: bool = False

    def raise_if_refused(self) -> None:
        if self.limited:
            raise AgentPaused(self.detail or "the agent's provider accepts no prompt now")
        if self.reason in ASKED_AGAIN:
            raise PromptRefused(self.detail or "the agent answered its prompt with an error")


class Delivery(NamedTuple):
    """What a prompt delivers, as the log has it."""

    messages: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()


class Composed(NamedTuple):
    """A prompt as it is recorded, what it delivers, and the files that go with it."""

    message: MessageRecorded
    delivery: Delivery = Delivery()
    files: PromptFiles = NO_FILES


Compose = Callable[[], Awaitable[Composed | None]]  # None if there is nothing to send any more


def composed_before(message: MessageRecorded, delivery: Delivery) -> Compose:
    """A prompt that was composed before its agent was ready."""

    async def compose() -> Composed | None:
        return Composed(message, delivery)

    return compose


class ComposedOnce:
    """Composes a prompt once. Sent a second time, it delivers the same messages, and the log has them already."""

    def __init__(self, compose: Compose) -> None:
        self._compose = compose
        self._composed: Composed | None = None

    async def __call__(self) -> Composed | None:
        if self._composed is not None:
            return self._composed._replace(delivery=self._composed.delivery._replace(messages=()))
        self._composed = await self._compose()
        return self._composed
