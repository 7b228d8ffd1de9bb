"""Points of a run, and what a rewind would do, as text."""

from collections.abc import Iterator, Sequence
from typing import Any

from holdfast.app.text.screen import column_widths, format_time, pluralize, printable
from holdfast.core.events.rewind import RewindAxis
from holdfast.engine.commands.rewind import RewindPlan
from holdfast.engine.queries.points import Point

_MAX_CALLS = 20
_WHAT = {
    RewindAxis.BOTH: "conversation, files and plan",
    RewindAxis.FILES: "files only; the agents are told",
    RewindAxis.CONVERSATION: "conversation only; the agents are told",
}


def plan_as_json(plan: RewindPlan) -> dict[str, Any]:
    return {
        "id": plan.run_id,
        "point": plan.point,
        "position": plan.position,
        "only": plan.only,
        "undoes": plan.undoes,
        "worktrees": [
            {**change._asdict(), "files": [file._asdict() for file in change.files]} for change in plan.worktrees
        ],
        "abandoned": plan.abandoned._asdict(),
    }


def plan_lines(plan: RewindPlan) -> Iterator[str]:
    yield f"{printable(plan.run_id)} goes back to {printable(plan.point)} ({_WHAT[plan.only]})"
    if plan.only != RewindAxis.FILES:
        yield f"  leaves behind {pluralize(plan.abandoned.turns, 'turn')}; the log keeps everything"
    for change in plan.worktrees:
        name = printable(change.branch)
        if not change.exists:
            yield f"  {name} is deleted with its worktree; its work is saved"
        elif not change.files:
            yield f"  {name}: no file changes"
        for file in change.files if change.exists else ():
            counts = "binary" if file.added is None else f"+{file.added} -{file.removed}"
            yield f"  {name}: {printable(file.path)}  {counts}"
    yield from _outside_lines(plan)


def _outside_lines(plan: RewindPlan) -> Iterator[str]:
    if plan.abandoned.published:
        yield "  not taken back, because it left the run:"
        yield from (f"    {printable(text)}" for text in plan.abandoned.published)
    if plan.abandoned.calls:
        yield "  tool calls that may have changed something outside the worktree:"
        yield from (f"    {printable(text)}" for text in plan.abandoned.calls[:_MAX_CALLS])
        if len(plan.abandoned.calls) > _MAX_CALLS:
            yield f"    and {len(plan.abandoned.calls) - _MAX_CALLS} more"


def point_lines(points: Sequence[Point], changed: Sequence[Sequence[str]]) -> Iterator[str]:
    rows = [
        (
            printable(_short_name(point)),
            format_time(point.time),
            printable(point.task or ""),
            pluralize(len(files), "file") if point.kind == "turn" else "",
            printable(point.last_message or ""),
        )
        for point, files in zip(points, changed, strict=True)
    ]
    if not rows:
        return
    widths = column_widths(rows)
    for row in rows:
        yield "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()


def _short_name(point: Point) -> str:
    return "-".join(point.name.split("-")[:2]) if point.kind == "turn" else point.name
