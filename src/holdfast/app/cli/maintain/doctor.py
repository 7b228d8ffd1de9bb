"""`holdfast doctor`: find and repair problems."""

import asyncio
import json
import os
import sys
from contextlib import suppress

from holdfast.app.cli.arguments import Parser
from holdfast.app.cli.progress import ProgressLine
from holdfast.app.text.screen import paint, printable
from holdfast.engine.commands.doctor import Problem, Repair, diagnose
from holdfast.engine.commands.salvage import repositories_of
from holdfast.engine.home import Home
from holdfast.leaf.errors import EXIT_OK, HoldfastError

_EXAMPLES = """\
  holdfast doctor                             look, change nothing
  holdfast doctor --fix                       repair what is safe to repair
  holdfast doctor --repo ~/new/place --fix    follow a moved repository"""

_REPAIRED, _FAILED = "repaired", "failed"


def run(arguments: list[str]) -> int:
    parser = Parser(
        "doctor",
        "Find what a crash or another program left behind: unfinished effects, stale worktree entries and locks,\n"
        "orphan branches and worktrees, dead owners, moved repositories. Work that is in no branch of yours is never\n"
        "deleted. Exit code 1 if a problem remains.",
        _EXAMPLES,
    )
    parser.add_argument("--fix", action="store_true", help="repair what is safe to repair")
    parser.add_argument("--repo", metavar="DIR", action="append", default=[], help="also look in this repository")
    options = parser.parse_args(arguments)
    return asyncio.run(_diagnose_and_print(Home(), options.repo, fix=options.fix, as_json=options.json))


async def _diagnose_and_print(home: Home, folders: list[str], *, fix: bool, as_json: bool) -> int:
    remaining = 0
    done: dict[Repair, str] = {}  # several problems may share a repair
    if home.store_url is not None:
        with suppress(HoldfastError):  # a problem, which is told with the others
            sys.stderr.write(f"{printable(home.index.describe())}\n")
    progress = ProgressLine()
    problems = await diagnose(
        home,
        await repositories_of((), folders, os.getcwd()),
        lambda done, total: progress.count_runs("checking", done, total),
    )
    progress.clear()
    for problem in problems:
        outcome = await _repair(problem, done) if fix else None
        remaining += outcome != _REPAIRED
        _print(problem, outcome, as_json=as_json)
    if not problems:
        sys.stderr.write("no problems found\n")
    elif not fix and any(problem.repair for problem in problems):
        sys.stderr.write("repair with: holdfast doctor --fix\n")
    return HoldfastError.exit_code if remaining else EXIT_OK


async def _repair(problem: Problem, done: dict[Repair, str]) -> str | None:
    """Return `repaired`, or why not; None if the problem has no repair."""
    if problem.repair is not None and problem.repair not in done:
        try:
            await problem.repair()
            done[problem.repair] = _REPAIRED
        except (HoldfastError, OSError) as error:
            done[problem.repair] = str(error)
    return done[problem.repair] if problem.repair is not None else None


def _print(problem: Problem, outcome: str | None, *, as_json: bool) -> None:
    if as_json:
        fields = {"subject": problem.subject, "told": problem.description, "repairable": problem.repair is not None}
        print(json.dumps({**fields, "outcome": outcome}, ensure_ascii=False))
        return
    mark, colour = _status_mark(problem, outcome)
    print(f"{paint(f'{mark:8}', colour)}  {printable(problem.subject)}  {printable(problem.description)}")
    if mark == _FAILED and outcome is not None:
        print(f"{'':8}  {printable(outcome)}")


def _status_mark(problem: Problem, outcome: str | None) -> tuple[str, str]:
    if problem.repair is None:
        return "check", "yellow"  # only a person can decide
    if outcome is None:
        return "can fix", "cyan"
    return (_REPAIRED, "green") if outcome == _REPAIRED else (_FAILED, "red")
