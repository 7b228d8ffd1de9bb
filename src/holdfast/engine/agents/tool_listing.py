"""Waits until an agent has Holdfast's tools.

Many agents start their MCP servers in the background, and a turn lacks the tools of servers that are not ready. An
agent that is prompted too early cannot report, whatever it did. So its first prompt waits for the list.
"""

import asyncio
import os
from collections.abc import Awaitable

from holdfast.engine.agents.listing_file import is_listed
from holdfast.leaf.files.watch import Watcher


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
