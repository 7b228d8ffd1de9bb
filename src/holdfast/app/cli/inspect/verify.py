"""`holdfast verify`: prove that a log is intact, or name the first bad line."""

import asyncio
import json
import os
import sys
from collections.abc import Sequence

import msgspec

from holdfast.app.cli.arguments import Parser
from holdfast.app.cli.named_run import find_run
from holdfast.app.text.screen import paint, pluralize, printable
from holdfast.app.text.verification import anchor_lines, counts_text
from holdfast.core.log.verification import LogVerification
from holdfast.engine.home import Home
from holdfast.engine.queries.logs import logs_under
from holdfast.engine.queries.verify import verify_log, verify_run
from holdfast.leaf.errors import EXIT_OK, HoldfastError, NoSuchRun

_EXAMPLES = """\
  holdfast verify auth-system               a run's log, by name
  holdfast verify auth-system --repo CLONE  also against the anchors in a clone of the repository
  holdfast verify path/events.jsonl         any log; logs of other tools have no chain and no anchors"""

_MAX_DAMAGE_SHOWN = 10


def run(arguments: list[str]) -> int:
    parser = Parser(
        "verify",
        "Check a log strictly: every line complete, numbered without gaps or duplicates, in the hash chain, and\n"
        "matching the anchors in the run's commits (trailer Holdfast-Chain). If not, exit code 1 and the number of\n"
        "the first bad line. Changes nothing. Lines after the last anchor are only as safe as the files. If the\n"
        "repository could have been rewritten too, check against a copy, such as a pushed branch: --repo CLONE.",
        _EXAMPLES,
    )
    parser.add_argument("target", metavar="RUN|PATH", nargs="?", help="default: the newest run of this repository")
    parser.add_argument(
        "--repo", metavar="DIR", action="append", default=[], help="also look for anchors in this repository or clone"
    )
    options = parser.parse_args(arguments)
    code = EXIT_OK
    for name, verdict in _verify_target(options.target, options.repo):
        if options.json:
            print(
                json.dumps(
                    {"log": name, "whole": verdict.is_intact, **msgspec.to_builtins(verdict)}, ensure_ascii=False
                )
            )
        else:
            _print(name, verdict)
        if not verdict.is_intact:
            code = HoldfastError.exit_code
    return code


def _verify_target(target: str | None, copies: Sequence[str]) -> list[tuple[str, LogVerification]]:
    home = Home()
    target = target if target is not None else find_run(home, None)
    run_id = home.run_id_at(target)
    if run_id is None and not os.path.exists(target):
        try:
            run_id = home.find_run(target)
        except NoSuchRun:
            if os.sep not in target:
                raise
    if run_id is not None:
        return [(run_id, asyncio.run(verify_run(home, run_id, copies)))]
    return [_verify(home, log, copies) for log in logs_under(target)]


def _verify(home: Home, log: str, copies: Sequence[str]) -> tuple[str, LogVerification]:
    """A log of Holdfast must also match its snapshot and anchors, whether named by run or by path."""
    run_id = home.run_id_at(log)
    if run_id is None:
        return log, asyncio.run(verify_log(log, copies))
    return run_id, asyncio.run(verify_run(home, run_id, copies))


def _print(name: str, verdict: LogVerification) -> None:
    counts = counts_text(verdict)
    if verdict.damage:
        first = verdict.damage[0]
        print(f"{paint('damaged', 'red')}  {printable(name)}  line {first.line}: {printable(first.reason)}")
        for damage in verdict.damage[1:_MAX_DAMAGE_SHOWN]:
            print(f"         line {damage.line}: {printable(damage.reason)}")
        if verdict.damage_count > _MAX_DAMAGE_SHOWN:
            print(f"         … and {verdict.damage_count - _MAX_DAMAGE_SHOWN} more")
        sys.stderr.write(f"read {counts}; the log was not changed\n")
        return
    chain = f"chain {verdict.chain}" if verdict.chained or verdict.ours else "no chain: written by another tool"
    status = paint("intact", "green") if verdict.is_intact else paint("unproven", "red")
    print(f"{status}  {printable(name)}  {counts}  {chain}")
    for part in verdict.withheld:
        day = (part.at or "?")[:10]
        print(f"        whole, {pluralize(part.events, 'event')} withheld by rule {printable(part.rule)} on {day}")
    if verdict.ours:
        print("\n".join(f"        {printable(line)}" for line in anchor_lines(verdict)))
