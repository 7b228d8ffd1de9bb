"""The agent's process: stdin and stdout belong to the protocol, stderr to people."""

import asyncio
import logging
import os
import select
import sys
import time
from threading import Thread
from typing import TextIO, cast

from acp import Agent, run_agent

from holdfast.agents.builtin.acp_server import BuiltinAgent, Settings
from holdfast.agents.builtin.secrets import RedactingFormatter
from holdfast.leaf.errors import BadInput

_GRACE = 5.0  # seconds for leaving in good order


def serve(settings: Settings) -> None:
    """Until the client closes our stdin."""
    _must_lead_to_a_client("stdin", sys.stdin)
    _must_lead_to_a_client("stdout", sys.stdout)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(RedactingFormatter(settings.secrets))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    Thread(target=leave_after_the_client, args=(sys.stdin.fileno(), _GRACE), daemon=True).start()
    asyncio.run(_serve(settings))


def leave_after_the_client(stdin: int, grace: float) -> None:
    """Whatever holds us up: nobody takes what we do any more, and what has to survive is on the disk already."""
    poll = select.poll()
    poll.register(stdin, 0)  # that its other end is gone is told unasked
    poll.poll()
    time.sleep(grace)
    os._exit(0)


async def _serve(settings: Settings) -> None:
    agent = BuiltinAgent(settings)
    try:
        await run_agent(cast("Agent", agent), use_unstable_protocol=True)
    finally:
        await agent.close()


def _must_lead_to_a_client(name: str, stream: TextIO | None) -> None:
    """What the kernel cannot wait for, as a file, asyncio complains of to nobody, and then it waits for ever."""
    wanted = "this agent speaks ACP on pipes to a client, which starts it"
    if stream is None:
        raise BadInput(f"{name} is closed; {wanted}")
    with select.epoll() as waiting:
        try:
            waiting.register(stream.fileno(), 0)
        except PermissionError:
            raise BadInput(f"{name} is a file or a device with nobody behind it; {wanted}") from None
