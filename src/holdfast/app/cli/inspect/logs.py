"""`holdfast logs`: print or follow a run's events."""

import argparse
import asyncio
import json
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Any

from holdfast.app.cli.arguments import Parser
from holdfast.app.cli.named_run import add_run, find_run
from holdfast.app.text.screen import format_time, paint, printable, shorten_to_width, terminal_width
from holdfast.core.conversation.call_text import shorten
from holdfast.core.events import TYPES
from holdfast.core.events.conversation import PermissionRequested
from holdfast.core.log.codec import Line, Malformed, data_of
from holdfast.engine.home import Home
from holdfast.engine.queries.logs import LogFilter, LogLine, follow_log, read_log
from holdfast.leaf.errors import EXIT_OK, BadInput

_EXAMPLES = """\
  holdfast logs auth-system -n 20          the last 20 events
  holdfast logs auth-system -f             follow new events; Ctrl-C does not stop the run
  holdfast logs auth-system --type 'task.*' --type checkpoint
  holdfast logs auth-system --json | jq 'select(.type == "task.failed") | .data'"""

_VALUE_CHARS = 200
_REQUEST_CHARS = 2_000  # per value of a permission request: a person has to see the whole command


def run(arguments: list[str]) -> int:
    parser = Parser(
        "logs", "Print a run's events, oldest first. --json prints the lines of the log unchanged.", _EXAMPLES
    )
    add_run(parser)
    parser.add_argument("-f", "--follow", action="store_true", help="also print each new event as it is written")
    parser.add_argument("-n", "--last", type=_line_count, metavar="N", help="only the last N events")
    parser.add_argument(
        "--type", action="append", default=[], metavar="TYPE", help="only these types; patterns such as task.* work too"
    )
    options = parser.parse_args(arguments)
    home = Home()
    source = follow_log if options.follow else read_log
    lines = source(home, find_run(home, options.run), LogFilter(tuple(options.type)), last=options.last)
    printed = asyncio.run(_print(lines, as_json=options.json, flush=options.follow))
    if options.type and options.last != 0 and not printed:
        _check_types(options.type)
        sys.stderr.write(f"no event of this log is {' or '.join(map(printable, options.type))}\n")
    return EXIT_OK


def _check_types(patterns: Sequence[str]) -> None:
    """Raise `BadInput` for the name of no event. Called when the log has none: other tools and versions have others."""
    from difflib import get_close_matches  # slow import that only an error needs

    for name in patterns:
        if not name or name in TYPES or any(sign in name for sign in "*?["):
            continue
        near = ", ".join(get_close_matches(name, TYPES, n=3, cutoff=0.5))
        advice = f"did you mean {near}?" if near else "docs/reference.md lists all; patterns such as task.* work too"
        raise BadInput(f"there is no event type {printable(name)!r}; {advice}")


def _line_count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number")
    return int(text)


async def _print(lines: AsyncGenerator[LogLine, None], *, as_json: bool, flush: bool) -> int:
    """Return how many lines there were."""
    printed = 0
    print_line = _print_raw if as_json else _line_printer()
    async with aclosing(lines):
        async for line in lines:
            print_line(line)
            printed += 1
            if flush:
                sys.stdout.flush()
    return printed


def _print_raw(log_line: LogLine) -> None:
    if isinstance(log_line.line, Line):
        sys.stdout.buffer.write(log_line.raw + b"\n")
    else:
        sys.stderr.write(f"skipped an unreadable line: {printable(log_line.line.reason)}\n")


def _line_printer() -> Callable[[LogLine], None]:
    width = terminal_width() if sys.stdout.isatty() else None
    return lambda log_line: print(_format_line(log_line.line, width))


def _format_line(line: Line | Malformed, width: int | None) -> str:
    if isinstance(line, Malformed):
        return paint(f"{'':19}  (unreadable line: {printable(line.reason)})", "red")
    agent = f" {line.agent}" if line.agent else ""
    max_chars = _REQUEST_CHARS if line.type == PermissionRequested.type else _VALUE_CHARS
    fields = (
        f"{key}={_short_value(value, max_chars)}" for key, value in data_of(line).items() if value not in (None, [])
    )
    detail = printable(", ".join(fields))
    head = f"{format_time(line.ts):19}  {printable(line.type):26}{printable(agent)} "
    if width is not None:
        detail = shorten_to_width(detail, max(20, width - len(head)))
    return f"{paint(head, 'cyan' if line.type.startswith('session.') else None)}{detail}".rstrip()


def _short_value(value: Any, max_chars: int) -> str:
    return shorten(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), max_chars)
