"""The agents there are: those we know, those of the user, and what each was measured to do."""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from holdfast.agents.launch import Runtime
from holdfast.agents.registry import BUILT_IN, Entry, listed
from holdfast.core.settings import AgentEntry, RuntimeChoice, Settings
from holdfast.engine.matrix import Row, matrix


class Listed(NamedTuple):
    name: str
    title: str
    command: tuple[str, ...]
    installed: bool
    install: str
    row: Row | None


def own_agents(settings: Settings) -> dict[str, Entry]:
    """The user's own. One by the name of an agent that we know is that agent, with what the user says of it."""
    return {name: _entry(entry, BUILT_IN.get(name)) for name, entry in settings.agents.items()}


def runtime_of(choice: RuntimeChoice) -> Runtime:
    return Runtime(**msgspec.structs.asdict(choice))


def _entry(own: AgentEntry, known: Entry | None) -> Entry:
    said = {name: getattr(own, name) for name in ("command", "title", "install", "secrets", "login")}
    told = {name: value for name, value in said.items() if value is not None}
    if own.runtime is not None:
        told["runtime"] = runtime_of(own.runtime)
    if own.terminal is not None:
        told["tui"] = own.terminal
    if known is None:
        return Entry(**told, environment=own.environment)
    return msgspec.structs.replace(known, **told, environment={**known.environment, **own.environment})


def list_agents(home: str, own: Mapping[str, Entry] | None = None) -> list[Listed]:
    rows = matrix(home)
    return [
        Listed(name, entry.title, entry.command, entry.found(), entry.install, rows.get(name))
        for name, entry in listed(own)
    ]
