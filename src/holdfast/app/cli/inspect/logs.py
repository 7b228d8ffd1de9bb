"""`holdfast logs`: a run's events, as they were or as they come."""

import argparse
import asyncio
import json
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

from holdfast.app.cli.arguments import Parser
from holdfast.app.text.screen import moment, paint, plain, shortened, terminal_width
from holdfast.core.conversation.call_text import shorten
from holdfast.core.events.conversation import PermissionRequested
from holdfast.core.log.codec import Line, Malformed, data_of
from holdfast.engine.naming import find_run
from holdfast.engine.places import default_home
from holdfast.engine.queries.logs import Filter, LogLine, follow_log, read_log
from holdfast.leaf.errors import OK

_EXAMPLES = """\
  holdfast logs auth-system -n 20          the last twenty
  holdfast logs auth-system -f             as they come; Ctrl-C ends it, and ends nothing else
  holdfast logs auth-system --type 'task.*' --type checkpoint
  holdfast logs auth-system --json | jq 'select(.type == "task.failed") | .data'"""

_VALUE_CHARS = 200
_REQUEST_CHARS = 2_000  # of one value of a permission request: what is to run should be seen whole


def run(arguments: list[str]) -> int:
    parser = Parser("logs", "A run's events, oldest first. With --json each is printed as it stands.", _EXAMPLES)
    parser.add_argument("run", metavar="RUN", help="id, beginning of an id, or slug")
    parser.add_argument("-f", "--follow", action="store_true", help="go on with each event as it is written")
    parser.add_argument("-n", "--last", type=_count, metavar="N", help="only the last N")
    parser.add_argument(
        "--type", action="append", default=[], metavar="TYPE", help="only these types; patterns such as task.* too"
    )
    options = parser.parse_args(arguments)
    home = default_home()
    source = follow_log if options.follow else read_log
    lines = source(home, find_run(home, options.run), Filter(tuple(options.type)), last=options.last)
    asyncio.run(_print(lines, as_json=options.json, at_once=options.follow))
    return OK


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of lines")
    return int(text)


async def _print(lines: AsyncGenerator[LogLine, None], *, as_json: bool, at_once: bool) -> None:
    tell = _print_as_it_stands if as_json else _teller()
    async with aclosing(lines):
        async for line in lines:
            tell(line)
            if at_once:
                sys.stdout.flush()


def _print_as_it_stands(found: LogLine) -> None:
    if isinstance(found.line, Line):
        sys.stdout.buffer.write(found.raw + b"\n")
    else:
        sys.stderr.write(f"an unreadable line is left out: {plain(found.line.reason)}\n")


def _teller() -> Callable[[LogLine], None]:
    width = terminal_width() if sys.stdout.isatty() else None
    return lambda found: print(_told(found.line, width))


def _told(line: Line | Malformed, width: int | None) -> str:
    if isinstance(line, Malformed):
        return paint(f"{'':19}  (unreadable line: {plain(line.reason)})", "red")
    who = f" {line.agent}" if line.agent else ""
    most = _REQUEST_CHARS if line.type == PermissionRequested.type else _VALUE_CHARS
    told = (f"{key}={_brief(value, most)}" for key, value in data_of(line).items() if value is not None)
    detail = plain(", ".join(told))
    head = f"{moment(line.ts):19}  {plain(line.type):26}{plain(who)} "
    if width is not None:
        detail = shortened(detail, max(20, width - len(head)))
    return f"{paint(head, 'cyan' if line.type.startswith('session.') else None)}{detail}".rstrip()


def _brief(value: Any, most: int) -> str:
    return shorten(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), most)
