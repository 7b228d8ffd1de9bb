"""`holdfast verify`: proof that a log is whole, or the first line that is not."""

import asyncio
import json
import os
import sys

import msgspec

from holdfast.app.cli.arguments import Parser
from holdfast.app.cli.screen import counted, paint, plain
from holdfast.core.verification import Verdict
from holdfast.engine.naming import find_run
from holdfast.engine.places import default_home, log_of, run_of
from holdfast.engine.service import logs_under, verify_log, verify_run
from holdfast.leaf.errors import OK, HoldfastError, NoSuchRun

_EXAMPLES = """\
  holdfast verify auth-system          a run's log, by name
  holdfast verify path/events.jsonl    any log; one without a chain is checked for all the rest"""

_SHOWN = 10


def run(arguments: list[str]) -> int:
    parser = Parser(
        "verify",
        "Strict: every line whole, numbered without gap or double, and in the hash chain.\n"
        "Exit 1 and the number of the first bad line when it is not. Changes nothing.",
        _EXAMPLES,
    )
    parser.add_argument("target", metavar="RUN|PATH")
    options = parser.parse_args(arguments)
    code = OK
    for name, verdict in _verdicts(options.target):
        if options.json:
            print(json.dumps({"log": name, "whole": verdict.whole, **msgspec.to_builtins(verdict)}, ensure_ascii=False))
        else:
            _print(name, verdict)
        if not verdict.whole:
            code = HoldfastError.exit_code
    return code


def _verdicts(target: str) -> list[tuple[str, Verdict]]:
    home = default_home()
    run_id = run_of(home, target)
    if run_id is None and not os.path.exists(target):
        try:
            run_id = find_run(home, target)
        except NoSuchRun:
            if os.sep not in target:
                raise
    if run_id is not None:
        return [_verdict(home, log_of(home, run_id))]
    return [_verdict(home, log) for log in logs_under(target)]


def _verdict(home: str, log: str) -> tuple[str, Verdict]:
    """Of a run of ours, by whatever way one came to it, more is asked."""
    run_id = run_of(home, log)
    if run_id is None:
        return log, asyncio.run(verify_log(log))
    return run_id, asyncio.run(verify_run(home, run_id))


def _print(name: str, verdict: Verdict) -> None:
    found = ", ".join(
        (counted(verdict.lines, "line"), counted(verdict.events, "event"), counted(verdict.sessions, "session"))
    )
    if verdict.whole:
        chain = f"chain {verdict.chain}" if verdict.chained else "no chain: another tool wrote it"
        print(f"{paint('whole', 'green')}  {plain(name)}  {found}  {chain}")
        return
    first = verdict.damage[0]
    print(f"{paint('damaged', 'red')}  {plain(name)}  line {first.line}: {plain(first.reason)}")
    for damage in verdict.damage[1:_SHOWN]:
        print(f"         line {damage.line}: {plain(damage.reason)}")
    if verdict.damage_count > _SHOWN:
        print(f"         … and {verdict.damage_count - _SHOWN} more")
    sys.stderr.write(f"{found} read; the log was not changed\n")
