"""The complete MCP server of one agent, on stdin and stdout, as a program of its own.

It handles one message after the other, and loads what stores a report only when there is one.
"""

import os
import secrets
import threading
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from holdfast.engine.agents.listing_file import announce_tools
from holdfast.engine.home import Home
from holdfast.engine.reports.protocol import (
    ARRIVAL_S,
    Frame,
    ToolCall,
    ToolProtocol,
    encode_frame,
    report_id,
    run_call,
)
from holdfast.leaf.errors import BadInput
from holdfast.leaf.importing import NoCollection

_CHUNK_BYTES = 1 << 16
_STDIN_FD, _STDOUT_FD = 0, 1


class Continuation(NamedTuple):
    """What a relay passes on when no runner answers: bytes that it has read, and the id of their first line."""

    unread: bytes = b""
    prefix: str = ""
    number: int = 0

    @classmethod
    def parse(cls, text: str) -> "Continuation":
        """Parse `FD:PREFIX:NUMBER`."""
        match text.split(":"):
            case [fd, prefix, number] if fd.isdecimal() and number.isdecimal():
                with os.fdopen(int(fd), "rb") as file:
                    return cls(file.read(), prefix, int(number))
        raise BadInput(f"--continue {text}: not FD:PREFIX:NUMBER")


class ToolsOptions(NamedTuple):
    """`reports` is the file of a confined agent; `listed` the one to write when the agent has listed the tools."""

    run: str
    role: str
    conversation: str | None = None
    home: str | None = None
    reports: str | None = None
    listed: str | None = None
    continued: Continuation | None = None


def serve_tools(options: ToolsOptions) -> None:
    """Serve until stdin ends."""
    home = Home(options.home or None)
    run_id = options.run if options.reports else home.find_run(options.run)
    continued = options.continued or Continuation(prefix=secrets.token_hex(9))

    def answer(number: int, call: ToolCall) -> Frame:
        with NoCollection():
            import asyncio  # noqa: PLC0415 - with the store: loaded only when there is a report

            from holdfast.engine.reports.submit import MessageId, Reporter, submit_report  # noqa: PLC0415

        reporter = Reporter(home, run_id, options.role, options.conversation, options.reports)
        is_repeated = options.continued is not None and number == continued.number
        message_id = MessageId(report_id(continued.prefix, number), is_repeated)

        async def submit(tool: str, arguments: Mapping[str, Any]) -> str:
            return await submit_report(reporter, tool, arguments, message_id)

        return asyncio.run(run_call(call, submit))

    protocol = ToolProtocol(options.role, lambda: _announce_later(options.listed))
    for number, line in enumerate(_read_lines(continued.unread), continued.number):
        found = protocol.read_line(line)
        if found is not None:
            _write_all(encode_frame(answer(number, found) if isinstance(found, ToolCall) else found))


def _announce_later(path: str | None) -> None:
    """By a timer that does not keep the process alive."""
    if path is not None:
        timer = threading.Timer(ARRIVAL_S, partial(announce_tools, path))
        timer.daemon = True
        timer.start()


def _read_lines(unread: bytes) -> Iterator[bytes]:
    """Lines of `unread` and then of stdin. The last one counts only when it is complete."""
    parts: list[bytes] = []
    data = unread or os.read(_STDIN_FD, _CHUNK_BYTES)
    while data:
        *ends, rest = data.split(b"\n")
        for end in ends:
            yield b"".join((*parts, end))
            parts = []
        parts.append(rest)
        data = os.read(_STDIN_FD, _CHUNK_BYTES)


def _write_all(data: bytes) -> None:
    """A client that has closed its end gets no answer; the end of stdin then ends the server."""
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(_STDOUT_FD, rest) :]
        except BrokenPipeError:
            return
