"""Steps that only send the client an update."""

import asyncio
from typing import Any

import msgspec

from holdfast.agents.playbook.format import (
    ConfigOption,
    Flood,
    Memory,
    PlanEntry,
    PlaybookAgent,
    PlaybookChoice,
    PlaybookCommand,
    Spoken,
    Usage,
)
from holdfast.agents.playbook.turn import RunningTurn, text_content

_BATCH_UPDATES = 500  # of a flood, written at once


async def speak(turn: RunningTurn, kind: str, step: Spoken) -> None:
    text = turn.fill(step.text)
    size = step.chunk or max(1, len(text))
    for start in range(0, len(text), size):
        if start:
            await asyncio.sleep(step.delay)
        await turn.update(kind, content=text_content(text[start : start + size]))


async def show_plan(turn: RunningTurn, entries: list[PlanEntry | str]) -> None:
    whole = [PlanEntry(content=entry) if isinstance(entry, str) else entry for entry in entries]
    shown = [
        {"content": turn.fill(entry.content), "priority": entry.priority, "status": entry.status} for entry in whole
    ]
    await turn.update("plan", entries=shown)


async def show_usage(turn: RunningTurn, step: Usage) -> None:
    cost = None if step.cost is None else {"amount": step.cost, "currency": step.currency}
    await turn.update("usage_update", used=step.used, size=step.size, cost=cost)


async def show_commands(turn: RunningTurn, commands: list[PlaybookCommand]) -> None:
    shown = [
        {"name": command.name, "description": turn.fill(command.description)}
        | ({"input": {"hint": command.hint}} if command.hint else {})
        for command in commands
    ]
    await turn.update("available_commands_update", availableCommands=shown)


async def echo_memory(turn: RunningTurn, step: Memory) -> None:
    """Send the user's earlier messages as a JSON list, to prove that the conversation was restored."""
    earlier = [message.text for message in turn.record.said if message.turn != turn.record.turns]
    await turn.say(turn.fill(step.prefix) + msgspec.json.encode(earlier).decode())


def fork_point(meta: dict[str, Any]) -> str | None:
    """Return the message after which a copy of a session is cut, as Claude's and Codex's agents are told it."""
    try:
        return str(meta["jetbrains"]["air"]["fork"]["messageId"])
    except (KeyError, TypeError):
        return None


async def flood(turn: RunningTurn, step: Flood) -> None:
    update = {"sessionUpdate": "agent_message_chunk", "content": text_content(turn.fill(step.text))}
    params = {"sessionId": turn.record.id, "update": update}
    frame = msgspec.json.encode({"jsonrpc": "2.0", "method": "session/update", "params": params}) + b"\n"
    for start in range(0, step.updates, _BATCH_UPDATES):
        await turn.connection.send_bytes(frame * min(_BATCH_UPDATES, step.updates - start))


def choice_list(available: list[PlaybookChoice | str], key: str) -> list[dict[str, str]]:
    whole = [PlaybookChoice(id=choice) if isinstance(choice, str) else choice for choice in available]
    return [
        {key: choice.id, "name": choice.name or choice.id}
        | ({"description": choice.description} if choice.description else {})
        for choice in whole
    ]


def config_options(agent: PlaybookAgent, chosen: dict[str, str | bool]) -> list[dict[str, object]]:
    """Return the options in the protocol's form; models are one more option unless they are set otherwise."""
    config, models = agent.config, agent.models
    if models is not None and agent.models_by == "option":
        model = ConfigOption(
            id="model", name="Model", category="model", current=models.current, available=models.available
        )
        config = [*config, model]
    return [
        {
            "id": option.id,
            "name": option.name or option.id,
            "currentValue": chosen.get(option.id, option.current),
            **({"category": option.category} if option.category else {}),
            **({"description": option.description} if option.description else {}),
            **(
                {"type": "boolean"}
                if option.available is None
                else {"type": "select", "options": choice_list(option.available, "value")}
            ),
        }
        for option in config
    ]
