"""`holdfast verify`: proof that a log is whole, or the first line that is not."""

import asyncio
import json
import os
import sys
from collections.abc import Sequence

import msgspec

from holdfast.app.cli.arguments import Parser
from holdfast.app.text.screen import counted, paint, plain
from holdfast.core.log.verification import Verdict
from holdfast.engine.naming import find_run
from holdfast.engine.places import default_home, log_of, run_of
from holdfast.engine.queries.logs import logs_under
from holdfast.engine.queries.verify import verify_log, verify_run
from holdfast.leaf.errors import OK, HoldfastError, NoSuchRun

_EXAMPLES = """\
  holdfast verify auth-system               a run's log, by name
  holdfast verify auth-system --repo CLONE  also against the anchors in a clone of the repository
  holdfast verify path/events.jsonl         any log; one of another tool is checked for all but chain and anchors"""

_SHOWN = 10


def run(arguments: list[str]) -> int:
    parser = Parser(
        "verify",
        "Strict: every line whole, numbered without gap or double, in the hash chain, and as the anchors in the run's\n"
        "commits say (trailer Holdfast-Chain). Exit 1 and the number of the first bad line when it is not.\n"
        "Changes nothing. Lines after the last anchor are only as safe as the files. Someone who rewrites the\n"
        "repository too is found out by a copy of it elsewhere, as a pushed branch: --repo CLONE.",
        _EXAMPLES,
    )
    parser.add_argument("target", metavar="RUN|PATH")
    parser.add_argument(
        "--repo", metavar="DIR", action="append", default=[], help="look for anchors in this repository, or clone, too"
    )
    options = parser.parse_args(arguments)
    code = OK
    for name, verdict in _verdicts(options.target, options.repo):
        if options.json:
            print(json.dumps({"log": name, "whole": verdict.whole, **msgspec.to_builtins(verdict)}, ensure_ascii=False))
        else:
            _print(name, verdict)
        if not verdict.whole:
            code = HoldfastError.exit_code
    return code


def _verdicts(target: str, copies: Sequence[str]) -> list[tuple[str, Verdict]]:
    home = default_home()
    run_id = run_of(home, target)
    if run_id is None and not os.path.exists(target):
        try:
            run_id = find_run(home, target)
        except NoSuchRun:
            if os.sep not in target:
                raise
    if run_id is not None:
        return [_verdict(home, log_of(home, run_id), copies)]
    return [_verdict(home, log, copies) for log in logs_under(target)]


def _verdict(home: str, log: str, copies: Sequence[str]) -> tuple[str, Verdict]:
    """Of a run of ours, by whatever way one came to it, more is asked."""
    run_id = run_of(home, log)
    if run_id is None:
        return log, asyncio.run(verify_log(log, copies))
    return run_id, asyncio.run(verify_run(home, run_id, copies))


def _print(name: str, verdict: Verdict) -> None:
    found = ", ".join(
        (counted(verdict.lines, "line"), counted(verdict.events, "event"), counted(verdict.sessions, "session"))
    )
    if verdict.damage:
        first = verdict.damage[0]
        print(f"{paint('damaged', 'red')}  {plain(name)}  line {first.line}: {plain(first.reason)}")
        for damage in verdict.damage[1:_SHOWN]:
            print(f"         line {damage.line}: {plain(damage.reason)}")
        if verdict.damage_count > _SHOWN:
            print(f"         … and {verdict.damage_count - _SHOWN} more")
        sys.stderr.write(f"{found} read; the log was not changed\n")
        return
    chain = f"chain {verdict.chain}" if verdict.chained or verdict.ours else "no chain: another tool wrote it"
    told = paint("whole", "green") if verdict.whole else paint("unproven", "red")
    print(f"{told}  {plain(name)}  {found}  {chain}")
    if verdict.ours:
        print("\n".join(f"       {plain(line)}" for line in _about_anchors(verdict)))


def _about_anchors(verdict: Verdict) -> list[str]:
    """What is proven by something outside the run's folder, and what is not."""
    anchors = verdict.anchors
    lines = [f"its anchors cannot be read in {why}" for why in anchors.unread]
    lines += [f"{path} is not there; if it was moved: --repo NEW-PLACE" for path in anchors.absent]
    if anchors.last is None:
        lines.append("no anchors: only the run's own folder says what this log was, and could be rewritten with it")
        return lines
    where = ", ".join(sorted({*anchors.repositories}))
    proven = f"{counted(anchors.held, 'anchor')} in {where}: lines 1 to {anchors.last_line} are as they were written"
    after = verdict.lines - anchors.last_line
    lines.append(f"{proven} (commit {anchors.last.commit[:12]}, {anchors.last.time})")
    if after:
        lines.append(f"{counted(after, 'line')} after the last anchor: only as safe as the file itself")
    lines.append("if the repository could be rewritten too, compare with a copy elsewhere: --repo CLONE")
    return lines
