"""Live text: what ten listeners cost the runner, and how soon a terminal shows what an agent says.

As a program, it listens to a run: `python -m bench.streaming FOLDER`. For each line on its stdin it connects or
disconnects ten listeners, which read all that they are sent.
"""

import asyncio
import json
import os
import pty
import selectors
import socket
import sys
import time
from typing import Any, NamedTuple

from bench.figure import Figure, Target, number, spread
from bench.places import ROOT
from bench.session import AGENT, RUN, open_session
from holdfast.engine.live_socket import connect
from holdfast.store.files.layout import run_folder

LISTENERS = 10
TALK: dict[str, Any] = {"otherwise": [{"say": {"text": "four words and more " * 100, "chunk": 5}}]}


def measure(folder: str, *, quick: bool) -> list[Figure]:
    rounds = asyncio.run(throughput(os.path.join(folder, "listened"), 10 if quick else 100, "bench.streaming"))
    delays = asyncio.run(_delays(os.path.join(folder, "shown"), 5 if quick else 50))
    return [
        Figure(
            name="listeners",
            what=f"a runner's turns per second of its CPU time, with {LISTENERS} listeners to its live text",
            against="without listeners",
            spread=spread([alone.cpu / heard.cpu for heard, alone in rounds]),
            target=Target("≥", 0.95),
            note=f"a turn of 400 updates: {number(spread([alone.cpu for _, alone in rounds]).median * 1e3)} ms of CPU; "
            f"turns per second of the clock: {number(spread([a.clock / h.clock for h, a in rounds]).median)} ×",
        ),
        Figure(
            name="streamed",
            what="a terminal shows what an agent says",
            against="after the agent was allowed to speak",
            spread=spread([delay * 1e3 for delay in delays]),
            unit="ms",
            target=Target("≤", 100),
            note=f"the slowest of {len(delays)}: {number(max(delays) * 1e3)} ms",
        ),
    ]


class Turn(NamedTuple):
    """Seconds."""

    cpu: float
    clock: float


async def throughput(home: str, rounds: int, listener: str) -> list[tuple[Turn, Turn]]:
    """Return a turn with listeners and one without for each round. `listener` is their program, a module."""
    found: list[tuple[Turn, Turn]] = []
    async with open_session(home, _script(home, TALK)) as (conversations, cwd):
        conversation_id = await conversations.open(AGENT)

        async def turn() -> Turn:
            cpu, clock = time.process_time(), time.perf_counter()
            assert (await conversations.send_prompt(conversation_id, "talk", cwd)).reason == "end_turn"
            return Turn(time.process_time() - cpu, time.perf_counter() - clock)

        command = (sys.executable, "-m", listener, run_folder(home, RUN))
        pipe = asyncio.subprocess.PIPE
        listeners = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdin=pipe, stdout=pipe)
        assert listeners.stdin is not None
        assert listeners.stdout is not None
        await turn()  # warm-up
        for round_ in range(rounds):
            times: dict[bool, Turn] = {}
            for is_heard in (True, False) if round_ % 2 else (False, True):
                if is_heard:
                    listeners.stdin.write(b"\n")
                    await listeners.stdout.readline()
                times[is_heard] = await turn()
                if is_heard:
                    listeners.stdin.write(b"\n")
                    await listeners.stdout.readline()
            found.append((times[True], times[False]))
        listeners.stdin.close()
        await listeners.wait()
    return found


async def _delays(home: str, words: int) -> list[float]:
    gate = os.path.join(home, "work", "gate-{{prompt}}")
    steps = [{"wait_for": {"path": gate}}, {"say": "word-{{prompt}} "}, {"wait_for": {"path": f"{gate}-end"}}]
    delays: list[float] = []
    async with open_session(home, _script(home, {"otherwise": steps})) as (conversations, cwd):
        conversation_id = await conversations.open(AGENT)
        ours, theirs = pty.openpty()
        environment = os.environ | {"HOLDFAST_HOME": home, "TERM": "xterm", "NO_COLOR": "1"}
        command = (sys.executable, "-m", "holdfast", "attach", RUN)
        terminal = await asyncio.create_subprocess_exec(
            *command, env=environment, stdin=theirs, stdout=theirs, stderr=theirs
        )
        os.close(theirs)
        await asyncio.to_thread(_read_until, ours, "attached")
        for word in range(words + 1):
            turn = asyncio.create_task(conversations.send_prompt(conversation_id, str(word), cwd))
            seen = asyncio.create_task(asyncio.to_thread(_read_until, ours, f"│ word-{word} "))
            await asyncio.sleep(0.2)  # the agent waits for its file by then
            began = time.perf_counter()
            _create(os.path.join(cwd, f"gate-{word}"))
            delays.append(await seen - began)
            _create(os.path.join(cwd, f"gate-{word}-end"))
            assert (await turn).reason == "end_turn"
        terminal.terminate()
        await terminal.wait()
        os.close(ours)
    return delays[1:]  # the first includes the start of the agent


def _script(home: str, playbook: dict[str, Any]) -> str:
    os.makedirs(home)
    path = os.path.join(home, "agent.yaml")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(playbook, file)
    return path


def _create(path: str) -> None:
    with open(path, "x", encoding="utf-8"):
        pass


def _read_until(fd: int, text: str) -> float:
    """Return when a terminal has shown this text."""
    shown = ""
    while text.strip() not in shown:
        shown = shown[-10_000:] + os.read(fd, 65536).decode(errors="replace")
    return time.perf_counter()


def _listen(folder: str) -> None:
    selector = selectors.DefaultSelector()
    selector.register(sys.stdin, selectors.EVENT_READ)
    connections: list[socket.socket] = []
    while True:
        for key, _ in selector.select():
            if key.fd != sys.stdin.fileno():
                os.read(key.fd, 65536)
            elif sys.stdin.readline():
                connections = _toggle(selector, folder, connections)
                print(flush=True)
                break  # what was selected may be closed
            else:
                return


def _toggle(selector: selectors.BaseSelector, folder: str, connected: list[socket.socket]) -> list[socket.socket]:
    for connection in connected:
        selector.unregister(connection)
        connection.close()
    found = [connect(folder) for _ in range(0 if connected else LISTENERS)]
    opened = [connection for connection in found if connection is not None]
    assert len(opened) == len(found)
    for connection in opened:
        selector.register(connection, selectors.EVENT_READ)
    return opened


if __name__ == "__main__":
    _listen(sys.argv[1])
