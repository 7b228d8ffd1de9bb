"""What the agents of a phase are told, put together from the run's state and its repository."""

from collections.abc import Sequence

from holdfast.core.decide.actions import How
from holdfast.core.decide.phases import sent_from
from holdfast.core.events.work import MemoryLoaded
from holdfast.core.state import Document, Review, RunState
from holdfast.core.work.workflow import Kind, PhaseSpec, Workflow
from holdfast.engine.config.run_config import RESEARCHER, Terms
from holdfast.engine.prompts.memory import PLANNED, PREFERENCES, Given, load, recorded
from holdfast.engine.prompts.task import within_limits
from holdfast.engine.prompts.templates import own_folders
from holdfast.engine.workspace.workspace import Workspace
from holdfast.git.snapshot import diff
from holdfast.workflows import phase_prompts
from holdfast.workflows.phase_prompts import PhaseBrief
from holdfast.workflows.prompt_templates import find_template, preferences_of
from holdfast.workflows.task_prompts import Channel


class PhaseBriefing:
    def __init__(self, workspace: Workspace, terms: Terms) -> None:
        self._workspace = workspace
        self._terms = terms

    @property
    def _state(self) -> RunState:
        return self._workspace.hands.run.state

    async def for_phase(
        self, spec: PhaseSpec, role: str, how: How, messages: Sequence[str]
    ) -> tuple[str, MemoryLoaded]:
        brief, loaded = self._brief(role, spec.exit or phase_prompts.REVIEW, spec.prompt)
        state = self._state
        progress = state.phases[spec.name]
        brief = brief._replace(
            sections=spec.sections,
            schema=spec.schema,
            documents=documents_of(state, spec),
            changes=[state.changes[key] for key in (*progress.changes, *progress.heard) if key in state.changes],
            findings=found_before(state, self._terms.workflow, spec),
            messages=messages,
        )
        if how is How.NUDGE:
            return phase_prompts.nudge(brief), loaded
        if how is How.MESSAGE:
            return phase_prompts.told(brief), loaded
        if spec.kind is Kind.REVIEW:
            shown, cut = await self._changes()
            brief = brief._replace(diff=shown, diff_cut=cut)
        return phase_prompts.begin(brief), loaded

    def for_researcher(self, name: str, how: How) -> tuple[str, MemoryLoaded]:
        brief, loaded = self._brief(RESEARCHER, phase_prompts.RESEARCH, None)
        asked = self._state.research[name]
        brief = brief._replace(question=f"{asked.topic}\n\n{asked.question}")
        brief = brief._replace(plan="")  # its question is all that it is about
        return phase_prompts.nudge(brief) if how is How.NUDGE else phase_prompts.begin(brief), loaded

    def _brief(self, role: str, ending: str, template: str | None) -> tuple[PhaseBrief, MemoryLoaded]:
        tree = self._workspace.worktree()
        given = [
            Given(PREFERENCES, preferences_of(role, own_folders(self._state, "preferences"))),
            Given(PLANNED, plan_in_words(self._state)),
        ]
        memory = load(tree.path, self._terms.settings.memory, given)
        brief = PhaseBrief(
            template=find_template(role, template, own_folders(self._state, "prompts")),
            role=role,
            exit=ending,
            branch=tree.branch,
            goal=self._workspace.info.goal,
            memory=[Channel(one.name, one.text, one.cut) for one in memory if one.name != PLANNED],
            plan=next(one.text for one in memory if one.name == PLANNED),
            instructions=self._state.instructions,
        )
        return brief, MemoryLoaded(role=role, channels=recorded(memory))

    async def _changes(self) -> tuple[str, str | None]:
        """All that the run changed so far."""
        base = self._state.branches[self._workspace.place().branch].base
        now = await self._workspace.tip()
        whole = (await diff(self._workspace.repository, base or now, now)).decode(errors="replace")
        return within_limits(whole, base)


def documents_of(state: RunState, spec: PhaseSpec) -> list[tuple[str, Document]]:
    """Those of the phases that it builds on, and its own from the round before."""
    named = (*spec.inputs, spec.name)
    return [
        (name, document)
        for name, phase in state.phases.items()
        if name in named
        for document in phase.documents.values()
    ]


def found_before(state: RunState, workflow: Workflow, spec: PhaseSpec) -> list[tuple[str, Review]]:
    """What was found that leads here, in this phase itself or in another."""
    sender = sent_from(state, workflow, spec)
    own = state.phases[spec.name].found if spec.name in state.phases else {}
    given = {**own, **(state.phases[sender.name].reviews if sender is not None else {})}
    return [(role, review) for role, review in given.items() if not review.passed]


def plan_in_words(state: RunState) -> str:
    """What became of its tasks; the plan itself is a document of the phase that made it."""
    tasks = [(name, state.tasks[name]) for name in (state.plan.order if state.plan is not None else [])]
    return "\n".join(f"- {name} ({task.status}): {task.summary or ''}" for name, task in tasks)
