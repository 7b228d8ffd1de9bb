"""`holdfast export`: write a run to one HTML file."""

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
from holdfast.leaf.errors import EXIT_OK, BadInput
from holdfast.leaf.files.directories import sync_directory

_EXAMPLES = """\
  holdfast export auth-system --html                     writes auth-system-….html to the current folder
  holdfast export auth-system --html -o ~/review.html
  holdfast export auth-system --html -o - | gzip > review.html.gz"""


def run(arguments: list[str]) -> int:
    parser = Parser(
        "export",
        "Write a run to one HTML file: its tasks and verdicts, every conversation with its tool calls and diffs, and\n"
        "a searchable timeline. The page uses no network. It contains what agents read: review it before you share it.",
        _EXAMPLES,
    )
    add_run(parser)
    parser.add_argument("--html", action="store_true", help="as HTML (the only format)")
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="the file; - is stdout (default: RUN.html in the current folder)"
    )
    options = parser.parse_args(arguments)
    home = Home()
    run_id = find_run(home, options.run)
    if options.output == "-":
        asyncio.run(write_page(home, run_id, sys.stdout.buffer))
        return EXIT_OK
    target = os.path.abspath(options.output or f"{run_id}.html")
    if os.path.isdir(target):
        raise BadInput(f"{target} is a folder; name a file with -o")
    size = _replace_file(target, lambda out: asyncio.run(write_page(home, run_id, out)))
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
