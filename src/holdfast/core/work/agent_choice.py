"""Which agent plays a role, and which others may take over while its provider accepts no prompt."""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

WORKER, EVALUATOR, RESEARCHER = "worker", "evaluator", "researcher"


class RoleAgents(NamedTuple):
    """The agent that the config names for a role, and those that take over."""

    agent: str | None = None
    fallback: tuple[str, ...] = ()


class AgentChoice(NamedTuple):
    """`default` is the run's agent. `goes_back`: a conversation returns to the first agent once that is available."""

    default: str = ""
    roles: Mapping[str, RoleAgents] = {}
    goes_back: bool = False

    def for_task(self, role: str, task_agent: str | None = None) -> tuple[str, ...]:
        """The agents for a role of a task, first choice first: the one that the task names, the role's, the run's."""
        chosen = self.roles.get(role, RoleAgents())
        return _distinct(task_agent or chosen.agent or self.default, chosen.fallback)

    def for_phase(self, role: str, workflow_agent: str | None = None) -> tuple[str, ...]:
        """The agents for a role in a phase: the config's for it or for its kind, the workflow's, or the run's."""
        found = [self.roles.get(name, RoleAgents()) for name in dict.fromkeys((role, base_role(role)))]
        own = next((chosen.agent for chosen in found if chosen.agent is not None), None)
        fallback = next((chosen.fallback for chosen in found if chosen.fallback), ())
        return _distinct(own or workflow_agent or self.default, fallback)

    @property
    def stand_ins(self) -> frozenset[str]:
        """The agents that only take over for others."""
        taking_over = {name for chosen in self.roles.values() for name in chosen.fallback}
        return frozenset(taking_over - {self.default, *(chosen.agent for chosen in self.roles.values())})

    def pick(self, agents: Sequence[str], paused: Collection[str], current: str | None = None) -> str:
        """The agent for the next prompt; the first choice if none is available. `current` had the last one."""
        if current is not None and not self.goes_back and current in agents[1:] and current not in paused:
            return current
        return next((agent for agent in agents if agent not in paused), agents[0])


def base_role(role: str) -> str:
    """`reviewer` of `reviewer:logic`."""
    return role.partition(":")[0]


def _distinct(first: str, others: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((first, *others)))
