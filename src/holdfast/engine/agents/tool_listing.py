"""Detects whether an agent has Holdfast's tools: our MCP server records in a file that it listed them.

Many agents start their MCP servers in the background, and a turn lacks the tools of servers that are not ready. An
agent that is prompted too early cannot report, whatever it did. So its first prompt waits for the list.
"""

import asyncio
import os
from collections.abc import Awaitable
from contextlib import suppress

from holdfast.core.messages.reports import TOOLS_LISTED
from holdfast.leaf.files.watch import Watcher

_HEAD_BYTES = 4_096  # the list is requested before any report is made


def announce_tools(path: str) -> None:
    """Record the listing, for the server. If that fails, the first prompt waits for the timeout instead."""
    with suppress(OSError):
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.write(file, TOOLS_LISTED + b"\n")
        finally:
            os.close(file)


def forget_listed(path: str) -> None:
    """Call this before another agent is started."""
    with suppress(OSError):
        os.unlink(path)


def is_listed(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return TOOLS_LISTED in file.read(_HEAD_BYTES).split(b"\n")
    except OSError:
        return False


async def wait_until_listed(path: str, seconds: float, death: Awaitable[object]) -> bool:
    """Return False after the timeout, or if the agent dies first."""
    agent_death = asyncio.ensure_future(death)
    try:
        async with asyncio.timeout(seconds), Watcher().changes(os.path.dirname(path)) as changed:
            agent_death.add_done_callback(lambda _: changed.set())
            while not is_listed(path) and not agent_death.done():
                await changed.wait()
                changed.clear()
    except TimeoutError:
        return False
    finally:
        agent_death.cancel()
    return is_listed(path)
