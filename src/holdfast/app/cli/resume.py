"""`holdfast resume`: go on with a run from where it stood."""

import argparse
import asyncio
import os
import sys

from holdfast.app.cli.arguments import Parser, words
from holdfast.app.cli.away import told_digest
from holdfast.app.cli.moving import add_options, flags_of, move
from holdfast.app.cli.report import report
from holdfast.app.cli.screen import plain, warn
from holdfast.app.cli.way_on import by_policy, warn_of, word_of
from holdfast.core.analysis import Analysis
from holdfast.core.decision import Case, Choice
from holdfast.engine.choosing import resumable
from holdfast.engine.digesting import digest_of
from holdfast.engine.naming import find_run
from holdfast.engine.places import default_home, run_of
from holdfast.engine.planning import on_issue_of, warnings_of
from holdfast.engine.service import view_run
from holdfast.engine.ways import Way
from holdfast.leaf.errors import BadInput, NothingToDo

_EXAMPLES = """\
  holdfast resume                          the run that can go on here; a list, when there are several
  holdfast resume auth-system
  holdfast resume auth-system --on-issue fix       tasks that failed are tried again
  holdfast resume auth-system --on-issue "use the old schema, and leave the tests alone\""""


def run(arguments: list[str]) -> int:
    parser = Parser(
        "resume",
        "Go on with a run: nothing is lost and nothing is done twice. Where something went wrong, you are asked how\n"
        "to go on; --on-issue answers beforehand.",
        _EXAMPLES,
    )
    parser.add_argument("run", nargs="?", metavar="RUN", help="id, beginning of an id, slug, or folder")
    parser.add_argument(
        "--on-issue", type=words, metavar="fix|skip|replan|ask|TEXT", help="how to go on past what went wrong"
    )
    add_options(parser)
    options = parser.parse_args(arguments)
    home = default_home()
    run_id = _meant(home, options)
    way = _way(home, run_id, options)
    if way is not None:
        options.on_issue = word_of(way)  # for a runner that cannot ask
    return move(home, run_id, lambda _: way, flags_of(options), options)


def _meant(home: str, options: argparse.Namespace) -> str:
    if options.run is not None:
        return run_of(home, options.run) or find_run(home, options.run)
    found = resumable(home, os.getcwd())
    if not found:
        raise NothingToDo("there is no run to resume; `holdfast ls` lists those there are")
    if len(found) == 1 or not _is_asked():
        return found[0].id
    for number, candidate in enumerate(found[:20], start=1):
        sys.stderr.write(f"  {number}. {candidate.id}  {candidate.status}  {plain(candidate.summary.goal or '')}\n")
    answer = _asked(f"Which one? [1-{min(len(found), 20)}, enter for 1] ") or "1"
    if not answer.isdecimal() or not 1 <= int(answer) <= min(len(found), 20):
        raise BadInput(f"{answer!r} is none of the numbers; holdfast resume RUN names one")
    return found[int(answer) - 1].id


def _way(home: str, run_id: str, options: argparse.Namespace) -> Way | None:
    """Asked for before anything is started, so that Ctrl-C at the question is only that."""
    view = asyncio.run(view_run(home, run_id))
    warn(warnings_of(home, view.state))
    analysis = view.analysis
    if not (options.quiet or options.json) and view.status != "running":
        for line in told_digest(asyncio.run(digest_of(home, run_id, view=view)), run_id):
            sys.stderr.write(f"{line}\n")
    if view.status == "running" or analysis.decision.case in (Case.AUTO, Case.COMPLETE):
        return None
    policy = options.on_issue or on_issue_of(home, view.state)
    way = by_policy(analysis, policy)
    if way is None and _is_asked() and not options.json:
        sys.stderr.write(report(analysis) + "\n\n")
        way = _by_person(analysis)
    return way


def _by_person(analysis: Analysis) -> Way:
    options = {option.key: option for option in analysis.decision.options}
    answer = _asked("Your choice: ").upper()
    chosen = options.get(answer)
    if chosen is None:
        raise BadInput(f"{answer!r} is none of {', '.join(options)}; nothing was changed")
    warn_of(chosen)
    if chosen.choice is Choice.CUSTOM:
        words = _asked("Your instructions: ")
        if not words:
            raise BadInput("no instructions were given; nothing was changed")
        return Way(chosen.choice, words)
    return Way(chosen.choice)


def _is_asked() -> bool:
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


def _asked(question: str) -> str:
    sys.stderr.write(question)
    sys.stderr.flush()
    return sys.stdin.readline().strip()
