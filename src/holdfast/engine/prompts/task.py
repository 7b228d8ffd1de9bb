"""What the agents of a task are told, put together from the run's state and its repository."""

from collections.abc import Sequence

import msgspec

from holdfast.core.decide.actions import How
from holdfast.core.decide.attribution import EVALUATOR, WORKER
from holdfast.core.end_reason import EndReason
from holdfast.core.events.work import WORKTREE_LOST, MemoryLoaded
from holdfast.core.messages.notices import change_key
from holdfast.core.messages.signals import SubmitCase
from holdfast.core.state import RunState, Task
from holdfast.core.work.tasks import TaskSpec
from holdfast.core.work.workflow import PLAN, Kind
from holdfast.engine.config.run_config import Terms
from holdfast.engine.prompts.memory import (
    LEDGER,
    OVERVIEW,
    PLANNED,
    PREFERENCES,
    PROGRESS,
    Given,
    load,
    recorded,
)
from holdfast.engine.prompts.templates import own_folders
from holdfast.engine.workspace.workspace import Workspace
from holdfast.git.commit import unresolved
from holdfast.git.snapshot import capture, diff
from holdfast.git.worktrees.worktree import Worktree
from holdfast.workflows import prompt_templates as templating
from holdfast.workflows import task_prompts as prompts
from holdfast.workflows.prompt_templates import find_template, preferences_of
from holdfast.workflows.task_prompts import Brief, Channel, verdict_text, verdicts_within

DIFF = 200_000  # characters of a diff that an evaluator is shown
_APART = (OVERVIEW, LEDGER)  # channels that have a section of their own


