"""`holdfast export`: a run as one file, to read and to hand on."""

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from typing import BinaryIO

from holdfast.app.cli.arguments import Parser
from holdfast.app.html.page import write_page
from holdfast.engine.naming import find_run
from holdfast.engine.places import default_home
from holdfast.leaf.errors import OK, BadInput
from holdfast.leaf.files.directories import sync_directory

_EXAMPLES = """\
  holdfast export auth-system --html                     auth-system-….html, here
  holdfast export auth-system --html -o ~/review.html
  holdfast export auth-system --html -o - | gzip > review.html.gz"""


def run(arguments: list[str]) -> int:
    parser = Parser(
        "export",
        "A run as one HTML file: its tasks and verdicts, every conversation with its tool calls and diffs, and a\n"
        "timeline to search. It asks the network for nothing. What agents saw is in it: look before you share.",
        _EXAMPLES,
    )
    parser.add_argument("run", metavar="RUN", help="id, beginning of an id, or slug")
    parser.add_argument("--html", action="store_true", help="as HTML (the only form there is)")
    parser.add_argument("-o", "--output", metavar="FILE", help="where to; - is stdout (default: RUN.html, here)")
    options = parser.parse_args(arguments)
    home = default_home()
    run_id = find_run(home, options.run)
    if options.output == "-":
        asyncio.run(write_page(home, run_id, sys.stdout.buffer))
        return OK
    target = os.path.abspath(options.output or f"{run_id}.html")
    if os.path.isdir(target):
        raise BadInput(f"{target} is a folder; name a file in it with -o")
    size = _replaced(target, lambda out: asyncio.run(write_page(home, run_id, out)))
    print(json.dumps({"run": run_id, "file": target, "bytes": size}) if options.json else target)
    return OK


def _replaced(target: str, write: Callable[[BinaryIO], None]) -> int:
    """Written beside it and put in its place when it is whole, on the disk: the run may be taken away after that.

    Returns its size.
    """
    fd, half = tempfile.mkstemp(dir=os.path.dirname(target), prefix=".holdfast-", suffix=".html")
    try:
        with os.fdopen(fd, "wb") as file:
            write(file)
            size = file.tell()
            file.flush()
            os.fsync(file.fileno())
        os.replace(half, target)
        sync_directory(os.path.dirname(target))
    except BaseException:
        with suppress(OSError):
            os.unlink(half)
        raise
    return size
