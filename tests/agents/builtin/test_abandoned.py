"""An agent whose client died is gone soon, whatever it was at: nobody takes what it does, or stops what it costs."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from acp.schema import McpServerStdio

from holdfast.leaf.process.identity import identify
from tests.agents.builtin.driving import Bench, Driven
from tests.support.model_server.script import Answer, ToolUse, in_turn
from tests.support.model_server.server import ModelServer
from tests.support.wait import PATIENCE, until

DEAF = "echo $$ > server; trap '' TERM HUP; while :; do sleep 1000; done"  # and never says a word


def is_gone(agent: Driven) -> Callable[[], bool]:
    return lambda: identify(agent.pid) is None


async def test_while_an_mcp_server_does_not_come_up(bench: Bench, model: ModelServer) -> None:
    server = McpServerStdio(name="deaf", command="sh", args=["-c", DEAF], env=[])
    async with bench.agent(model) as agent:
        starting = asyncio.ensure_future(agent.start([server]))
        told = Path(bench.cwd, "server")
        await until(lambda: told.exists() and told.read_text().endswith("\n"))
        agent.hang_up()
        try:
            await until(is_gone(agent))
        finally:
            with suppress(ProcessLookupError):
                os.kill(int(told.read_text()), signal.SIGKILL)
            await asyncio.wait({starting})
    assert isinstance(starting.exception(), ConnectionError)


@pytest.mark.parametrize("command", ["sleep 1000", "trap '' TERM HUP; while :; do sleep 1000; done"])
async def test_while_a_command_runs(bench: Bench, model: ModelServer, command: str) -> None:
    model.play(in_turn(Answer(tools=[ToolUse("bash", {"command": f"touch begun; {command}"})])))
    async with bench.agent(model, "openai", "--mode", "code") as agent:
        saying = asyncio.ensure_future(agent.say(await agent.start(), "run it"))
        await until(Path(bench.cwd, "begun").exists)
        agent.hang_up()
        await until(is_gone(agent))
        await asyncio.wait({saying})
    assert isinstance(saying.exception(), ConnectionError)


def test_whatever_holds_it_up() -> None:
    waiting = "from holdfast.agents.builtin.serve import exit_with_client; exit_with_client(0, 0)"
    with subprocess.Popen([sys.executable, "-c", waiting], stdin=subprocess.PIPE) as held_up:
        with pytest.raises(subprocess.TimeoutExpired):
            held_up.wait(0.2)
        assert held_up.stdin is not None
        held_up.stdin.close()
        assert held_up.wait(PATIENCE) == 0
