"""`holdfast ls`: list runs. Imports only what it needs: it must start as fast as Python."""

import gc
import sys
import time

from holdfast.app.cli.listing import all_runs
from holdfast.app.text.screen import (
    column_widths,
    paint,
    printable,
    shorten_to_width,
    status_colour,
    status_with_countdown,
    terminal_width,
)
from holdfast.engine.home import Home
from holdfast.engine.queries.runs import ListedRun, search_messages
from holdfast.leaf.errors import EXIT_OK

_EXAMPLES = """\
  holdfast ls                          all runs, the most recently active first
  holdfast ls --json | jq .id          for scripts
  holdfast ls --search "rate limit"    search the messages of all runs"""


_HEADING = ("RUN", "STATUS", "NEEDS", "TASKS", "REPOSITORY", "AGE", "GOAL")
_STATUS, _NEEDS, _TASKS, _REPOSITORY, _AGE, _GOAL = range(1, 7)
_RIGHT_ALIGNED = (_TASKS, _AGE)
_DROP_ORDER = (_REPOSITORY, _GOAL, _TASKS, _AGE)  # dropped in this order if the terminal is narrow
_MIN_GOAL_COLUMNS = 10
_SETTLED = ("done", "archived")  # whatever they needed


def run(arguments: list[str]) -> int:
    if not arguments:  # the usual call: skip the import of the argument parser
        return _list(as_json=False)
    from holdfast.app.cli.arguments import Parser

    parser = Parser("ls", "List runs and their status.", _EXAMPLES)
    parser.add_argument("--search", metavar="TEXT", help="print the messages, of any run, that contain this text")
    options = parser.parse_args(arguments)
    if options.search is not None:
        return _search(options.search, as_json=options.json)
    return _list(as_json=options.json)


def _list(*, as_json: bool) -> int:
    gc.disable()  # thousands of small objects, none of them garbage before the exit
    runs = all_runs(Home())
    if as_json:
        _print_json([{"id": run.id, "status": run.status, **run.summary._asdict()} for run in runs])
    elif runs:
        _print_table(runs)
    else:
        sys.stderr.write("no runs yet; create one with: holdfast run GOAL, or try: holdfast demo\n")
    gc.freeze()  # skip the collection at exit, too
    return EXIT_OK


def _search(query: str, *, as_json: bool) -> int:
    import asyncio

    hits = asyncio.run(search_messages(Home(), query))
    if as_json:
        _print_json([hit._asdict() for hit in hits])
    for hit in () if as_json else hits:
        print(f"{paint(printable(hit.run), 'bold')}  {printable(hit.speaker)}: {printable(hit.excerpt)}")
    if not hits:
        sys.stderr.write(f"no message contains {query!r}\n")
    return EXIT_OK


def _print_table(runs: list[ListedRun]) -> None:
    headed = sys.stdout.isatty()  # a pipe gets the same columns, without a heading, and in full
    now = time.time()
    repositories = {path: _repository_name(path) for path in {run.summary.repo for run in runs}}
    rows = [*([_HEADING] if headed else []), *(_cells(run, repositories[run.summary.repo], now) for run in runs)]
    widths = column_widths(rows)
    shown = _visible_columns(widths, terminal_width()) if headed else range(len(widths))
    line = "  ".join(_column_format(column, widths[column]) for column in shown)
    painted = {
        status: paint(f"{status:{widths[_STATUS]}}", status_colour(status.partition(" ")[0]))
        for status in {row[_STATUS] for row in rows}
    }
    lines = [
        line.format(name, painted[status], needs, tasks, repo, age, shorten_to_width(goal, widths[_GOAL])).rstrip()
        for name, status, needs, tasks, repo, age, goal in rows
    ]
    if headed:
        lines[0] = paint(lines[0], "dim")
    sys.stdout.write("\n".join((*lines, "")))


def _visible_columns(widths: list[int], width: int) -> list[int]:
    """Return the columns that fit the terminal. The goal gets the remaining width, or is dropped."""
    shown = [*range(len(widths))]
    widths[_GOAL] = min(widths[_GOAL], _MIN_GOAL_COLUMNS)
    for column in _DROP_ORDER:
        if sum(widths[other] + 2 for other in shown) - 2 > width:
            shown.remove(column)
    widths[_GOAL] = width - sum(widths[column] + 2 for column in shown if column != _GOAL)
    return shown


def _column_format(column: int, width: int) -> str:
    """Return the format field of a column; the status and the goal are already padded."""
    if column in (_STATUS, _GOAL):
        return f"{{{column}}}"
    return f"{{{column}:>{width}}}" if column in _RIGHT_ALIGNED else f"{{{column}:{width}}}"


def _cells(run: ListedRun, repository: str, now: float) -> tuple[str, ...]:
    name, status, summary = run
    tasks = f"{summary.tasks_done}/{summary.tasks}" if summary.tasks else "-"
    cells = (
        name,
        status_with_countdown(status, summary.resumes_at, now),
        "you" if summary.needs and status not in _SETTLED else "-",
        tasks,
        repository,
        _age(summary.updated, now),
        f"{f'[{summary.adopted}] ' if summary.adopted else ''}{summary.goal or summary.slug or ''}",
    )
    return cells if "".join(cells).isprintable() else tuple(map(printable, cells))


def _repository_name(path: str | None) -> str:
    """Return the name of the folder: of `…/shop/.git` and `…/shop.git`, `shop`."""
    return (path or "").removesuffix("/.git").rpartition("/")[2].removesuffix(".git") or "-"


def _age(since: str | None, now: float) -> str:
    """Return how long ago a run was active, in one unit: `45s`, `5m`, `3h`, `12d`.

    The time is ISO, in UTC; parsers of it load slowly, and `time.mktime` asks the disk for the time zone at each call.
    """
    since = since or ""
    parts = (since[0:4], since[5:7], since[8:10], since[11:13], since[14:16], since[17:19])
    if not since[17:18] or not "".join(parts).isdecimal():
        return "-"
    year, month, day, hour, minute, second = map(int, parts)
    started = ((_days_until(year, month, day) * 24 + hour) * 60 + minute) * 60 + second
    seconds = max(0, int(now - started))
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def _days_until(year: int, month: int, day: int) -> int:
    """Return the days from 1970 to a date. The year begins in March here, so that a leap day is its last."""
    year, month = (year, month - 3) if month > 2 else (year - 1, month + 9)  # noqa: PLR2004 - after February
    return year * 365 + year // 4 - year // 100 + year // 400 + (153 * month + 2) // 5 + day - 719_469


def _print_json(rows: list[dict[str, object]]) -> None:
    import json

    for row in rows:
        print(json.dumps(row, ensure_ascii=False))
