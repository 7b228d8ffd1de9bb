"""Modes, models and other options that a person chose for an agent, and what a person does to a running turn."""

import asyncio
from collections.abc import Coroutine
from typing import Any, Protocol, Self

from holdfast.agents.acp.driver import AgentConnection, AgentRefused, AgentSession

MODE, MODEL = "mode", "model"


async def set_option(agent: AgentConnection, opened: AgentSession, option: str, value: str) -> str | None:
    """Set one option of an agent. Returns why it was not set; None when it was."""
    try:
        if option == MODE and value in opened.modes:
            await agent.set_mode(opened.session_id, value)
        elif option == MODE and opened.modes:
            return f"the agent has no mode {value!r}; its modes are {', '.join(opened.modes)}"
        elif option == MODEL:
            return await _set_model(agent, opened, value)
        else:
            await agent.set_option(opened.session_id, option, value)
    except AgentRefused as error:
        return f"the agent did not set {option} to {value!r}: {error}"
    return None


async def _set_model(agent: AgentConnection, opened: AgentSession, value: str) -> str | None:
    fits = [offer for offer in opened.models if value.casefold() in (offer.value.casefold(), offer.name.casefold())]
    if not fits:
        offered = ", ".join(offer.value for offer in opened.models) or "none to choose from"
        return f"the agent offers no model {value!r}; it offers {offered}"
    await agent.set_option(opened.session_id, fits[0].option_id, fits[0].value)
    return None


class Changeable(Protocol):
    """What a person can change in the conversations of a run while an agent works."""

    async def cancel(self, conversation_id: str, by: str | None = None) -> None: ...

    async def apply_option(self, conversation_id: str, option: str) -> None: ...


class LiveChanges:
    """Applies a person's changes to a running agent, beside the run. A context: all changes end with it."""

    def __init__(self, conversations: Changeable) -> None:
        self._conversations = conversations
        self._running: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        while self._running:
            await asyncio.gather(*self._running, return_exceptions=True)

    def cancel_turn(self, conversation_id: str, by: str) -> None:
        self._start(self._conversations.cancel(conversation_id, by))

    def apply_option(self, conversation_id: str, option: str) -> None:
        self._start(self._conversations.apply_option(conversation_id, option))

    def _start(self, change: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(change)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
