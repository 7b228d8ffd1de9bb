"""`holdfast ls`: the runs there are. Loads no more than it needs: it must start as fast as Python does."""

import gc
import sys

from holdfast.app.text.screen import columns, moment, paint, paint_status, plain, shortened, terminal_width
from holdfast.engine.places import default_home
from holdfast.engine.queries.runs import ListedRun, list_runs, search_messages
from holdfast.leaf.errors import OK

_EXAMPLES = """\
  holdfast ls                          every run, the one that moved last first
  holdfast ls --json | jq .id          for scripts
  holdfast ls --search "rate limit"    where was that said?"""


_HEADING = ("RUN", "STATUS", "TASKS", "EVENTS", "LAST", "GOAL")
_STATUS, _TASKS, _EVENTS, _GOAL = 1, 2, 3, 5
_NUMBERS = (_TASKS, _EVENTS)
_GIVE_WAY = (_EVENTS, _GOAL, _TASKS)  # in this order, where the terminal is narrow
_SHORTEST_GOAL = 10


def run(arguments: list[str]) -> int:
    if not arguments:  # the everyday call: not even the argument parser is loaded
        return _list(as_json=False)
    from holdfast.app.cli.arguments import Parser

    parser = Parser("ls", "The runs there are, and how each stands.", _EXAMPLES)
    parser.add_argument("--search", metavar="WORDS", help="messages, in any run, that contain these words")
    options = parser.parse_args(arguments)
    if options.search is not None:
        return _search(options.search, as_json=options.json)
    return _list(as_json=options.json)


def _list(*, as_json: bool) -> int:
    gc.disable()  # a listing makes thousands of small things and is gone before any of them could be garbage
    runs = list_runs(default_home())
    if as_json:
        _print_json([{"id": run.id, "status": run.status, **run.summary._asdict()} for run in runs])
    elif runs:
        _print_table(runs)
    else:
        sys.stderr.write("no runs yet; `holdfast demo` makes one to look at\n")
    gc.freeze()  # nor does it have to be looked through at the end
    return OK


def _search(words: str, *, as_json: bool) -> int:
    hits = search_messages(default_home(), words)
    if as_json:
        _print_json([hit._asdict() for hit in hits])
    for hit in () if as_json else hits:
        print(f"{paint(plain(hit.run), 'bold')}  {plain(hit.speaker)}: {plain(hit.excerpt)}")
    if not hits:
        sys.stderr.write(f"nobody said {words!r}\n")
    return OK


def _print_table(runs: list[ListedRun]) -> None:
    headed = sys.stdout.isatty()  # a heading is for people; a pipe gets the runs
    rows = [*([_HEADING] if headed else []), *map(_cells, runs)]
    widths = columns(rows)
    shown = _fitted(widths, terminal_width()) if headed else range(len(widths))
    line = "  ".join(_place(column, widths[column]) for column in shown)
    painted = {status: paint_status(status, widths[_STATUS]) for status in {row[_STATUS] for row in rows}}
    lines = [
        line.format(name, painted[status], tasks, events, last, shortened(goal, widths[_GOAL])).rstrip()
        for name, status, tasks, events, last, goal in rows
    ]
    if headed:
        lines[0] = paint(lines[0], "dim")
    sys.stdout.write("\n".join((*lines, "")))


def _fitted(widths: list[int], room: int) -> list[int]:
    """The columns that a terminal has room for. The goal gets what is left, or gives way."""
    shown = [*range(len(widths))]
    widths[_GOAL] = min(widths[_GOAL], _SHORTEST_GOAL)
    for column in _GIVE_WAY:
        if sum(widths[one] + 2 for one in shown) - 2 > room:
            shown.remove(column)
    widths[_GOAL] = room - sum(widths[one] + 2 for one in shown if one != _GOAL)
    return shown


def _place(column: int, width: int) -> str:
    """Where a column stands in a line; the status and the goal come with their width."""
    if column in (_STATUS, _GOAL):
        return f"{{{column}}}"
    return f"{{{column}:>{width}}}" if column in _NUMBERS else f"{{{column}:{width}}}"


def _cells(run: ListedRun) -> tuple[str, ...]:
    name, status, summary = run
    tasks = f"{summary.tasks_done}/{summary.tasks}" if summary.tasks else "-"
    goal = plain(summary.goal or summary.slug or "")
    return plain(name), plain(status), tasks, str(summary.events), moment(summary.updated)[:16], goal


def _print_json(rows: list[dict[str, object]]) -> None:
    import json

    for row in rows:
        print(json.dumps(row, ensure_ascii=False))