class Briefing:
    def __init__(self, workspace: Workspace, terms: Terms) -> None:
        self._workspace = workspace
        self._terms = terms

    @property
    def _state(self) -> RunState:
        return self._workspace.hands.run.state

    async def for_worker(self, name: str, how: How, messages: Sequence[str]) -> tuple[str, MemoryLoaded]:
        brief, loaded = self._brief(name, WORKER, messages)
        match how:
            case How.NUDGE if self._state.tasks[name].reason == EndReason.EMPTY_RESPONSES:
                return prompts.after_empty_turn(brief), loaded
            case How.NUDGE:
                return prompts.nudge(brief), loaded
            case How.RESOLVE if all(check.passed for check in brief.checks):
                conflicts = self._state.tasks[name].conflicts
                return prompts.resolve_conflicts(self._by(brief, templating.CONFLICT), conflicts), loaded
            case How.RESOLVE:
                left = await unresolved(self._workspace.worktree(name))
                return prompts.repair_merge(self._by(brief, templating.AGAIN), left), loaded
            case How.AGAIN:
                return prompts.work_again(self._by(brief, templating.AGAIN)), loaded
            case How.MESSAGE:
                return "\n\n".join([*brief.notices, *brief.messages]), loaded
            case How.BEGIN | How.GO_ON:
                return prompts.begin_work(self._by(brief, templating.WORKER)), loaded

    def notices(self, name: str) -> dict[str, str]:
        """What the task's worker has to be told because it cannot know it, by the keys of the notices."""
        task = self._state.tasks[name]
        changed = {change_key(task): prompts.task_changed(task.before)} if task.before is not None else {}
        return {**changed, **{key: loss.text for key, loss in task.losses.items()}}

    def _by(self, brief: Brief, name: str) -> Brief:
        """With the template of that name, the user's before ours."""
        return brief._replace(template=find_template(name, name, own_folders(self._state, "prompts")))

    async def for_evaluator(self, name: str, how: How, tree: Worktree) -> tuple[str, MemoryLoaded]:
        brief, loaded = self._brief(name, EVALUATOR, ())
        if how is How.NUDGE:
            return prompts.evaluate_again(), loaded
        changes, cut = await self._changes(name, tree)
        brief = self._by(brief, templating.EVALUATOR)
        return prompts.evaluate(brief, _case(self._state.tasks[name]), changes, cut), loaded

    async def _changes(self, name: str, tree: Worktree) -> tuple[str, str | None]:
        """All that the task changed so far, and what is missing of it here."""
        base = self._state.branches[self._workspace.place(name).branch].base
        now = self._state.tasks[name].tree or (await capture(tree, "What is to be judged")).oid
        whole = (await diff(self._workspace.repository, base or now, now)).decode(errors="replace")
        return within_limits(whole, f"{base} {now}")

    def outcome(self, name: str) -> str | None:
        """What came of the task, in the worker's own words."""
        case = _case(self._state.tasks[name])
        return case.summary if case is not None else None

    def commit_message(self, name: str) -> str:
        task = self._state.tasks[name]
        title = task.summary or name
        case = _case(task)
        return f"{title}\n\n{case.summary}\n" if case is not None else f"{title}\n"

    def _brief(self, name: str, role: str, messages: Sequence[str]) -> tuple[Brief, MemoryLoaded]:
        task, plan = self._state.tasks[name], self._state.plan
        tree = self._workspace.worktree(name)
        given = [
            Given(OVERVIEW, plan.overview if plan is not None else ""),
            *self._others(role),
            Given(PLANNED, self._plan(name)),
            Given(LEDGER, "\n\n".join(map(verdict_text, task.verdicts)), from_end=True),
            Given(PROGRESS, self._progress(name), from_end=True),
        ]
        memory = {one.name: one for one in load(tree.path, self._terms.settings.memory, given)}
        ledger = verdicts_within(task.verdicts, memory[LEDGER].room)
        text, older = "\n\n".join(map(verdict_text, ledger)), len(task.verdicts) - len(ledger)
        memory[LEDGER] = memory[LEDGER]._replace(text=text, cut=list(ledger) != task.verdicts)
        brief = Brief(
            goal=self._workspace.info.goal,
            task=_spec(name, task, plan.blocked_by.get(name, []) if plan is not None else []),
            branch=tree.branch,
            overview=memory[OVERVIEW].text,
            memory=[Channel(one.name, one.text, one.cut) for one in memory.values() if one.name not in _APART],
            ledger=ledger,
            older=older,
            checks=task.checks,
            instructions=self._state.instructions,
            messages=messages,
            must_submit=self._terms.workflow.case,
            lost=task.reason == WORKTREE_LOST,
            notices=list(self.notices(name).values()) if role == WORKER else [],
        )
        return brief, MemoryLoaded(task_id=name, role=role, channels=recorded([*memory.values()]))

    def _others(self, role: str) -> list[Given]:
        """What the role is to hold to; what agents of phases handed in, but for the plan: of that there is the task."""
        phases = [one.name for one in self._terms.workflow.phases if one.kind is Kind.AGENT and one.exit != PLAN]
        preferences = preferences_of(role, own_folders(self._state, "preferences"))
        documents = {
            f"{name}: {document.title}": document.text
            for name, progress in self._state.phases.items()
            if name in phases
            for document in progress.documents.values()
        }
        return [Given(PREFERENCES, preferences), *(Given(name, text) for name, text in documents.items())]

    def _plan(self, name: str) -> str:
        """The tasks of the plan, when there is more than this one."""
        plan = self._state.plan
        if plan is None or len(plan.order) < 2:  # noqa: PLR2004 - this one and another
            return ""
        after = {key: f" (after {', '.join(needed)})" for key, needed in plan.blocked_by.items() if needed}
        own = {name: " (this task)"}
        tasks = [(key, self._state.tasks.get(key) or Task()) for key in plan.order]
        return "\n".join(f"- {key}: {task.summary or ''}{after.get(key, '')}{own.get(key, '')}" for key, task in tasks)

    def _progress(self, name: str) -> str:
        """What the other tasks came to, so far."""
        tasks = self._state.tasks.items()
        return "\n".join(
            f"- {key} ({task.status}): {task.outcome or task.summary or ''}" for key, task in tasks if key != name
        )


def within_limits(whole: str, base: str | None) -> tuple[str, str | None]:
    """As much of a diff as is shown, and what is missing of it."""
    if len(whole) <= DIFF:
        return whole, None
    return whole[:DIFF], f"{len(whole) - DIFF:,} of {len(whole):,} characters; `git diff {base}` shows all of it"


def _spec(name: str, task: Task, needed: Sequence[str]) -> TaskSpec:
    return TaskSpec(
        id=name,
        title=task.summary or name,
        description=task.description,
        acceptance_criteria=tuple(task.acceptance_criteria),
        depends_on=tuple(needed),
        files=tuple(task.files or ()),
    )


def _case(task: Task) -> SubmitCase | None:
    try:
        return msgspec.json.decode(task.case, type=SubmitCase) if task.case is not None else None
    except msgspec.MsgspecError:
        return None  # an agent that had none to argue
