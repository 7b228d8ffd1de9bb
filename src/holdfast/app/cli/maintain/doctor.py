"""`holdfast doctor`: what is not as it should be, and its repair."""

import asyncio
import json
import os
import sys

from holdfast.app.cli.arguments import Parser
from holdfast.app.text.screen import paint, plain
from holdfast.engine.commands.doctor import Ailment, Repair, diagnose
from holdfast.engine.commands.salvage import repositories_of
from holdfast.engine.places import default_home
from holdfast.leaf.errors import OK, HoldfastError

_EXAMPLES = """\
  holdfast doctor                             look, and change nothing
  holdfast doctor --fix                       repair what can be repaired without a risk
  holdfast doctor --repo ~/new/place --fix    a repository was moved"""

_REPAIRED, _FAILED = "repaired", "failed"


def run(arguments: list[str]) -> int:
    parser = Parser(
        "doctor",
        "Look for what a crash, or somebody else, left behind: half-done effects, stale entries and locks, orphan\n"
        "branches and worktrees, dead owners, things that were moved. Work that is in no branch of yours is never\n"
        "deleted. Exit 1 when something is left to be done.",
        _EXAMPLES,
    )
    parser.add_argument("--fix", action="store_true", help="repair what can be repaired")
    parser.add_argument("--repo", metavar="DIR", action="append", default=[], help="look in this repository too")
    options = parser.parse_args(arguments)
    return asyncio.run(_examine(default_home(), options.repo, fix=options.fix, as_json=options.json))


async def _examine(home: str, folders: list[str], *, fix: bool, as_json: bool) -> int:
    left = 0
    done: dict[Repair, str] = {}  # several ailments may have one repair
    ailments = await diagnose(home, await repositories_of((), folders, os.getcwd()))
    for ailment in ailments:
        outcome = await _treated(ailment, done) if fix else None
        left += outcome != _REPAIRED
        _print(ailment, outcome, as_json=as_json)
    if not ailments:
        sys.stderr.write("all is well\n")
    elif not fix and any(ailment.repair for ailment in ailments):
        sys.stderr.write("`holdfast doctor --fix` does what it can\n")
    return HoldfastError.exit_code if left else OK


async def _treated(ailment: Ailment, done: dict[Repair, str]) -> str | None:
    """`repaired`, or why not; None when there is nothing that could be done."""
    if ailment.repair is not None and ailment.repair not in done:
        try:
            await ailment.repair()
            done[ailment.repair] = _REPAIRED
        except (HoldfastError, OSError) as error:
            done[ailment.repair] = str(error)
    return done[ailment.repair] if ailment.repair is not None else None


def _print(ailment: Ailment, outcome: str | None, *, as_json: bool) -> None:
    if as_json:
        about = {"subject": ailment.subject, "told": ailment.told, "repairable": ailment.repair is not None}
        print(json.dumps({**about, "outcome": outcome}, ensure_ascii=False))
        return
    mark, colour = _mark(ailment, outcome)
    print(f"{paint(f'{mark:8}', colour)}  {plain(ailment.subject)}  {plain(ailment.told)}")
    if mark == _FAILED and outcome is not None:
        print(f"{'':8}  {plain(outcome)}")


def _mark(ailment: Ailment, outcome: str | None) -> tuple[str, str]:
    if ailment.repair is None:
        return "look", "yellow"  # a person must
    if outcome is None:
        return "can fix", "cyan"
    return (_REPAIRED, "green") if outcome == _REPAIRED else (_FAILED, "red")
