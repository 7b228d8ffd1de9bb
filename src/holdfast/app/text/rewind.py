"""Points of a run, and what a rewind would do, as text."""

from collections.abc import Iterator, Sequence

from holdfast.app.text.screen import column_widths, format_time, pluralize, printable, shorten_to_width
from holdfast.core.events.rewind import RewindAxis
from holdfast.core.work.names import short_point_name
from holdfast.engine.commands.rewind import RewindPlan
from holdfast.engine.queries.points import Point, PointKind

_MAX_CALLS = 20
_MIN_MESSAGE_WIDTH = 10
_WHAT = {
    RewindAxis.BOTH: "conversation, files and plan",
    RewindAxis.FILES: "files only; the agents are told",
    RewindAxis.CONVERSATION: "conversation only; the agents are told",
}


def plan_lines(plan: RewindPlan) -> Iterator[str]:
    yield f"{printable(plan.run_id)} goes back to {printable(short_point_name(plan.point))} ({_WHAT[plan.only]})"
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
    if plan.running:
        yield "  the run is at work; it is stopped first"
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


def point_lines(points: Sequence[Point], width: int) -> Iterator[str]:
    """One line for each point. The last message gets what is left of the width."""
    rows = [
        (
            printable(point.label),
            format_time(point.time),
            printable(point.task or ""),
            pluralize(len(point.files), "file") if point.kind is PointKind.TURN else "",
        )
        for point in points
    ]
    if not rows:
        return
    widths = column_widths(rows)
    for row, point in zip(rows, points, strict=True):
        left = "  ".join(f"{cell:{cell_width}}" for cell, cell_width in zip(row, widths, strict=True) if cell_width)
        room = max(_MIN_MESSAGE_WIDTH, width - len(left) - 2)
        yield f"{left}  {shorten_to_width(printable(point.last_message or ''), room)}".rstrip()
