"""The agent's process: stdin and stdout are for the protocol, stderr is for people."""

import asyncio
import logging
import os
import select
import sys
import time
from threading import Thread
from typing import TextIO, cast

from acp import Agent, run_agent

from holdfast.agents.builtin.acp_server import BuiltinAgent, BuiltinSettings
from holdfast.agents.builtin.secrets import RedactingFormatter
from holdfast.leaf.errors import BadInput

_EXIT_WAIT_S = 5.0  # for an orderly exit


def serve(settings: BuiltinSettings) -> None:
    """Serve until the client closes our stdin."""
    _check_stream("stdin", sys.stdin)
    _check_stream("stdout", sys.stdout)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(RedactingFormatter(settings.secrets))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    Thread(target=exit_with_client, args=(sys.stdin.fileno(), _EXIT_WAIT_S), daemon=True).start()
    asyncio.run(_serve(settings))


def exit_with_client(stdin: int, wait_s: float) -> None:
    """Exit when the client disconnects, whatever is in progress: everything that must survive is on the disk."""
    poll = select.poll()
    poll.register(stdin, 0)  # the kernel always reports a closed other end
    poll.poll()
    time.sleep(wait_s)
    os._exit(0)


async def _serve(settings: BuiltinSettings) -> None:
    agent = BuiltinAgent(settings)
    try:
        await run_agent(cast("Agent", agent), use_unstable_protocol=True)
    finally:
        await agent.close()


def _check_stream(name: str, stream: TextIO | None) -> None:
    """Refuse a stream that the kernel cannot poll, such as a file: asyncio would hang without an error."""
    advice = "this agent speaks ACP on pipes to a client, which starts it"
    if stream is None:
        raise BadInput(f"{name} is closed; {advice}")
    with select.epoll() as waiting:
        try:
            waiting.register(stream.fileno(), 0)
        except PermissionError:
            raise BadInput(f"{name} is a file or a device, not a pipe; {advice}") from None
