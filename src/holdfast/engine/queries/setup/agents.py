"""The known agents: built-in and user-defined ones, with what each was measured to do."""

from collections.abc import Mapping
from typing import NamedTuple

from holdfast.agents.registry import AgentDefinition, known_agents
from holdfast.engine.agents.matrix import AgentMeasurement, read_matrix
from holdfast.engine.config.agents import agents_from_settings
from holdfast.engine.home import Home

__all__ = ["AgentMeasurement", "ListedAgent", "agents_from_settings", "list_agents"]


class ListedAgent(NamedTuple):
    name: str
    title: str
    command: tuple[str, ...]
    installed: bool
    install: str
    secrets: tuple[str, ...]
    row: AgentMeasurement | None


def list_agents(home: Home, user_agents: Mapping[str, AgentDefinition] | None = None) -> list[ListedAgent]:
    rows = read_matrix(home)
    return [
        ListedAgent(
            name, entry.title, entry.command, entry.is_installed(), entry.install, entry.secrets, rows.get(name)
        )
        for name, entry in known_agents(user_agents)
    ]
