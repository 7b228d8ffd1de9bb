"""What a person approves at the gate of a phase: its documents and their changes, its reviews, its tasks."""

import posixpath
from collections.abc import Iterator

import msgspec

from holdfast.core.conversation.call_text import to_printable, to_printable_lines
from holdfast.core.phase_state import Approval, Document
from holdfast.core.state import RunState
from holdfast.core.work.workflow import PhaseKind, PhaseSpec, Workflow
from holdfast.leaf.ids import slug_of

ARTIFACTS = "artifacts"  # the folder of documents in the run's folder

_CONTEXT_LINES = 2  # around a change
_DIFF_CHARS = 400_000  # of both texts; comparing longer ones takes too long


class GateDocument(msgspec.Struct, frozen=True):
    """`path` is below the run's folder. `changed` is a diff against the last approval request, if there was one."""

    title: str
    path: str
    text: str
    changed: str | None = None


class GateReview(msgspec.Struct, frozen=True):
    role: str
    passed: bool
    summary: str


class Gate(msgspec.Struct, frozen=True):
    """`tasks` are those of a tasks phase; `diff` is the command that shows the work, if there is any."""

    phase: str
    round: int
    documents: list[GateDocument] = []
    reviews: list[GateReview] = []
    tasks: list[str] = []
    diff: str | None = None


def phase_awaiting_approval(state: RunState) -> str | None:
    """The phase that waits for a person to approve it."""
    progress = state.phases.get(state.phase or "")
    return state.phase if progress is not None and progress.approval is Approval.ASKED else None


def gate_of(state: RunState, phase: str) -> Gate | None:
    """What there is to approve in a phase now."""
    progress = state.phases.get(phase)
    if progress is None:
        return None
    kind = _kind_of(state, phase)
    builds = kind is PhaseKind.TASKS
    run_id = state.run.run_id if state.run is not None else None
    shows_work = kind is not PhaseKind.AGENT and run_id is not None
    return Gate(
        phase,
        progress.round,
        [
            GateDocument(
                review.title, document_path(state, phase, name, review), review.text, _diff_since_asked(review)
            )
            for name, review in progress.documents.items()
        ],
        [GateReview(role, review.passed, review.summary) for role, review in progress.reviews.items()],
        [f"{name} ({task.status}): {task.summary or ''}" for name, task in state.tasks.items()] if builds else [],
        f"holdfast diff {run_id}" if shows_work else None,
    )


def gate_lines(gate: Gate) -> list[str]:
    """The gate as lines without control characters."""
    lines = [line for document in gate.documents for line in _document_lines(document)]
    for review in gate.reviews:
        result = "passed" if review.passed else "failed"
        lines.append(f"review  {to_printable(review.role)} {result}: {to_printable(review.summary)}")
    lines += [f"task    {to_printable(task)}" for task in gate.tasks]
    return [*lines, f"work    {gate.diff}"] if gate.diff is not None else lines


def _document_lines(document: GateDocument) -> Iterator[str]:
    yield f"read    {to_printable(document.title)}: {to_printable(document.path)}"
    if document.changed is None:
        yield from (f"  {line}" for line in to_printable_lines(document.text.rstrip("\n")))
    elif document.changed:
        yield "  changed since the last approval request:"
        yield from (f"  {line}" for line in to_printable_lines(document.changed))
    else:
        yield "  not changed since the last approval request"


def document_path(state: RunState, phase: str, document_name: str, document: Document) -> str:
    """The file of a document, below the run's folder. Data is JSON or YAML, everything else Markdown."""
    is_data = any(spec["name"] == phase and spec.get("schema") is not None for spec in _phases(state))
    return posixpath.join(
        ARTIFACTS, phase, f"{slug_of(document_name)}.{file_extension(document.text) if is_data else 'md'}"
    )


def file_extension(data: str) -> str:
    return "json" if data.lstrip()[:1] in ("{", "[") else "yaml"


def _diff_since_asked(document: Document) -> str | None:
    before = document.before
    if before is None:
        return None
    if len(before) + len(document.text) > _DIFF_CHARS:
        return None if before != document.text else ""
    from difflib import unified_diff  # noqa: PLC0415 - slow to import, and few texts have a difference

    lines = unified_diff(before.splitlines(), document.text.splitlines(), n=_CONTEXT_LINES, lineterm="")
    return "\n".join([*lines][2:])


def _kind_of(state: RunState, phase: str) -> PhaseKind:
    found = next((spec.get("kind") for spec in _phases(state) if spec["name"] == phase), None)
    return PhaseKind(str(found)) if found is not None else PhaseKind.AGENT


def _phases(state: RunState) -> list[dict[str, object]]:
    return list((state.workflow or {}).get("phases", ()))


def change_target(workflow: Workflow, spec: PhaseSpec) -> PhaseSpec | None:
    """The phase that makes a change requested at this phase's gate; None when no phase can.

    That is the planning phase. Without one, an agent phase submits its document again; for other phases, the last tasks
    phase up to here gets a new task; else the last agent phase makes the change.
    """
    here = workflow.phase_index(spec.name)
    planner = workflow.planner
    if planner is not None and workflow.phase_index(planner.name) <= here:
        return planner
    if spec.kind is PhaseKind.AGENT:
        return spec
    until_here = workflow.phases[: here + 1]
    building = [phase for phase in until_here if phase.kind is PhaseKind.TASKS and not phase.detour]
    agents = [phase for phase in until_here if phase.kind is PhaseKind.AGENT]
    return next(iter(building[-1:] or agents[-1:]), planner)
