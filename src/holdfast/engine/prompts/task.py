"""Builds the prompts of a task's agents from the run's state and its repository."""

from collections.abc import Sequence

import msgspec

from holdfast.core.decide.actions import PromptKind
from holdfast.core.decide.attribution import EVALUATOR, WORKER
from holdfast.core.end_reason import EndReason
from holdfast.core.events.work import WORKTREE_LOST, MemoryLoaded
from holdfast.core.messages.notices import change_key
from holdfast.core.messages.signals import SubmitCase
from holdfast.core.state import RunState
from holdfast.core.task_index import task_index
from holdfast.core.task_state import Task
from holdfast.core.work.tasks import TaskSpec
from holdfast.core.work.workflow import PLAN_SIGNAL, PhaseKind
from holdfast.engine.config.run_config import RunConfig
from holdfast.engine.prompts.memory import (
    LEDGER,
    OVERVIEW,
    PLANNED,
    PREFERENCES,
    PROGRESS,
    MemoryText,
    encode_channels,
    load_memory,
)
from holdfast.engine.prompts.templates import user_folders
from holdfast.engine.workspace.workspace import Workspace
from holdfast.git.commit import unresolved_paths
from holdfast.git.snapshot import capture, diff
from holdfast.git.worktrees.worktree import Worktree
from holdfast.workflows import prompt_templates as templating
from holdfast.workflows import task_prompts as prompts
from holdfast.workflows.prompt_templates import find_template, preferences_of
from holdfast.workflows.task_prompts import Brief, MemoryChannel, newest_verdicts, verdict_text

MAX_DIFF_CHARS = 200_000  # of a diff shown to an evaluator
_CHANNELS_WITH_SECTION = (OVERVIEW, LEDGER)  # channels with a section of their own
_MAX_LISTED_TASKS = 200  # tasks of the plan, in a prompt


