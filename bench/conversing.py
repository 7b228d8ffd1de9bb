"""Conversations: the cost of a prompt through Holdfast over the bare ACP library, and the memory of an idle runner.

Each side has its own playbook agent, a real process with the same script; the sides take turns. Holdfast writes every
turn to a log and syncs it, before it sends the prompt and before it reports the end. The bare client writes nothing.
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

from bench import chatting, streaming
from bench.figure import Figure, Target, number, spread
from bench.places import ROOT, scratch
from bench.session import AGENT, command, open_session

PROMPT = "What is there to do?"
SCRIPT: dict[str, Any] = {
    "otherwise": [
        {"think": {"text": "I look at what there is, and then I say what I think of it. " * 4, "chunk": 16}},
        {"tool": {"id": "look", "title": "Look around", "kind": "read"}},
        {"tool_done": {"id": "look", "output": {"found": 41}}},
        {"say": {"text": "There are forty-one files, and none of them needs a change today. " * 8, "chunk": 16}},
    ]
}
MAX_OWN_MB = 35.0

Ask = Callable[[], Awaitable[None]]


def measure(*, quick: bool) -> list[Figure]:
    rounds = 10 if quick else 100
    with scratch() as folder:
        script = os.path.join(folder, "agent.yaml")
        with open(script, "w", encoding="utf-8") as file:
            json.dump(SCRIPT, file)
        ours, bare = asyncio.run(_round_trips(folder, script, rounds))
        streamed = streaming.measure(folder, quick=quick)
        chat = chatting.measure(os.path.join(folder, "chat"), quick=quick)
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
            what="an idle runner with one conversation, without its agent",
            against="its own memory (`Pss`)",
            spread=spread([size / 1e6 for _, size in resident]),
            unit="MB",
            target=Target("≤", MAX_OWN_MB),
            note=f"{number(spread([size / 1e6 for size, _ in resident]).median)} MB resident (`Rss`)",
        ),
        *streamed,
        chat,
    ]


async def _round_trips(folder: str, script: str, rounds: int) -> tuple[list[float], list[float]]:
    ours: list[float] = []
    bare: list[float] = []
    async with _through_holdfast(folder, script) as ask_holdfast, _through_the_library(folder, script) as ask_library:
        for ask in (ask_holdfast, ask_library):  # warm-up
            await ask()
        for _ in range(rounds):
            ours.append(await _timed(ask_holdfast))
            bare.append(await _timed(ask_library))
    return ours, bare


async def _timed(ask: Ask) -> float:
    began = time.perf_counter()
    await ask()
    return time.perf_counter() - began


@asynccontextmanager
async def _through_holdfast(folder: str, script: str) -> AsyncIterator[Ask]:
    async with open_session(os.path.join(folder, "home"), script) as (conversations, cwd):
        conversation_id = await conversations.open(AGENT)

        async def ask() -> None:
            turn = await conversations.send_prompt(conversation_id, PROMPT, cwd)
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
    """Discards what the agent sends."""

    async def session_update(self, **_: Any) -> None:
        pass


def _resident(home: str, script: str) -> tuple[int, int]:
    """Return the resident memory of an idle runner, and its own share, in bytes."""
    with subprocess.Popen(
        [sys.executable, "-m", "bench.session", home, script],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as runner:
        assert runner.stdout is not None
        assert runner.stdout.readline() == b"idle\n"
        with open(f"/proc/{runner.pid}/smaps_rollup", encoding="ascii") as file:
            sizes = {line.split()[0]: int(line.split()[1]) * 1024 for line in file if line.endswith("kB\n")}
        runner.communicate()
    return sizes["Rss:"], sizes["Pss:"]
