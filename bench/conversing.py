"""Conversing: what a prompt costs through Holdfast beyond the protocol's library, and what a runner at rest takes.

Both sides speak to a playbook agent of their own, a real process with the same script, and take turns. Ours writes
every turn to a log and syncs it, before the prompt is sent and before its end is told; the bare client writes nothing.
"""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from acp import PROTOCOL_VERSION, spawn_agent_process, text_block

from bench.figure import Figure, Target, number, spread
from bench.places import ROOT, scratch
from bench.sitting import AGENT, command, seated

PROMPT = "What is there to do?"
SCRIPT: dict[str, Any] = {
    "otherwise": [
        {"think": {"text": "I look at what there is, and then I say what I think of it. " * 4, "chunk": 16}},
        {"tool": {"id": "look", "title": "Look around", "kind": "read"}},
        {"tool_done": {"id": "look", "output": {"found": 41}}},
        {"say": {"text": "There are forty-one files, and none of them needs a change today. " * 8, "chunk": 16}},
    ]
}
LARGEST = 60.0  # MB

Ask = Callable[[], Awaitable[None]]


def measure(*, quick: bool) -> list[Figure]:
    rounds = 10 if quick else 100
    with scratch() as folder:
        script = os.path.join(folder, "agent.yaml")
        with open(script, "w", encoding="utf-8") as file:
            json.dump(SCRIPT, file)
        ours, bare = asyncio.run(_round_trips(folder, script, rounds))
        resident = [_resident(os.path.join(folder, f"rest-{n}"), script) for n in range(1 if quick else 3)]
    return [
        Figure(
            name="prompt",
            what="a prompt and its answer, of 50 updates, written to the log",
            against="a bare client of the protocol's library, which writes nothing",
            spread=spread([o / b for o, b in zip(ours, bare, strict=True)]),
            target=Target("≤", 1.3),
            note=f"{number(spread(ours).median * 1e3)} ms against {number(spread(bare).median * 1e3)} ms",
        ),
        Figure(
            name="resident",
            what="a runner with one conversation at rest, its agent not counted",
            against="its resident memory",
            spread=spread([size / 1e6 for size, _ in resident]),
            unit="MB",
            target=Target("≤", LARGEST),
            note=f"{number(spread([size / 1e6 for _, size in resident]).median)} MB of it its own (`Pss`)",
        ),
    ]


async def _round_trips(folder: str, script: str, rounds: int) -> tuple[list[float], list[float]]:
    ours: list[float] = []
    bare: list[float] = []
    async with _through_holdfast(folder, script) as asked, _through_the_library(folder, script) as answered:
        for ask in (asked, answered):  # the first turn of each warms it
            await ask()
        for _ in range(rounds):
            ours.append(await _timed(asked))
            bare.append(await _timed(answered))
    return ours, bare


async def _timed(ask: Ask) -> float:
    began = time.perf_counter()
    await ask()
    return time.perf_counter() - began


@asynccontextmanager
async def _through_holdfast(folder: str, script: str) -> AsyncIterator[Ask]:
    async with seated(os.path.join(folder, "home"), script) as (talks, cwd):
        name = await talks.open(AGENT)

        async def ask() -> None:
            turn = await talks.say(name, PROMPT, cwd)
            assert turn.reason == "end_turn", turn

        yield ask


@asynccontextmanager
async def _through_the_library(folder: str, script: str) -> AsyncIterator[Ask]:
    environment = {**os.environ, "HOLDFAST_PLAYBOOK_STATE": os.path.join(folder, "memory")}
    program, *arguments = command(script)
    client: Any = Listener()
    async with spawn_agent_process(client, program, *arguments, env=environment, cwd=folder) as (connection, _):
        await connection.initialize(PROTOCOL_VERSION)
        session = await connection.new_session(folder, mcp_servers=[])

        async def ask() -> None:
            answer = await connection.prompt(session.session_id, [text_block(PROMPT)])
            assert answer.stop_reason == "end_turn", answer

        yield ask


class Listener:
    """Takes what the agent tells, and does nothing with it."""

    async def session_update(self, **_: Any) -> None:
        pass


def _resident(home: str, script: str) -> tuple[int, int]:
    """Bytes that a runner has in memory, and those that are its own, once its agent waits for a word."""
    with subprocess.Popen(
        [sys.executable, "-m", "bench.sitting", home, script],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as runner:
        assert runner.stdout is not None
        assert runner.stdout.readline() == b"at rest\n"
        with open(f"/proc/{runner.pid}/smaps_rollup", encoding="ascii") as file:
            sizes = {line.split()[0]: int(line.split()[1]) * 1024 for line in file if line.endswith("kB\n")}
        runner.communicate()
    return sizes["Rss:"], sizes["Pss:"]
