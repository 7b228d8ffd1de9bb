"""What a person is asked to approve at the gate of a phase: its documents and what changed in them, its reviews."""

import difflib
import posixpath
from collections.abc import Iterator

import msgspec

from holdfast.core.conversation.call_text import visible, visible_lines
from holdfast.core.state import Approval, Document, RunState
from holdfast.core.work.workflow import Kind, PhaseSpec, Workflow
from holdfast.leaf.ids import slug_of

ARTIFACTS = "artifacts"  # the folder of documents, below the run's

_CONTEXT = 2  # lines around a change
_DIFF_CHARS = 400_000  # of both texts; comparing longer ones takes too long


class GateDocument(msgspec.Struct, frozen=True):
    """`path` is below the run's folder. `changed` is a diff against what was asked about before, if anything was."""

    title: str
    path: str
    text: str
    changed: str | None = None


class GateReview(msgspec.Struct, frozen=True):
    role: str
    passed: bool
    summary: str


class Gate(msgspec.Struct, frozen=True):
    """`tasks` are those of a phase that builds; `diff` is the command that shows the work, where there is any."""

    phase: str
    round: int
    documents: list[GateDocument] = []
    reviews: list[GateReview] = []
    tasks: list[str] = []
    diff: str | None = None


def asks_approval(state: RunState) -> str | None:
    """The phase that waits for a person to approve it."""
    progress = state.phases.get(state.phase or "")
    return state.phase if progress is not None and progress.approval is Approval.ASKED else None


def gate_of(state: RunState, phase: str) -> Gate | None:
    """What there is to approve in a phase, as it stands."""
    progress = state.phases.get(phase)
    if progress is None:
        return None
    kind = _kind_of(state, phase)
    builds = kind is Kind.TASKS
    run_id = state.run.run_id if state.run is not None else None
    shows_work = kind is not Kind.AGENT and run_id is not None
    return Gate(
        phase,
        progress.round,
        [
            GateDocument(one.title, document_path(state, phase, name, one), one.text, _changed(one))
            for name, one in progress.documents.items()
        ],
        [GateReview(role, one.passed, one.summary) for role, one in progress.reviews.items()],
        [f"{name} ({task.status}): {task.summary or ''}" for name, task in state.tasks.items()] if builds else [],
        f"holdfast diff {run_id}" if shows_work else None,
    )


def gate_lines(gate: Gate) -> list[str]:
    """The same in lines without control characters."""
    lines = [line for document in gate.documents for line in _document_lines(document)]
    for review in gate.reviews:
        how = "passes it" if review.passed else "does not pass it"
        lines.append(f"review  {visible(review.role)} {how}: {visible(review.summary)}")
    lines += [f"task    {visible(task)}" for task in gate.tasks]
    return [*lines, f"work    {gate.diff}"] if gate.diff is not None else lines


def _document_lines(document: GateDocument) -> Iterator[str]:
    yield f"read    {visible(document.title)}: {visible(document.path)}"
    if document.changed is None:
        yield from (f"  {line}" for line in visible_lines(document.text.rstrip("\n")))
    elif document.changed:
        yield "  what changed since you were asked before:"
        yield from (f"  {line}" for line in visible_lines(document.changed))
    else:
        yield "  nothing changed in it since you were asked before"


def document_path(state: RunState, phase: str, name: str, document: Document) -> str:
    """Where a document is as a file, below the run's folder. Data is JSON or YAML, all else is Markdown."""
    is_data = any(one["name"] == phase and one.get("schema") is not None for one in _phases(state))
    return posixpath.join(ARTIFACTS, phase, f"{slug_of(name)}.{ending_of(document.text) if is_data else 'md'}")


def ending_of(data: str) -> str:
    return "json" if data.lstrip()[:1] in ("{", "[") else "yaml"


def _changed(document: Document) -> str | None:
    before = document.before
    if before is None:
        return None
    if len(before) + len(document.text) > _DIFF_CHARS:
        return None if before != document.text else ""
    lines = difflib.unified_diff(before.splitlines(), document.text.splitlines(), n=_CONTEXT, lineterm="")
    return "\n".join([*lines][2:])


def _kind_of(state: RunState, phase: str) -> Kind:
    found = next((one.get("kind") for one in _phases(state) if one["name"] == phase), None)
    return Kind(str(found)) if found is not None else Kind.AGENT


def _phases(state: RunState) -> list[dict[str, object]]:
    return list((state.workflow or {}).get("phases", ()))


def change_target(workflow: Workflow, spec: PhaseSpec) -> PhaseSpec | None:
    """The phase that makes a change which was asked for at this one's gate; None when no phase could.

    It is for whoever plans. Where nobody does, an agent that handed something in hands it in anew; of work that was
    built, a task is made of the change; and else it is for the agent before it.
    """
    here = workflow.place(spec.name)
    planner = workflow.planner
    if planner is not None and workflow.place(planner.name) <= here:
        return planner
    if spec.kind is Kind.AGENT:
        return spec
    until_here = workflow.phases[: here + 1]
    building = [one for one in until_here if one.kind is Kind.TASKS and not one.detour]
    agents = [one for one in until_here if one.kind is Kind.AGENT]
    return next(iter(building[-1:] or agents[-1:]), planner)
