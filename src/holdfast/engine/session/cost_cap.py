"""A cap on dollars binds only agents that report their cost. Before one that does not spends, people are warned."""

from collections.abc import Mapping

from holdfast.agents.launch import ANY_ROLE, LOCAL
from holdfast.agents.registry import find_agent
from holdfast.core.events.issue import WarningLogged
from holdfast.core.state import RunState
from holdfast.core.summary.spending import agents_by_cost, cap_warning
from holdfast.engine.agents.matrix import Row
from holdfast.engine.config.run_config import Terms
from holdfast.store.run import OwnedRun


class CostCap:
    """Warns once a session of each agent that a cap on dollars cannot stop."""

    def __init__(self, run: OwnedRun, terms: Terms, measured: Mapping[str, Row]) -> None:
        self._run = run
        self._terms = terms
        self._measured = measured
        self._warned: set[str] = set()

    async def warn_at_start(self) -> None:
        await self._warn(silent_agents(self._run.state, self._terms, self._measured))

    async def warn_after_turn(self, conversation: str) -> None:
        """Of an agent about which only its first turn told."""
        talk = self._run.state.conversations.get(conversation)
        if talk is not None and talk.unpriced and talk.agent is not None:
            await self._warn([talk.agent])

    async def _warn(self, silent: list[str]) -> None:
        caps, new = self._terms.settings.caps, [name for name in silent if name not in self._warned]
        if caps.dollars is not None and new:
            self._warned.update(new)
            await self._run.append(WarningLogged(message=cap_warning(caps.dollars, caps.tokens, new)))


def silent_agents(state: RunState, terms: Terms, measured: Mapping[str, Row]) -> list[str]:
    """The chosen agents known to report no cost: by their turns in this run, by a probe, or by the registry."""
    told, silent = agents_by_cost(state.conversations.values())
    found = dict.fromkeys(
        name
        for role, name in terms.chosen(task.wants for task in state.tasks.values())
        if name in silent or (name not in told and _reports_cost(role, name, terms, measured.get(name)) is False)
    )
    return [*found]


def _reports_cost(role: str, name: str, terms: Terms, row: Row | None) -> bool | None:
    """None when nobody knows."""
    entry = find_agent(name, terms.agents)
    runtimes = terms.runtimes
    usual = entry.runtime if entry.runtime != LOCAL else runtimes.get(ANY_ROLE, LOCAL)
    if runtimes.get(role, usual).kind == "tmux":  # its own terminal UI shows what it costs, and nobody else hears it
        return False
    return row.cost if row is not None and row.cost is not None else entry.reports_cost
