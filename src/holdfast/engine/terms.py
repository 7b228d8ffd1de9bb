"""On what terms a run works: the settings, read for those who act."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from holdfast.agents.launch import Runtime
from holdfast.agents.registry import Entry, find_agent, missing
from holdfast.core.conversation import AfterInterruption
from holdfast.core.settings import Settings
from holdfast.core.workflow import Bounds, Workflow
from holdfast.engine.agents import runtime_of
from holdfast.engine.ladder import ANY_ROLE
from holdfast.engine.permissions import Consent
from holdfast.leaf.errors import BadInput
from holdfast.workflows.builtin import find_workflow

WORKER, EVALUATOR = "worker", "evaluator"


class Terms(NamedTuple):
    workflow: Workflow
    settings: Settings
    agents: Mapping[str, Entry] = {}

    @property
    def bounds(self) -> Bounds:
        caps = self.settings.caps
        return Bounds(
            iterations=caps.iterations,
            evaluator_calls=caps.evaluator_calls,
            conflict_attempts=caps.conflict_attempts,
            ask_when_cut_off=self.settings.after_interruption is AfterInterruption.ASK,
            parallel=self.settings.parallel,
            wall_clock=caps.wall_clock,
            tokens=caps.tokens,
            dollars=caps.dollars,
        )

    @property
    def consent(self) -> Consent:
        asked = self.settings.permissions
        return Consent(asked.policy, asked.rules, self.settings.hooks.pre_tool)

    @property
    def models(self) -> dict[str, str]:
        """By role, where the config names one."""
        return {name: role.model for name, role in self.settings.roles.items() if role.model is not None}

    @property
    def runtimes(self) -> dict[str, Runtime]:
        """What agents run in, by role; under no role's name, those of which neither role nor agent says anything."""
        roles = self.settings.roles.items()
        own = {name: runtime_of(role.runtime) for name, role in roles if role.runtime is not None}
        return {ANY_ROLE: runtime_of(self.settings.runtime), **own}

    def must_have_agents(self, tasks: Iterable[str | None] = (), *, here: bool = True) -> None:
        """Those who are to work are known, and `here`: asked before anything is begun. `tasks` are whom those name."""
        for name in dict.fromkeys((self.agent_for(WORKER), self.agent_for(EVALUATOR), *tasks)):
            entry = find_agent(name, self.agents) if name is not None else None
            if here and entry is not None and not (entry.found() or self._contained):
                raise BadInput(missing(entry))

    @property
    def _contained(self) -> bool:
        """Somebody works in a container: what is installed there is not for us to see."""
        chosen = [one.runtime for one in self.settings.roles.values()]
        chosen += [one.runtime for one in self.settings.agents.values()]
        return any(one is not None and one.kind == "container" for one in (self.settings.runtime, *chosen))

    def agent_for(self, role: str, wanted: str | None = None) -> str:
        """Who plays a role: the one that the task names, the role's, or the run's."""
        chosen = self.settings.roles.get(role)
        return wanted or (chosen.agent if chosen is not None else None) or self.settings.agent


def terms_of(settings: Settings, agents: Mapping[str, Entry]) -> Terms:
    return Terms(find_workflow(settings.workflow), settings, agents)
