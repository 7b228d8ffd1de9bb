"""Being told by tmux what happens in a pane, by its control mode: nobody looks again and again."""

import asyncio
import os
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

_LIMIT = 4 * 1024 * 1024  # bytes of a line; a longer one is passed over
_QUIET = "ignore-size"  # as for a client without a screen: others choose how large the windows are


@asynccontextmanager
async def listening(
    socket: str, session: str, pane: str, wrote: Callable[[bytes], None]
) -> AsyncIterator["asyncio.Task[None]"]:
    """`wrote` gets what the pane's program writes, and first of all nothing. The task ends when tmux hangs up."""
    process = await asyncio.create_subprocess_exec(
        *("tmux", "-f", os.devnull, "-S", socket, "-C", "attach-session", "-t", session, "-f", _QUIET),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        limit=_LIMIT,
    )
    assert process.stdout is not None, "it was asked for"
    heard = asyncio.ensure_future(_heard(process.stdout, f"%output {pane} ".encode(), wrote))
    try:
        yield heard
    finally:
        heard.cancel()
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def _heard(lines: asyncio.StreamReader, wanted: bytes, wrote: Callable[[bytes], None]) -> None:
    attached = False
    while line := await _line(lines):
        if not attached:
            attached = True
            wrote(b"")
        if line.startswith(wanted):
            data = line[len(wanted) :].rstrip(b"\n")
            wrote(re.sub(rb"\\([0-7]{3})", lambda found: bytes((int(found[1], 8),)), data))


async def _line(lines: asyncio.StreamReader) -> bytes:
    """The next one; of one that is too long, nothing but that it was."""
    try:
        return await lines.readline()
    except ValueError:
        return b"\n"
