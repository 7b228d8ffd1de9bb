"""The known agents: built-in and user-defined ones, with what each was measured to do."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from holdfast.agents.readiness import find_login, start_problem
from holdfast.agents.registry import BUILT_IN, AgentDefinition, find_agent, known_agents
from holdfast.core.config.settings import Settings
from holdfast.engine.agents.matrix import AgentMeasurement, read_matrix
from holdfast.engine.config.agents import agents_from_settings
from holdfast.engine.home import Home

__all__ = ["AgentMeasurement", "ListedAgent", "agent_problem", "agents_from_settings", "candidates", "list_agents"]


class ListedAgent(NamedTuple):
    name: str
    title: str
    command: tuple[str, ...]
    installed: bool
    install: str
    secrets: tuple[str, ...]
    row: AgentMeasurement | None
    login: str | None = None  # the key or the login file that was found
    login_command: str = ""
    problem: str | None = None  # why it cannot start here, and the command that mends it

    @property
    def is_ready(self) -> bool:
        return self.installed and self.problem is None


def list_agents(home: Home, user_agents: Mapping[str, AgentDefinition] | None = None) -> list[ListedAgent]:
    rows = read_matrix(home)
    return [_listed_agent(name, entry, rows.get(name)) for name, entry in known_agents(user_agents)]


def _listed_agent(name: str, entry: AgentDefinition, row: AgentMeasurement | None) -> ListedAgent:
    installed, login = entry.is_installed(), find_login(entry)
    return ListedAgent(
        name,
        entry.title,
        entry.command,
        installed,
        entry.install,
        entry.secrets,
        row,
        str(login) if login is not None else None,
        entry.login_command,
        start_problem(entry) if installed else None,
    )


def agent_problem(name: str, settings: Settings, model: str | None = None) -> str | None:
    """Return why an agent cannot start here, and the command that mends it. Raises `BadInput` for an unknown one."""
    return start_problem(find_agent(name, agents_from_settings(settings)), model or settings.model)


def candidates(agents: Sequence[ListedAgent]) -> list[ListedAgent]:
    """The agents that can work here, the ones with a login first; the built-in one where it has a key."""
    order = list(BUILT_IN)
    usable = [agent for agent in agents if agent.is_ready or (agent.name == "builtin" and agent.login is not None)]
    place = {agent.name: order.index(agent.name) if agent.name in order else -1 for agent in usable}
    return sorted(usable, key=lambda agent: (agent.name == "builtin", agent.login is None, place[agent.name]))
