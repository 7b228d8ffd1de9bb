"""Follows the output of a tmux pane through tmux's control mode, without polling."""

import asyncio
import os
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

_MAX_LINE_BYTES = 4 * 1024 * 1024  # longer lines are skipped
_CLIENT_FLAGS = "ignore-size"  # this client has no screen: other clients determine the window size


@asynccontextmanager
async def watch_output(
    socket: str, session: str, pane_id: str, on_output: Callable[[bytes], None]
) -> AsyncIterator["asyncio.Task[None]"]:
    """Call `on_output` with the pane's output, first with b"" once attached. The task ends when tmux disconnects."""
    process = await asyncio.create_subprocess_exec(
        *("tmux", "-f", os.devnull, "-S", socket, "-C", "attach-session", "-t", session, "-f", _CLIENT_FLAGS),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        limit=_MAX_LINE_BYTES,
    )
    assert process.stdout is not None, "it was created as a pipe"
    reader = asyncio.ensure_future(_read_output(process.stdout, f"%output {pane_id} ".encode(), on_output))
    try:
        yield reader
    finally:
        reader.cancel()
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def _read_output(lines: asyncio.StreamReader, pane_id: bytes, on_output: Callable[[bytes], None]) -> None:
    attached = False
    while line := await _read_line(lines):
        if not attached:
            attached = True
            on_output(b"")
        if line.startswith(pane_id):
            data = line[len(pane_id) :].rstrip(b"\n")
            on_output(re.sub(rb"\\([0-7]{3})", lambda found: bytes((int(found[1], 8),)), data))


async def _read_line(lines: asyncio.StreamReader) -> bytes:
    """Return the next line; an empty one in place of a line that is too long."""
    try:
        return await lines.readline()
    except ValueError:
        return b"\n"
