"""Warns that a cap on dollars cannot stop agents that do not report their cost, before they spend."""

from collections.abc import Mapping

from holdfast.agents.launch import ANY_ROLE, LOCAL
from holdfast.agents.registry import find_agent
from holdfast.core.events.issue import WarningLogged
from holdfast.core.state import RunState
from holdfast.core.summary.spending import agents_by_cost, cap_warning
from holdfast.engine.agents.matrix import AgentMeasurement
from holdfast.engine.config.run_config import RunConfig
from holdfast.store.run import OwnedRun


class CostCap:
    """Warns once per session about each agent that a cap on dollars cannot stop."""

    def __init__(self, run: OwnedRun, config: RunConfig, measurements: Mapping[str, AgentMeasurement]) -> None:
        self._run = run
        self._config = config
        self._measurements = measurements
        self._warned: set[str] = set()

    async def warn_at_start(self) -> None:
        await self._warn(agents_without_cost(self._run.state, self._config, self._measurements))

    async def warn_after_turn(self, conversation_id: str) -> None:
        """Warn about an agent whose first turn showed that it reports no cost."""
        conversation = self._run.state.conversations.get(conversation_id)
        if conversation is not None and conversation.has_unknown_cost and conversation.agent is not None:
            await self._warn([conversation.agent])

    async def _warn(self, agents: list[str]) -> None:
        caps, new = self._config.settings.caps, [name for name in agents if name not in self._warned]
        if caps.dollars is not None and new:
            self._warned.update(new)
            await self._run.append(WarningLogged(message=cap_warning(caps.dollars, caps.tokens, new)))


def agents_without_cost(state: RunState, config: RunConfig, measurements: Mapping[str, AgentMeasurement]) -> list[str]:
    """The chosen agents known to report no cost: by their turns in this run, by a probe, or by the registry."""
    reporting, silent = agents_by_cost(state.conversations.values())
    found = dict.fromkeys(
        name
        for role, name in config.agents_by_role(task.wants for task in state.tasks.values())
        if name in silent
        or (name not in reporting and _reports_cost(role, name, config, measurements.get(name)) is False)
    )
    return [*found]


def _reports_cost(role: str, agent: str, config: RunConfig, measurement: AgentMeasurement | None) -> bool | None:
    """Return None if it is unknown."""
    entry = find_agent(agent, config.agents)
    runtimes = config.runtimes
    usual = entry.runtime if entry.runtime != LOCAL else runtimes.get(ANY_ROLE, LOCAL)
    if runtimes.get(role, usual).kind == "tmux":  # its own terminal UI shows the cost, and Holdfast does not receive it
        return False
    return measurement.cost if measurement is not None and measurement.cost is not None else entry.reports_cost
