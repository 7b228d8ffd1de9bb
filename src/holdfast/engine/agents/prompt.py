"""A prompt before and after it is sent: how it is composed, what it delivers, and how its turn ended."""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from holdfast.core.conversation.states import ASKED_AGAIN
from holdfast.core.events.conversation import MessageRecorded
from holdfast.leaf.errors import HoldfastError

NOTHING_TO_SAY = "nothing to say"  # the reason of a turn that did not start


class PromptRefused(HoldfastError):
    """An agent answered its prompt with an error, for example at its provider's limit: says nothing about the work."""


class TurnResult(NamedTuple):
    """How a turn ended. `reason` is the protocol's, or `interrupted`, `refused` or `no_tools` with a message."""

    turn_id: str
    reason: str
    detail: str | None = None

    def raise_if_refused(self) -> None:
        if self.reason in ASKED_AGAIN:
            raise PromptRefused(self.detail or "the agent answered its prompt with an error")


class Delivery(NamedTuple):
    """What a prompt delivers, as the log has it."""

    messages: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()


class Composed(NamedTuple):
    """A prompt as it is recorded, and what it delivers."""

    message: MessageRecorded
    delivery: Delivery = Delivery()


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
