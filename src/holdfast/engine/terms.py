"""On what terms a run works: the settings, read for those who act."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from holdfast.agents.launch import ANY_ROLE, Runtime
from holdfast.agents.registry import Entry, find_agent, missing
from holdfast.core.conversation import AfterInterruption
from holdfast.core.permission import Consent
from holdfast.core.settings import Approvals, Settings
from holdfast.core.workflow import Bounds, Workflow
from holdfast.engine.agents import runtime_of
from holdfast.leaf.errors import BadInput
from holdfast.workflows.builtin import find_workflow

WORKER, EVALUATOR, RESEARCHER = "worker", "evaluator", "researcher"


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
            approving=self.settings.approvals is Approvals.GIVEN,
        )

    @property
    def consent(self) -> Consent:
        asked = self.settings.permissions
        return Consent(asked.policy, asked.rules, self.settings.hooks.pre_tool)

    @property
    def models(self) -> dict[str, str]:
        """By role, where the config names one; `reviewer` is also the one for `reviewer:logic`."""
        own = {name: role.model for name, role in self.settings.roles.items() if role.model is not None}
        return {role: own[_base(role)] for role in self._played if _base(role) in own} | own

    @property
    def runtimes(self) -> dict[str, Runtime]:
        """What agents run in, by role; under no role's name, those of which neither role nor agent says anything."""
        roles = self.settings.roles.items()
        own = {name: runtime_of(role.runtime) for name, role in roles if role.runtime is not None}
        played = {role: own[_base(role)] for role in self._played if _base(role) in own}
        return {ANY_ROLE: runtime_of(self.settings.runtime), **played, **own}

    @property
    def _played(self) -> list[str]:
        """The roles in the phases of the workflow."""
        return [role for phase in self.workflow.phases for role in phase.everyone]

    def must_have_agents(self, tasks: Iterable[str | None] = (), *, here: bool = True) -> None:
        """Those who are to work are known, and `here`: asked before anything is begun. `tasks` are whom those name."""
        phases = [self.agent_in(role, phase.agent) for phase in self.workflow.phases for role in phase.everyone]
        for name in dict.fromkeys((self.agent_for(WORKER), self.agent_for(EVALUATOR), *phases, *tasks)):
            entry = find_agent(name, self.agents) if name is not None else None
            if here and entry is not None and not (entry.found() or self._elsewhere):
                raise BadInput(missing(entry))

    @property
    def _elsewhere(self) -> bool:
        """Somebody works in a container, of which we cannot see what is installed, or by another program, in tmux."""
        return not kinds_in(self.settings).isdisjoint(("container", "tmux"))

    def agent_for(self, role: str, wanted: str | None = None) -> str:
        """Who plays a role: the one that the task names, the role's, or the run's."""
        chosen = self.settings.roles.get(role)
        return wanted or (chosen.agent if chosen is not None else None) or self.settings.agent

    def agent_in(self, role: str, suggested: str | None = None) -> str:
        """Who plays a role in a phase: the config's for it, or for its kind; the workflow's; or the run's."""
        roles = (self.settings.roles.get(name) for name in (role, _base(role)))
        own = next((one.agent for one in roles if one is not None and one.agent is not None), None)
        return own or suggested or self.settings.agent


def terms_of(settings: Settings, agents: Mapping[str, Entry]) -> Terms:
    """Of a run that is to be: with the workflow that the settings name."""
    return Terms(find_workflow(settings.workflow), settings, agents)


def kinds_in(settings: Settings) -> set[str]:
    """All that anybody may run in."""
    chosen = [one.runtime for one in settings.roles.values()]
    chosen += [one.runtime for one in settings.agents.values()]
    return {one.kind for one in (settings.runtime, *chosen) if one is not None}


def _base(role: str) -> str:
    return role.partition(":")[0]
