"""Modes, models and other options that a person chose for an agent, and what a person does to a running turn."""

import asyncio
from collections.abc import Coroutine
from typing import Any, Protocol, Self

from holdfast.agents.acp.driver import AgentConnection, AgentModel, AgentRefused, AgentSession
from holdfast.core.events.chat import OptionChosen
from holdfast.core.events.conversation import ModeChanged
from holdfast.core.events.issue import WarningLogged
from holdfast.store.run import OwnedRun

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
            option_id = opened.mode_option or option if option == MODE else option
            await agent.set_option(opened.session_id, option_id, value)
    except AgentRefused as error:
        return f"the agent did not set {option} to {value!r}: {error}"
    return None


async def apply_option(
    run: OwnedRun, conversation_id: str, option: str, agent: AgentConnection, opened: AgentSession
) -> None:
    """Set the chosen value of an option. One that the agent refuses is forgotten, unless another was chosen since."""
    value = run.state.conversations[conversation_id].options.get(option)
    if value is None:
        return
    problem = await set_option(agent, opened, option, value)
    if problem is not None:
        is_newest = run.state.conversations[conversation_id].options.get(option) == value
        forgotten = [OptionChosen(conversation=conversation_id, option=option)] if is_newest else []
        await run.append(WarningLogged(message=problem), *forgotten)
    elif option == MODE and run.state.conversations[conversation_id].mode != value:  # not every agent tells of it
        await run.append(ModeChanged(conversation=conversation_id, mode=value))


async def _set_model(agent: AgentConnection, opened: AgentSession, value: str) -> str | None:
    found = find_model(opened, value)
    if found is None:
        return f"the agent offers no model {value!r}; it offers {offered_models(opened)}"
    await choose_model(agent, opened, found)
    return None


def find_model(opened: AgentSession, value: str) -> AgentModel | None:
    """Return the model that a person named by its id or its name."""
    wanted = value.casefold()
    return next((offer for offer in opened.models if wanted in (offer.value.casefold(), offer.name.casefold())), None)


def offered_models(opened: AgentSession) -> str:
    return ", ".join(offer.value for offer in opened.models) or "none to choose from"


async def choose_model(agent: AgentConnection, opened: AgentSession, model: AgentModel) -> None:
    """Set a model as its agent offers it: by an option, or by `session/set_model`."""
    if model.option_id is None:
        await agent.set_model(opened.session_id, model.value)
    else:
        await agent.set_option(opened.session_id, model.option_id, model.value)


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
