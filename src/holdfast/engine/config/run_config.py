"""The settings of a run, in the form that the engine uses."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from msgspec import structs

from holdfast.agents.environment import without_secrets
from holdfast.agents.launch import ANY_ROLE, LOCAL, Runtime, choose_runtime
from holdfast.agents.prices import TokenPrice
from holdfast.agents.readiness import start_problem
from holdfast.agents.registry import AgentDefinition, environment_for, find_agent
from holdfast.core.config.settings import Approvals, Settings
from holdfast.core.conversation.permission import PermissionConfig
from holdfast.core.conversation.states import AfterInterruption
from holdfast.core.provider_limit import BackOff, LimitPolicy
from holdfast.core.work.agent_choice import EVALUATOR, WORKER, AgentChoice, RoleAgents, base_role
from holdfast.core.work.workflow import Bounds, Workflow
from holdfast.engine.config.agents import runtime_of
from holdfast.leaf.errors import BadInput
from holdfast.workflows.builtin import find_workflow


class RoleRuntime(NamedTuple):
    """What a role's agent runs in, and the extra environment variables of its terminals there.

    Everything that an agent can write runs in the same place: the project's checks, hooks after an edit, and git's
    hooks and filters.
    """

    runtime: Runtime = LOCAL
    environment: Mapping[str, str] = {}


class RunConfig(NamedTuple):
    workflow: Workflow
    settings: Settings
    agents: Mapping[str, AgentDefinition] = {}

    @property
    def bounds(self) -> Bounds:
        caps = self.settings.caps
        return Bounds(
            iterations=caps.iterations,
            evaluator_calls=caps.evaluator_calls,
            conflict_attempts=caps.conflict_attempts,
            ask_when_interrupted=self.workflow.chat or self.settings.after_interruption is AfterInterruption.ASK,
            parallel=self.settings.parallel,
            reviewers=self.settings.reviewers,
            wall_clock=caps.wall_clock,
            tokens=caps.tokens,
            dollars=caps.dollars,
            task_tokens=self.settings.budgets.task_tokens,
            task_dollars=self.settings.budgets.task_dollars,
            idle=self.settings.chat.idle,
            auto_approve=self.settings.approvals is Approvals.GIVEN,
        )

    @property
    def choice(self) -> AgentChoice:
        """Which agent plays which role."""
        roles = {name: RoleAgents(role.agent, role.fallback) for name, role in self.settings.roles.items()}
        return AgentChoice(self.settings.agent, roles, self.settings.quota.go_back)

    @property
    def limits(self) -> LimitPolicy:
        quota, outage = self.settings.quota, self.settings.outage
        return LimitPolicy(
            BackOff(quota.back_off, quota.longest_back_off),
            BackOff(outage.back_off, outage.longest_back_off),
            quota.wait,
            outage.wait,
        )

    @property
    def prices(self) -> dict[str, TokenPrice]:
        """The user's own prices, by model or pattern."""
        return {name: TokenPrice(price.input, price.output) for name, price in self.settings.prices.items()}

    @property
    def consent(self) -> PermissionConfig:
        permissions = self.settings.permissions
        return PermissionConfig(permissions.policy, permissions.rules, self.settings.hooks.pre_tool)

    @property
    def models(self) -> dict[str, str]:
        """By role, where the config names a model; `reviewer` also names `reviewer:logic`, `ANY_ROLE` the rest."""
        own = {name: role.model for name, role in self.settings.roles.items() if role.model is not None}
        if self.settings.model is not None:
            own[ANY_ROLE] = self.settings.model
        return {role: own[base_role(role)] for role in self._workflow_roles if base_role(role) in own} | own

    def model_for(self, role: str) -> str | None:
        return self.models.get(role, self.settings.model)

    @property
    def runtimes(self) -> dict[str, Runtime]:
        """The runtimes by role; the empty role is for roles and agents without a setting."""
        roles = self.settings.roles.items()
        own = {name: runtime_of(role.runtime) for name, role in roles if role.runtime is not None}
        played = {role: own[base_role(role)] for role in self._workflow_roles if base_role(role) in own}
        return {ANY_ROLE: runtime_of(self.settings.runtime), **played, **own}

    def runtime_for_task(self, task_agent: str | None = None) -> RoleRuntime:
        """Return the runtime of a task's worker, for what runs on the files it wrote.

        `task_agent` is the agent the task names.
        """
        return self.runtime_for(WORKER, self.agent_for(WORKER, task_agent))

    def runtime_for_run(self) -> RoleRuntime:
        """Return the runtime for the run's own worktree, where any role may have worked: the first confined one."""
        found = [self.runtime_for(role, agent) for role, agent in self.agents_by_role()]
        return next((role_runtime for role_runtime in found if role_runtime.runtime.is_confined), RoleRuntime())

    def runtime_for(self, role: str | None, agent: str) -> RoleRuntime:
        entry = find_agent(agent, self.agents)
        runtime = choose_runtime(self.runtimes, role, entry.runtime)
        return RoleRuntime(runtime, without_secrets(environment_for(entry))) if runtime.is_confined else RoleRuntime()

    @property
    def _workflow_roles(self) -> list[str]:
        """Return the roles in the phases of the workflow."""
        return [role for phase in self.workflow.phases for role in phase.all_roles]

    def check_agents(
        self, task_agents: Iterable[str | None] = (), *, must_be_installed: bool = True, reads_playbooks: bool = True
    ) -> None:
        """Raise `BadInput` when an agent is unknown, or cannot start here. `task_agents` are those that tasks name.

        Reading playbooks is as slow as starting their agent, which reads its own again and says what is wrong.
        """
        checked = set[tuple[str, str | None, str]]()
        by_role = (*self.agents_by_role(task_agents), (EVALUATOR, self.agent_for(EVALUATOR)))
        for role, name in dict.fromkeys(by_role):
            entry = find_agent(name, self.agents)
            if not must_be_installed or self._uses_container_or_tmux:
                continue
            runtime, model = choose_runtime(self.runtimes, role, entry.runtime), self.model_for(role)
            if (name, model, runtime.kind) in checked:
                continue
            checked.add((name, model, runtime.kind))
            entry = structs.replace(entry, runtime=runtime)
            problem = start_problem(entry, model, reads_playbook=reads_playbooks)
            if problem is not None:
                raise BadInput(problem)

    def agents_by_role(self, task_agents: Iterable[str | None] = ()) -> list[tuple[str, str]]:
        """Return the agents by role: of the run, of the phases of its workflow, and those its tasks name."""
        judge = [(EVALUATOR, self.agent_for(EVALUATOR))] if self.workflow.evaluate else []
        phases = [
            (role, self.agent_for_phase(role, phase.agent))
            for phase in self.workflow.phases
            for role in phase.all_roles
        ]
        named = [(WORKER, name) for name in task_agents if name is not None]
        played = [(WORKER, self.agent_for(WORKER)), *judge, *phases, *named]
        return [*played, *self._fallbacks(dict.fromkeys(role for role, _ in played))]

    def _fallbacks(self, roles: Iterable[str]) -> list[tuple[str, str]]:
        return [(role, agent) for role in roles for agent in self.choice.for_phase(role)[1:]]

    @property
    def _uses_container_or_tmux(self) -> bool:
        """True if an agent runs in a container, where we cannot see what is installed, or in tmux."""
        return not runtime_kinds(self.settings).isdisjoint(("container", "tmux"))

    def agent_for(self, role: str, task_agent: str | None = None) -> str:
        """Return the agent for a role: the one that the task names, the role's, or the run's."""
        return self.choice.for_task(role, task_agent)[0]

    def agent_for_phase(self, role: str, workflow_agent: str | None = None) -> str:
        """Return the agent for a role in a phase: the config's for it or for its kind, the workflow's, or the run's."""
        return self.choice.for_phase(role, workflow_agent)[0]


def new_run_config(settings: Settings, agents: Mapping[str, AgentDefinition]) -> RunConfig:
    """Return the config of a new run, with the workflow that the settings name."""
    return RunConfig(find_workflow(settings.workflow), settings, agents)


def runtime_kinds(settings: Settings) -> set[str]:
    """Return every runtime that an agent of these settings may run in."""
    chosen = [role.runtime for role in settings.roles.values()]
    chosen += [agent.runtime for agent in settings.agents.values()]
    return {runtime.kind for runtime in (settings.runtime, *chosen) if runtime is not None}
