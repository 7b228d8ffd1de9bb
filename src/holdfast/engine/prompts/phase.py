"""Builds the prompts of a phase's agents from the run's state and its repository."""

from collections.abc import Sequence

from holdfast.core.decide.actions import PromptKind
from holdfast.core.decide.phases import sending_phase
from holdfast.core.events.work import MemoryLoaded
from holdfast.core.phase_state import Document, Review
from holdfast.core.state import RunState
from holdfast.core.work.agent_choice import RESEARCHER
from holdfast.core.work.workflow import PhaseKind, PhaseSpec, Workflow
from holdfast.engine.config.run_config import RunConfig
from holdfast.engine.prompts.memory import PLANNED, PREFERENCES, MemoryText, encode_channels, load_memory
from holdfast.engine.prompts.task import cut_diff
from holdfast.engine.prompts.templates import user_folders
from holdfast.engine.workspace.workspace import Workspace
from holdfast.git.snapshot import diff
from holdfast.workflows import phase_prompts
from holdfast.workflows.phase_prompts import PhaseBrief
from holdfast.workflows.prompt_templates import find_template, preferences_of
from holdfast.workflows.task_prompts import MemoryChannel


class PhasePromptBuilder:
    def __init__(self, workspace: Workspace, config: RunConfig) -> None:
        self._workspace = workspace
        self._config = config

    @property
    def _state(self) -> RunState:
        return self._workspace.effects.run.state

    async def for_phase(
        self, spec: PhaseSpec, role: str, prompt_kind: PromptKind, messages: Sequence[str]
    ) -> tuple[str, MemoryLoaded]:
        brief, loaded = self._make_brief(role, spec.exit or phase_prompts.REVIEW_TOOL, spec.prompt)
        state = self._state
        progress = state.phases[spec.name]
        brief = brief._replace(
            sections=spec.sections,
            schema=spec.schema,
            documents=input_documents(state, spec),
            changes=[state.changes[key] for key in (*progress.changes, *progress.heard) if key in state.changes],
            findings=failed_reviews_for(state, self._config.workflow, spec),
            messages=messages,
        )
        if prompt_kind is PromptKind.NUDGE:
            return phase_prompts.nudge_phase(brief), loaded
        if prompt_kind is PromptKind.MESSAGE:
            return phase_prompts.continue_phase(brief), loaded
        if spec.kind is PhaseKind.REVIEW:
            shown, cut = await self._run_diff()
            brief = brief._replace(diff=shown, diff_cut=cut)
        return phase_prompts.begin_phase(brief), loaded

    def for_researcher(self, research_id: str, prompt_kind: PromptKind) -> tuple[str, MemoryLoaded]:
        brief, loaded = self._make_brief(RESEARCHER, phase_prompts.RESEARCH_TOOL, None)
        research = self._state.research[research_id]
        brief = brief._replace(question=f"{research.topic}\n\n{research.question}")
        brief = brief._replace(plan="")  # the question is the whole assignment
        return phase_prompts.nudge_phase(brief) if prompt_kind is PromptKind.NUDGE else phase_prompts.begin_phase(
            brief
        ), loaded

    def _make_brief(self, role: str, exit_kind: str, template: str | None) -> tuple[PhaseBrief, MemoryLoaded]:
        tree = self._workspace.worktree()
        given = [
            MemoryText(PREFERENCES, preferences_of(role, user_folders(self._state, "preferences"))),
            MemoryText(PLANNED, task_status_text(self._state)),
        ]
        memory = load_memory(tree.path, self._config.settings.memory, given)
        brief = PhaseBrief(
            template=find_template(role, template, user_folders(self._state, "prompts")),
            role=role,
            exit=exit_kind,
            branch=tree.branch,
            goal=self._workspace.info.goal,
            memory=[
                MemoryChannel(channel.name, channel.text, channel.cut) for channel in memory if channel.name != PLANNED
            ],
            plan=next(channel.text for channel in memory if channel.name == PLANNED),
            instructions=self._state.instructions,
        )
        return brief, MemoryLoaded(role=role, channels=encode_channels(memory))

    async def _run_diff(self) -> tuple[str, str | None]:
        """Return everything that the run has changed so far."""
        base = self._state.branches[self._workspace.place().branch].base
        now = await self._workspace.tip()
        whole = (await diff(self._workspace.repository, base or now, now)).decode(errors="replace")
        return cut_diff(whole, base)


def input_documents(state: RunState, spec: PhaseSpec) -> list[tuple[str, Document]]:
    """Return the documents of the phases this one builds on, and its own from the previous round."""
    named = (*spec.inputs, spec.name)
    return [
        (name, document)
        for name, phase in state.phases.items()
        if name in named
        for document in phase.documents.values()
    ]


def failed_reviews_for(state: RunState, workflow: Workflow, spec: PhaseSpec) -> list[tuple[str, Review]]:
    """Return the failed reviews that lead to this phase, from this phase or another."""
    sender = sending_phase(state, workflow, spec)
    own = state.phases[spec.name].found if spec.name in state.phases else {}
    given = {**own, **(state.phases[sender.name].reviews if sender is not None else {})}
    return [(role, review) for role, review in given.items() if not review.passed]


def task_status_text(state: RunState) -> str:
    """Return the state of its tasks; the plan itself is a document of the phase that made it."""
    tasks = [(name, state.tasks[name]) for name in (state.plan.order if state.plan is not None else [])]
    return "\n".join(f"- {name} ({task.status}): {task.summary or ''}" for name, task in tasks)
