"""The list of runs: a row each, in columns that fit the terminal."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from holdfast.app.text.screen import columns_of, counted, plain, shortened, status_colour
from holdfast.app.text.spans import Row, Span, padded
from holdfast.app.tui.attention import Call, call_of, wants_you
from holdfast.core.summary.spending import cost_text
from holdfast.engine.queries.runs import ListedRun

_MARKS = {
    Call.QUESTION: Span("? ", "yellow"),
    Call.TROUBLE: Span("! ", "red"),
    Call.WORDS: Span("? ", "yellow"),
    Call.AT_WORK: Span("▸ ", "cyan"),
    Call.AT_REST: Span("· ", "dim"),
    Call.OVER: Span("  "),
}
_HEADINGS = ("RUN", "STATUS", "TASKS", "AGE", "COST", "WORKFLOW")
_NAME, _STATUS, _TASKS, _AGE, _COST, _WORKFLOW = range(6)
_NUMBERS = (_TASKS, _AGE, _COST)
_GIVE_WAY = (_WORKFLOW, _COST, _TASKS, _AGE)  # in this order, where the terminal is narrow
_SHORTEST_NAME = 14
_WORDS = 20  # columns that are kept for what it needs, or what it is for


class Columns(NamedTuple):
    """Which are shown, how wide each is, and what is left for words."""

    shown: Sequence[int]
    widths: Sequence[int]
    words: int


def columns_for(runs: Sequence[ListedRun], now: str, width: int) -> Columns:
    rows = [_HEADINGS, *(_cells(run, now) for run in runs)]
    widths: list[int] = [max(map(columns_of, column)) for column in zip(*rows, strict=True)]
    widths[_NAME] = min(widths[_NAME], max(_SHORTEST_NAME, width // 3))
    shown = [one for one in range(len(_HEADINGS)) if one != _COST or any(map(_has_cost, runs))]
    for column in _GIVE_WAY:
        if column in shown and _left(shown, widths, width) + _to_spare(widths, width) < _WORDS:
            shown.remove(column)
    lacking = max(0, _WORDS - _left(shown, widths, width))
    widths[_NAME] -= min(lacking, _to_spare(widths, width))
    return Columns(shown, widths, max(0, _left(shown, widths, width)))


def _to_spare(widths: Sequence[int], width: int) -> int:
    """How much narrower the names may become."""
    return max(0, widths[_NAME] - max(_SHORTEST_NAME, width // 4))


def _left(shown: Sequence[int], widths: Sequence[int], width: int) -> int:
    return width - 2 - sum(widths[one] + 2 for one in shown)


def heading(columns: Columns) -> Row:
    return [Span("  "), Span("".join(f"{_placed(_HEADINGS[one], one, columns)}  " for one in columns.shown) + "ABOUT")]


def run_row(run: ListedRun, now: str, columns: Columns) -> Row:
    cells = _cells(run, now)
    call = call_of(run)
    colours = {_STATUS: status_colour(run.status), _NAME: "bold" if wants_you(run) else None}
    spans = [Span(f"{_placed(cells[one], one, columns)}  ", colours.get(one)) for one in columns.shown]
    about = _about(run)
    return [_MARKS[call], *spans, Span(shortened(about.text, columns.words), about.colour)]


def _about(run: ListedRun) -> Span:
    """What it needs, of one that needs something; else what it is for."""
    summary = run.summary
    if wants_you(run) and summary.need:
        more = f" (and {summary.needs - 1} more)" if summary.needs > 1 else ""
        return Span(plain(" ".join(f"{summary.need}{more}".split())), "yellow")
    return Span(plain(" ".join((summary.goal or summary.slug or "").split())))


def _cells(run: ListedRun, now: str) -> tuple[str, ...]:
    summary = run.summary
    tasks = f"{summary.tasks_done}/{summary.tasks}" if summary.tasks else "-"
    cost = cost_text(summary.dollars, summary.unpriced) if _has_cost(run) else "-"
    return plain(run.id), plain(run.status), tasks, age(summary.updated, now), cost, plain(summary.workflow or "-")


def _has_cost(run: ListedRun) -> bool:
    """Something was spent, be it unknown how much."""
    return run.summary.dollars is not None or run.summary.unpriced > 0


def _placed(cell: str, column: int, columns: Columns) -> str:
    width = columns.widths[column]
    return " " * (width - columns_of(cell)) + cell if column in _NUMBERS else padded(cell, width)


def age(since: str | None, now: str) -> str:
    """`now`, `5m`, `3h`, `2d`: since it last moved."""
    try:
        seconds = int((datetime.fromisoformat(now) - datetime.fromisoformat(since or "")).total_seconds())
    except (ValueError, TypeError):
        return "-"
    for length, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if seconds >= length:
            return f"{seconds // length}{unit}"
    return "now"


def headline(runs: Sequence[ListedRun], shown: int) -> Row:
    """All of them in one row."""
    wanting = sum(map(wants_you, runs))
    at_work = sum(run.status == "running" for run in runs)
    known = [run.summary.dollars for run in runs if run.summary.dollars is not None]
    unpriced = sum(run.summary.unpriced for run in runs)
    parts = [Span(" holdfast ", "bold"), Span(counted(len(runs), "run"))]
    if shown < len(runs):
        parts.append(Span(f", {shown} shown", "dim"))
    if wanting:
        parts += [Span(" · "), Span(f"{wanting} {'needs' if wanting == 1 else 'need'} you", "yellow")]
    if at_work:
        parts += [Span(" · "), Span(f"{at_work} at work", "cyan")]
    if known or unpriced:
        parts.append(Span(f" · {cost_text(sum(known) if known else None, unpriced)}"))
    return parts
