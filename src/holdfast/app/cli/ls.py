"""`holdfast ls`: the runs there are. Loads no more than it needs: it must start as fast as Python does."""

import sys

from holdfast.app.cli.screen import columns, moment, paint, paint_status, plain, shortened, terminal_width
from holdfast.engine.listing import ListedRun, list_runs, search_messages
from holdfast.engine.places import default_home
from holdfast.leaf.errors import OK

_EXAMPLES = """\
  holdfast ls                          every run, the one that moved last first
  holdfast ls --json | jq .id          for scripts
  holdfast ls --search "rate limit"    where was that said?"""


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
    runs = list_runs(default_home())
    if as_json:
        _print_json([{"id": run.id, "status": run.status, **run.summary._asdict()} for run in runs])
    elif runs:
        _print_table(runs)
    else:
        sys.stderr.write("no runs yet; `holdfast demo` makes one to look at\n")
    return OK


def _search(words: str, *, as_json: bool) -> int:
    hits = search_messages(default_home(), words)
    if as_json:
        _print_json([hit._asdict() for hit in hits])
    for hit in () if as_json else hits:
        print(f"{paint(hit.run, 'bold')}  {plain(hit.speaker)}: {plain(hit.excerpt)}")
    if not hits:
        sys.stderr.write(f"nobody said {words!r}\n")
    return OK


def _print_table(runs: list[ListedRun]) -> None:
    rows = [("RUN", "STATUS", "TASKS", "EVENTS", "LAST", "GOAL"), *map(_cells, runs)]
    widths = columns(rows)
    goal_width = max(10, terminal_width() - sum(widths[:-1]) - 2 * len(widths[:-1]))
    lines = []
    for index, (name, status, tasks, events, last, goal) in enumerate(rows):
        cells = [
            f"{name:{widths[0]}}",
            f"{status:{widths[1]}}" if index == 0 else paint_status(status, widths[1]),
            f"{tasks:>{widths[2]}}",
            f"{events:>{widths[3]}}",
            f"{last:{widths[4]}}",
            shortened(goal, goal_width),
        ]
        line = "  ".join(cells).rstrip()
        lines.append(paint(line, "dim") if index == 0 else line)
    if not sys.stdout.isatty():
        del lines[0]  # a heading is for people; a pipe gets the runs
    print("\n".join(lines))


def _cells(run: ListedRun) -> tuple[str, ...]:
    summary = run.summary
    tasks = f"{summary.tasks_done}/{summary.tasks}" if summary.tasks else "-"
    goal = plain(summary.goal or summary.slug or "")
    return run.id, plain(run.status), tasks, str(summary.events), moment(summary.updated), goal


def _print_json(rows: list[dict[str, object]]) -> None:
    import json

    for row in rows:
        print(json.dumps(row, ensure_ascii=False))
