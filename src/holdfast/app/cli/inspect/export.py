"""`holdfast export`: write a run to one HTML file, or as a log that the tools of the Resume Protocol read."""

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from typing import BinaryIO

from holdfast.app.cli.arguments import Parser
from holdfast.app.cli.named_run import add_run, find_run
from holdfast.app.html.page import write_page
from holdfast.engine.home import Home
from holdfast.engine.queries.protocol_log import protocol_lines
from holdfast.leaf.errors import EXIT_OK, BadInput
from holdfast.leaf.files.directories import sync_directory

_EXAMPLES = """\
  holdfast export auth-system --html                     writes auth-system-….html to the current folder
  holdfast export auth-system --html -o ~/review.html
  holdfast export auth-system --html -o - | gzip > review.html.gz
  holdfast export auth-system --as resume-protocol -o .claude/progress/auth-system/events.jsonl"""


async def _write_protocol_log(home: Home, run_id: str, out: BinaryIO) -> None:
    async for line in protocol_lines(home, run_id):
        out.write(line)


_WRITERS = {"html": (write_page, ".html"), "resume-protocol": (_write_protocol_log, ".jsonl")}


def run(arguments: list[str]) -> int:
    parser = Parser(
        "export",
        "Write a run to one HTML file: its tasks and verdicts, every conversation with its tool calls and diffs, and\n"
        "a searchable timeline. The page uses no network. It has what agents read: review it before you share it.\n"
        "With --as resume-protocol, write a log that the tools of the Resume Protocol continue from.",
        _EXAMPLES,
    )
    add_run(parser)
    parser.add_argument("--html", action="store_true", help="as HTML (the default)")
    parser.add_argument("--as", dest="format", choices=tuple(_WRITERS), default="html", help="the format")
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="the file; - is stdout (default: RUN.html or RUN.jsonl in the current folder)",
    )
    options = parser.parse_args(arguments)
    home = Home()
    run_id = find_run(home, options.run)
    write, suffix = _WRITERS[options.format]
    if options.output == "-":
        asyncio.run(write(home, run_id, sys.stdout.buffer))
        return EXIT_OK
    target = os.path.abspath(options.output or f"{run_id}{suffix}")
    if os.path.isdir(target):
        raise BadInput(f"{target} is a folder; name a file with -o")
    size = _replace_file(target, lambda out: asyncio.run(write(home, run_id, out)))
    print(json.dumps({"run": run_id, "file": target, "bytes": size}) if options.json else target)
    return EXIT_OK


def _replace_file(target: str, write: Callable[[BinaryIO], None]) -> int:
    """Write a temporary file, sync it and move it into place: the run may be deleted after that. Returns the size."""
    fd, temporary = tempfile.mkstemp(dir=os.path.dirname(target), prefix=".holdfast-", suffix=".html")
    try:
        with os.fdopen(fd, "wb") as file:
            write(file)
            size = file.tell()
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
        sync_directory(os.path.dirname(target))
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    return size
