"""The tasks, waves and phases of a run, as cards."""

from collections.abc import Iterable

import msgspec

from holdfast.core.end_reason import end_reason_text
from holdfast.core.phase_state import Approval
from holdfast.core.state import RunState
from holdfast.core.summary.gates import document_path
from holdfast.core.task_state import Task, TaskStage, TaskStatus
from holdfast.core.work.workflow import PhaseSpec, Workflow

_MAX_TEXT_CHARS = 2_000  # of one text on a card; the log has all of it
_MAX_VERDICTS = 20


class CheckView(msgspec.Struct, frozen=True):
    name: str
    passed: bool
    excused: bool
    flaky: bool
    problem: str | None


class VerdictView(msgspec.Struct, frozen=True):
    iteration: int
    accept: bool
    category: str | None
    concern: str | None
    evidence: str | None
    next_step: str | None
    ts: str | None


class TaskCard(msgspec.Struct, frozen=True):
    """A task. `worker` and `evaluator` are conversations."""

    id: str
    status: TaskStatus
    stage: TaskStage
    summary: str | None
    description: str
    agent: str | None
    wave: int | None
    blocked_by: list[str]
    iteration: int
    evaluations: int
    worker: str | None
    evaluator: str | None
    checks: list[CheckView]
    verdicts: list[VerdictView]
    files_changed: list[str] | None
    commit: str | None
    error: str | None
    error_text: str | None
    reason: str | None
    conflicts: list[str]
    acceptance_criteria: list[str]


class WaveView(msgspec.Struct, frozen=True):
    number: int
    tasks: list[str]
    started: bool
    completed: bool


class DocumentLink(msgspec.Struct, frozen=True):
    """A document of a phase. `path` is below the run's folder."""

    name: str
    title: str
    path: str


class ReviewView(msgspec.Struct, frozen=True):
    role: str
    passed: bool
    summary: str


class PhaseCard(msgspec.Struct, frozen=True):
    """A phase. Its status is PENDING until it is entered."""

    name: str
    kind: str
    status: str
    round: int
    reason: str | None
    optional: bool
    detour: bool
    needs_approval: bool
    approval: Approval | None
    documents: list[DocumentLink]
    reviews: list[ReviewView]


def task_cards(state: RunState) -> list[TaskCard]:
    plan = state.plan
    waves = {task: number for number, wave in plan.waves.items() for task in wave.task_ids} if plan else {}
    return [
        _task_card(name, task, waves.get(name), plan.blocked_by.get(name, []) if plan else [])
        for name, task in state.tasks.items()
    ]


def _task_card(name: str, task: Task, wave: int | None, blocked_by: list[str]) -> TaskCard:
    return TaskCard(
        id=name,
        status=task.status,
        stage=task.stage,
        summary=task.summary,
        description=task.description[:_MAX_TEXT_CHARS],
        agent=task.agent or task.wants,
        wave=wave,
        blocked_by=blocked_by,
        iteration=task.iteration,
        evaluations=task.evaluations,
        worker=task.worker,
        evaluator=task.evaluator,
        checks=[
            CheckView(check.name, check.passed, check.excused, check.flaky, check.problem) for check in task.checks
        ],
        verdicts=[
            VerdictView(
                verdict.iteration,
                verdict.accept,
                verdict.category,
                _short(verdict.concern),
                _short(verdict.evidence),
                _short(verdict.next_step),
                verdict.ts,
            )
            for verdict in task.verdicts[-_MAX_VERDICTS:]
        ],
        files_changed=task.files_changed,
        commit=task.commit,
        error=_short(task.error),
        error_text=_short(end_reason_text(task.error)) if task.error else None,
        reason=_short(task.reason),
        conflicts=task.conflicts,
        acceptance_criteria=task.acceptance_criteria,
    )


def _short(text: str | None) -> str | None:
    return text if text is None or len(text) <= _MAX_TEXT_CHARS else f"{text[:_MAX_TEXT_CHARS]}…"


def wave_views(state: RunState) -> list[WaveView]:
    waves = state.plan.waves.items() if state.plan is not None else ()
    return [WaveView(number, wave.task_ids, wave.started, wave.completed) for number, wave in sorted(waves)]


def phase_cards(state: RunState) -> list[PhaseCard]:
    """All phases of the workflow, in its order; without those of a workflow that this version cannot read."""
    try:
        specs: Iterable[PhaseSpec] = msgspec.convert(state.workflow, Workflow).phases if state.workflow else ()
    except msgspec.ValidationError:
        specs = ()
    known = {spec.name: spec for spec in specs}
    return [_phase_card(state, name, known.get(name)) for name in {**known, **state.phases}]


def _phase_card(state: RunState, name: str, spec: PhaseSpec | None) -> PhaseCard:
    progress = state.phases.get(name)
    return PhaseCard(
        name=name,
        kind=str(spec.kind) if spec is not None else "agent",
        status=str(progress.status) if progress is not None else "PENDING",
        round=progress.round if progress is not None else 0,
        reason=progress.reason if progress is not None else None,
        optional=spec is not None and spec.optional,
        detour=spec is not None and spec.detour,
        needs_approval=spec is not None and spec.approval,
        approval=progress.approval if progress is not None else None,
        documents=[
            DocumentLink(key, document.title, document_path(state, name, key, document))
            for key, document in (progress.documents.items() if progress is not None else ())
        ],
        reviews=[
            ReviewView(role, review.passed, review.summary)
            for role, review in (progress.reviews.items() if progress is not None else ())
        ],
    )
