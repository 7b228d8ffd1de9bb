"""The agent's process: stdin and stdout belong to the protocol, stderr to people."""

import asyncio
import logging
import sys
from typing import cast

from acp import Agent, run_agent

from holdfast.agents.builtin.face import BuiltinAgent, Settings
from holdfast.agents.builtin.secrecy import RedactingFormatter


def serve(settings: Settings) -> None:
    """Until the client closes our stdin."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(RedactingFormatter(settings.secrets))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    asyncio.run(_serve(settings))


async def _serve(settings: Settings) -> None:
    agent = BuiltinAgent(settings)
    try:
        await run_agent(cast("Agent", agent), use_unstable_protocol=True)
    finally:
        await agent.close()
