"""`holdfast export`: write a run to one HTML file, or as a log that the tools of the Resume Protocol read."""

import asyncio
import json
import os
import shlex
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
  holdfast export auth-system --as resume-protocol -o .claude/progress/auth-system/events.jsonl
  holdfast export auth-system --bundle auth-system.run   for holdfast import, on another machine
  holdfast export auth-system --otlp                     sends its spans to the collector of your config
  holdfast export auth-system --otlp --file spans.jsonl  writes them as an OTLP file"""


async def _write_protocol_log(home: Home, run_id: str, out: BinaryIO) -> None:
    async for line in protocol_lines(home, run_id):
        out.write(line)


async def _write_spans(home: Home, run_id: str, out: BinaryIO) -> None:
    from holdfast.engine.queries.telemetry import write_spans

    await write_spans(home, run_id, out)


_WRITERS = {
    "html": (write_page, ".html"),
    "resume-protocol": (_write_protocol_log, ".jsonl"),
    "otlp": (_write_spans, ".jsonl"),
}


def run(arguments: list[str]) -> int:
    parser = Parser(
        "export",
        "Write a run to one HTML file: its tasks and verdicts, every conversation with its tool calls and diffs, and\n"
        "a searchable timeline. The page uses no network. It has what agents read: review it before you share it.\n"
        "With --as resume-protocol, write a log that the tools of the Resume Protocol continue from. With --bundle,\n"
        "write the log, inbox, documents and all commits of the run to one file, which `holdfast import` reads.\n"
        "With --otlp, send its spans and its usage to a collector of OpenTelemetry (docs/telemetry.md), or write them\n"
        "with --file.",
        _EXAMPLES,
    )
    add_run(parser)
    parser.add_argument("--html", action="store_true", help="as HTML (the default)")
    parser.add_argument("--as", dest="format", choices=tuple(_WRITERS), default="html", help="the format")
    parser.add_argument(
        "-o",
        "--output",
        "--file",
        metavar="FILE",
        help="the file; - is stdout (default: RUN.html or RUN.jsonl in the current folder)",
    )
    parser.add_argument(
        "--bundle",
        metavar="FILE",
        help="write everything of the run to one file, for `holdfast import` on another machine",
    )
    parser.add_argument("--otlp", action="store_true", help="as spans of OpenTelemetry, to a collector or a --file")
    parser.add_argument("--endpoint", metavar="URL", help="the collector of --otlp; default: as your config says")
    options = parser.parse_args(arguments)
    home = Home()
    if options.bundle is not None:
        return _export_bundle(home, find_run(home, options.run), options.bundle, as_json=options.json)
    run_id = find_run(home, options.run)
    if options.otlp and options.output is None:
        return _send_spans(home, run_id, options.endpoint, as_json=options.json)
    if options.endpoint is not None:
        raise BadInput("--endpoint is for --otlp without --file")
    write, suffix = _WRITERS["otlp" if options.otlp else options.format]
    if options.output == "-":
        asyncio.run(write(home, run_id, sys.stdout.buffer))
        return EXIT_OK
    target = os.path.abspath(options.output or f"{run_id}{suffix}")
    if os.path.isdir(target):
        raise BadInput(f"{target} is a folder; name a file with -o")
    if not os.path.isdir(os.path.dirname(target)):
        raise BadInput(f"the folder {os.path.dirname(target)} does not exist; make it, or name another file with -o")
    size = _replace_file(target, lambda out: asyncio.run(write(home, run_id, out)))
    print(json.dumps({"run": run_id, "file": target, "bytes": size}) if options.json else target)
    return EXIT_OK


def _export_bundle(home: Home, run_id: str, path: str, *, as_json: bool) -> int:
    from holdfast.engine.commands.bundle.export_bundle import export_bundle  # loads git, which a page does not need

    target = os.path.abspath(path)
    if os.path.isdir(target):
        raise BadInput(f"{target} is a folder; name a file")
    made = asyncio.run(export_bundle(home, run_id, target))
    if as_json:
        print(json.dumps({"run": run_id, "file": made.path, "bytes": made.bytes, "refs": len(made.manifest.refs)}))
    else:
        print(made.path)
        command = f"holdfast import {shlex.quote(os.path.basename(made.path))}"
        sys.stderr.write(f"continue it on another machine with `{command}`, and then no more on this one\n")
    return EXIT_OK


def _send_spans(home: Home, run_id: str, endpoint: str | None, *, as_json: bool) -> int:
    from holdfast.engine.queries.telemetry import send_spans

    if endpoint is not None and not endpoint.startswith(("http://", "https://")):
        raise BadInput(f"--endpoint {endpoint} is not a URL; write http://HOST:4318")
    sent = asyncio.run(send_spans(home, run_id, endpoint))
    data = {"run": run_id, "endpoint": sent.endpoint, "spans": sent.spans}
    print(json.dumps(data) if as_json else f"sent {sent.spans} spans to {sent.endpoint}")
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