class TaskPromptBuilder:
    def __init__(self, workspace: Workspace, config: RunConfig) -> None:
        self._workspace = workspace
        self._config = config

    @property
    def _state(self) -> RunState:
        return self._workspace.effects.run.state

    async def for_worker(
        self, task_id: str, prompt_kind: PromptKind, messages: Sequence[str]
    ) -> tuple[str, MemoryLoaded]:
        brief, loaded = self._make_brief(task_id, WORKER, messages)
        match prompt_kind:
            case PromptKind.NUDGE if self._state.tasks[task_id].reason == EndReason.EMPTY_RESPONSES:
                return prompts.after_empty_turn(brief), loaded
            case PromptKind.NUDGE:
                return prompts.nudge(brief), loaded
            case PromptKind.RESOLVE_CONFLICTS if not any(check.is_failure for check in brief.checks):
                conflicts = self._state.tasks[task_id].conflicts
                return prompts.resolve_conflicts(
                    self._with_template(brief, templating.WORKER_CONFLICT), conflicts
                ), loaded
            case PromptKind.RESOLVE_CONFLICTS:
                left = await unresolved_paths(self._workspace.worktree(task_id))
                return prompts.repair_merge(self._with_template(brief, templating.WORKER_AGAIN), left), loaded
            case PromptKind.NEXT_ITERATION:
                return prompts.work_again(self._with_template(brief, templating.WORKER_AGAIN)), loaded
            case PromptKind.MESSAGE:
                return "\n\n".join([*brief.notices, *brief.messages]), loaded
            case PromptKind.BEGIN | PromptKind.CONTINUE:
                return prompts.begin_work(self._with_template(brief, templating.WORKER)), loaded

    def notices(self, task_id: str) -> dict[str, str]:
        """Return what the task's worker cannot know by itself, by notice key."""
        task = self._state.tasks[task_id]
        changed = {change_key(task): prompts.task_changed_notice(task.before)} if task.before is not None else {}
        return {**changed, **{key: loss.text for key, loss in task.losses.items()}}

    def _with_template(self, brief: Brief, template_name: str) -> Brief:
        """Add the named template; the user's has precedence over ours."""
        return brief._replace(
            template=find_template(template_name, template_name, user_folders(self._state, "prompts"))
        )

    async def for_evaluator(self, task_id: str, prompt_kind: PromptKind, tree: Worktree) -> tuple[str, MemoryLoaded]:
        brief, loaded = self._make_brief(task_id, EVALUATOR, ())
        if prompt_kind is PromptKind.NUDGE:
            return prompts.evaluate_again(), loaded
        changes, cut = await self._task_diff(task_id, tree)
        brief = self._with_template(brief, templating.EVALUATOR)
        return prompts.evaluate(brief, _decode_case(self._state.tasks[task_id]), changes, cut), loaded

    async def _task_diff(self, task_id: str, tree: Worktree) -> tuple[str, str | None]:
        """Return what the task has changed so far, and a note on what is cut."""
        base = self._state.branches[self._workspace.place(task_id).branch].base
        now = self._state.tasks[task_id].tree or (await capture(tree, "What is to be judged")).oid
        whole = (await diff(self._workspace.repository, base or now, now)).decode(errors="replace")
        return cut_diff(whole, f"{base} {now}")

    def outcome(self, task_id: str) -> str | None:
        """Return the task's outcome in the worker's own words."""
        case = _decode_case(self._state.tasks[task_id])
        return case.summary if case is not None else None

    def commit_message(self, task_id: str) -> str:
        task = self._state.tasks[task_id]
        title = task.summary or task_id
        case = _decode_case(task)
        return f"{title}\n\n{case.summary}\n" if case is not None else f"{title}\n"

    def _make_brief(self, task_id: str, role: str, messages: Sequence[str]) -> tuple[Brief, MemoryLoaded]:
        task, plan = self._state.tasks[task_id], self._state.plan
        tree = self._workspace.worktree(task_id)
        given = [
            MemoryText(OVERVIEW, plan.overview if plan is not None else ""),
            *self._role_memory(role),
            MemoryText(PLANNED, self._plan_text(task_id)),
            MemoryText(LEDGER, "\n\n".join(map(verdict_text, task.verdicts)), from_end=True),
            MemoryText(PROGRESS, self._progress_text(task_id), from_end=True),
        ]
        memory = {channel.name: channel for channel in load_memory(tree.path, self._config.settings.memory, given)}
        ledger = newest_verdicts(task.verdicts, memory[LEDGER].max_chars)
        text, older = "\n\n".join(map(verdict_text, ledger)), len(task.verdicts) - len(ledger)
        memory[LEDGER] = memory[LEDGER]._replace(text=text, cut=list(ledger) != task.verdicts)
        brief = Brief(
            goal=self._workspace.info.goal,
            task=_task_spec(task_id, task, plan.blocked_by.get(task_id, []) if plan is not None else []),
            branch=tree.branch,
            overview=memory[OVERVIEW].text,
            memory=[
                MemoryChannel(channel.name, channel.text, channel.cut)
                for channel in memory.values()
                if channel.name not in _CHANNELS_WITH_SECTION
            ],
            ledger=ledger,
            older=older,
            checks=task.checks,
            instructions=self._state.instructions,
            messages=messages,
            must_submit=self._config.workflow.case,
            lost=task.reason == WORKTREE_LOST,
            notices=list(self.notices(task_id).values()) if role == WORKER else [],
        )
        return brief, MemoryLoaded(task_id=task_id, role=role, channels=encode_channels([*memory.values()]))

    def _role_memory(self, role: str) -> list[MemoryText]:
        """Return the memory for a role. Documents of phases are included, except the plan: the task stands for it."""
        phases = [
            phase.name
            for phase in self._config.workflow.phases
            if phase.kind is PhaseKind.AGENT and phase.exit != PLAN_SIGNAL
        ]
        preferences = preferences_of(role, user_folders(self._state, "preferences"))
        documents = {
            f"{name}: {document.title}": document.text
            for name, progress in self._state.phases.items()
            if name in phases
            for document in progress.documents.values()
        }
        return [MemoryText(PREFERENCES, preferences), *(MemoryText(name, text) for name, text in documents.items())]

    def _plan_text(self, task_id: str) -> str:
        """Return the tasks of the plan if there is more than this one."""
        plan = self._state.plan
        if plan is None or len(plan.order) < 2:  # noqa: PLR2004 - more than this task
            return ""
        names = self._nearby_tasks(task_id)
        lines = [self._plan_line(name, plan.blocked_by.get(name, []), is_own=name == task_id) for name in names]
        return "\n".join([*lines, *_omitted_line(len(plan.order) - len(names))])

    def _plan_line(self, task_id: str, needed: Sequence[str], *, is_own: bool) -> str:
        task = self._state.tasks.get(task_id) or Task()
        after = f" (after {', '.join(needed)})" if needed else ""
        return f"- {task_id}: {task.summary or ''}{after}{' (this task)' if is_own else ''}"

    def _progress_text(self, task_id: str) -> str:
        """Return the outcomes of the other tasks so far."""
        tasks = self._state.tasks
        names = list(tasks) if len(tasks) <= _MAX_LISTED_TASKS else self._nearby_tasks(task_id)
        others = [(name, tasks.get(name) or Task()) for name in names if name != task_id]
        lines = [f"- {name} ({task.status}): {task.outcome or task.summary or ''}" for name, task in others]
        return "\n".join([*_omitted_line(len(tasks) - len(names)), *lines])

    def _nearby_tasks(self, task_id: str) -> list[str]:
        """Return all tasks of the plan, or those around this one if the plan is long, so that prompts stay bounded."""
        index = task_index(self._state)
        first = max(
            0, min(index.positions.get(task_id, 0) - _MAX_LISTED_TASKS // 2, len(index.order) - _MAX_LISTED_TASKS)
        )
        return index.order[first : first + _MAX_LISTED_TASKS]


def _omitted_line(count: int) -> list[str]:
    return [f"- … {count:,} other tasks are not listed"] if count > 0 else []


def cut_diff(diff_text: str, base: str | None) -> tuple[str, str | None]:
    """Return the shown part of a diff, and a note on what is cut."""
    if len(diff_text) <= MAX_DIFF_CHARS:
        return diff_text, None
    return diff_text[
        :MAX_DIFF_CHARS
    ], f"{len(diff_text) - MAX_DIFF_CHARS:,} of {len(diff_text):,} characters; `git diff {base}` shows all of it"


def _task_spec(task_id: str, task: Task, dependencies: Sequence[str]) -> TaskSpec:
    return TaskSpec(
        id=task_id,
        title=task.summary or task_id,
        description=task.description,
        acceptance_criteria=tuple(task.acceptance_criteria),
        depends_on=tuple(dependencies),
        files=tuple(task.files or ()),
    )


def _decode_case(task: Task) -> SubmitCase | None:
    try:
        return msgspec.json.decode(task.case, type=SubmitCase) if task.case is not None else None
    except msgspec.MsgspecError:
        return None  # the agent gave no reason
