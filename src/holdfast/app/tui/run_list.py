"""The list of runs: one row per run, in columns that fit the terminal."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from holdfast.app.text.screen import (
    display_width,
    pluralize,
    printable,
    shorten_to_width,
    status_colour,
    status_with_countdown,
)
from holdfast.app.text.spans import Row, Span, pad_to_width
from holdfast.app.tui.attention import Attention, attention_of, needs_person
from holdfast.core.run_status import RunStatus
from holdfast.core.summary.spending import cost_text
from holdfast.core.text.moment import parse_moment
from holdfast.engine.queries.runs import ListedRun

_ATTENTION_MARKS = {
    Attention.REQUEST: Span("? ", "yellow"),
    Attention.TROUBLE: Span("! ", "red"),
    Attention.MESSAGE: Span("? ", "yellow"),
    Attention.RUNNING: Span("▸ ", "cyan"),
    Attention.IDLE: Span("· ", "dim"),
    Attention.FINISHED: Span("  "),
}
_HEADINGS = ("RUN", "STATUS", "TASKS", "AGE", "COST", "WORKFLOW")
_NAME, _STATUS, _TASKS, _AGE, _COST, _WORKFLOW = range(6)
_RIGHT_ALIGNED = (_TASKS, _AGE, _COST)
_DROP_ORDER = (_WORKFLOW, _COST, _TASKS, _AGE)  # dropped in this order if the terminal is narrow
_MIN_NAME_COLUMNS = 14
_MIN_ABOUT_COLUMNS = 20  # kept for the need or the goal


class RunListColumns(NamedTuple):
    """The visible columns, their widths, and the width left for the need or the goal."""

    shown: Sequence[int]
    widths: Sequence[int]
    about_width: int


def choose_columns(runs: Sequence[ListedRun], now: str, width: int) -> RunListColumns:
    rows = [_HEADINGS, *(_cells(run, now) for run in runs)]
    widths: list[int] = [max(map(display_width, column)) for column in zip(*rows, strict=True)]
    widths[_NAME] = min(widths[_NAME], max(_MIN_NAME_COLUMNS, width // 3))
    shown = [column for column in range(len(_HEADINGS)) if column != _COST or any(map(_has_cost, runs))]
    for column in _DROP_ORDER:
        if (
            column in shown
            and _columns_left(shown, widths, width) + _spare_name_columns(widths, width) < _MIN_ABOUT_COLUMNS
        ):
            shown.remove(column)
    lacking = max(0, _MIN_ABOUT_COLUMNS - _columns_left(shown, widths, width))
    widths[_NAME] -= min(lacking, _spare_name_columns(widths, width))
    return RunListColumns(shown, widths, max(0, _columns_left(shown, widths, width)))


def _spare_name_columns(widths: Sequence[int], width: int) -> int:
    """Return by how many columns the names can shrink."""
    return max(0, widths[_NAME] - max(_MIN_NAME_COLUMNS, width // 4))


def _columns_left(shown: Sequence[int], widths: Sequence[int], width: int) -> int:
    return width - 2 - sum(widths[column] + 2 for column in shown)


def heading_row(columns: RunListColumns) -> Row:
    return [
        Span("  "),
        Span("".join(f"{_align_cell(_HEADINGS[column], column, columns)}  " for column in columns.shown) + "ABOUT"),
    ]


def run_row(run: ListedRun, now: str, columns: RunListColumns) -> Row:
    cells = _cells(run, now)
    attention = attention_of(run)
    colours = {_STATUS: status_colour(run.status), _NAME: "bold" if needs_person(run) else None}
    spans = [Span(f"{_align_cell(cells[column], column, columns)}  ", colours.get(column)) for column in columns.shown]
    about = _about_span(run)
    return [_ATTENTION_MARKS[attention], *spans, Span(shorten_to_width(about.text, columns.about_width), about.colour)]


def _about_span(run: ListedRun) -> Span:
    """Return what the run needs from a person, or else its goal."""
    summary = run.summary
    if needs_person(run) and summary.need:
        more = f" (and {summary.needs - 1} more)" if summary.needs > 1 else ""
        return Span(printable(" ".join(f"{summary.need}{more}".split())), "yellow")
    return Span(printable(" ".join((summary.goal or summary.slug or "").split())))


def _cells(run: ListedRun, now: str) -> tuple[str, ...]:
    summary = run.summary
    tasks = f"{summary.tasks_done}/{summary.tasks}" if summary.tasks else "-"
    cost = cost_text(summary.dollars, summary.unpriced, summary.estimate) if _has_cost(run) else "-"
    return (
        printable(run.id),
        printable(status_with_countdown(run.status, summary.resumes_at, parse_moment(now) or 0.0)),
        tasks,
        age(summary.updated, now),
        cost,
        printable(summary.workflow or "-"),
    )


def _has_cost(run: ListedRun) -> bool:
    """Whether the run has a cost, known or unknown."""
    return run.summary.dollars is not None or run.summary.estimate is not None or run.summary.unpriced > 0


def _align_cell(cell: str, column: int, columns: RunListColumns) -> str:
    width = columns.widths[column]
    return " " * (width - display_width(cell)) + cell if column in _RIGHT_ALIGNED else pad_to_width(cell, width)


def age(since: str | None, now: str) -> str:
    """`now`, `5m`, `3h`, `2d`: the time since its last activity."""
    try:
        seconds = int((datetime.fromisoformat(now) - datetime.fromisoformat(since or "")).total_seconds())
    except (ValueError, TypeError):
        return "-"
    for length, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if seconds >= length:
            return f"{seconds // length}{unit}"
    return "now"


def summary_row(runs: Sequence[ListedRun], shown: int) -> Row:
    """Return the totals in one row."""
    needing = sum(map(needs_person, runs))
    running = sum(run.status == RunStatus.RUNNING for run in runs)
    known = [run.summary.dollars for run in runs if run.summary.dollars is not None]
    unpriced = sum(run.summary.unpriced for run in runs)
    parts = [Span(" holdfast ", "bold"), Span(pluralize(len(runs), "run"))]
    if shown < len(runs):
        parts.append(Span(f", {shown} shown", "dim"))
    if needing:
        parts += [Span(" · "), Span(f"{needing} {'needs' if needing == 1 else 'need'} you", "yellow")]
    if running:
        parts += [Span(" · "), Span(f"{running} running", "cyan")]
    estimates = [run.summary.estimate for run in runs if run.summary.estimate is not None]
    if known or unpriced or estimates:
        total, estimate = sum(known) if known else None, sum(estimates) if estimates else None
        parts.append(Span(f" · {cost_text(total, unpriced, estimate)}"))
    return parts
