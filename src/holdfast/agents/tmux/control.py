"""Being told by tmux what happens in a pane, by its control mode: nobody looks again and again."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from holdfast.agents.tmux.server import SESSION

_LIMIT = 4 * 1024 * 1024  # bytes of a line; a longer one is passed over
_QUIET = "ignore-size"  # as for a client without a screen: others choose how large the windows are


@asynccontextmanager
async def listening(socket: str, pane: str, changed: Callable[[], None]) -> AsyncIterator["asyncio.Task[None]"]:
    """`changed` is called when the pane's program writes. The task ends when tmux hangs up."""
    process = await asyncio.create_subprocess_exec(
        *("tmux", "-S", socket, "-C", "attach-session", "-t", SESSION, "-f", _QUIET),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        limit=_LIMIT,
    )
    assert process.stdout is not None, "it was asked for"
    heard = asyncio.ensure_future(_heard(process.stdout, f"%output {pane} ".encode(), changed))
    try:
        yield heard
    finally:
        heard.cancel()
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def _heard(lines: asyncio.StreamReader, wanted: bytes, changed: Callable[[], None]) -> None:
    while True:
        try:
            line = await lines.readline()
        except ValueError:  # too long, and dropped; it was output all the same
            changed()
            continue
        if not line:
            return
        if line.startswith(wanted):
            changed()
