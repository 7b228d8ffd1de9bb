"""A rewind of a long run: how much of its log it reads, to the newest turn, back by `--undo`, and to the start.

As a program, it rewinds a run and prints what that took: python -m bench.rewinding HOME RUN POINT|undo
"""

import asyncio
import json
import os
import subprocess
import sys
import time
from typing import Any

from bench.figure import Figure, Target, number, spread
from bench.places import ROOT, scratch
from bench.working import instant_script, new_repository
from holdfast.core.events.conversation import MessageRecorded, TurnEnded, TurnStarted
from holdfast.core.events.session import SessionEnd, SessionStart
from holdfast.engine.commands.rewind import RewindRequest, prepare_rewind, rewind_run
from holdfast.engine.home import Home
from holdfast.leaf.files.disk import Disk
from holdfast.store.files.layout import LOG, run_folder
from holdfast.store.files.store import FileStore
from holdfast.store.run import open_run

_COUNTER = "/proc/self/io"
_COMMIT = 20  # events
_TEXT = "The failing test expects the refresh token to be rotated on every use, but the handler returns the old one. "
_UNDO = "undo"
_POINTS = ("-1", _UNDO, "start", _UNDO)


def measure(*, quick: bool) -> list[Figure]:
    events = 10_000 if quick else 100_000
    with scratch() as folder:
        home, run_id = os.path.join(folder, "home"), _long_run(folder, events)
        log = os.path.join(run_folder(home, run_id), LOG)
        if not os.path.exists(_COUNTER):
            return [_figure(events, None, note=f"no {_COUNTER} here")]
        read, seconds = [], []
        for _ in range(1 if quick else 5):
            for point in _POINTS:
                size, found = os.path.getsize(log), _rewound(home, run_id, point)
                read.append(found["read"] / size)
                seconds.append(found["seconds"])
        took = f"{number(spread(seconds).median)} s; a log of {os.path.getsize(log) / 1e6:.0f} MB; with what git reads"
        return [_figure(events, read, target=not quick, note=took)]


def _figure(events: int, read: list[float] | None, *, target: bool = True, note: str) -> Figure:
    return Figure(
        name="rewind",
        what=f"what a rewind of a run of {events:,} events reads: a turn back, to the start, and `--undo`",
        against="the length of its log",
        spread=spread(read) if read is not None else None,
        target=Target("≤", 1.5) if target else None,
        note=note,
    )


def _long_run(folder: str, events: int) -> str:
    """Make a chat of two turns, with so many events between them; return its id."""
    home, repo, script = os.path.join(folder, "home"), new_repository(folder, "rewind"), instant_script(folder)
    begin = ("run", "Add a file", "--workflow", "chat", "--agent", f"playbook:{script}", "--set", "chat.idle=0")
    _holdfast(home, repo, *begin, "--quiet")
    (run_id,) = os.listdir(os.path.join(home, "runs"))
    asyncio.run(_lengthen(home, run_id, events))
    _holdfast(home, repo, "send", run_id, "Once more")
    _holdfast(home, repo, "wait", run_id)
    return run_id


async def _lengthen(home: str, run_id: str, events: int) -> None:
    store = FileStore(home, disk=Disk(sync=lambda fd: None))
    async with open_run(store, run_id) as run:
        await run.begin_session(SessionStart(command="resume", pid=os.getpid()))
        (conversation,) = run.state.conversations
        turn = "long"
        message = MessageRecorded(conversation=conversation, speaker="agent", turn=turn, text=_TEXT)
        await run.append(TurnStarted(conversation=conversation, turn=turn))
        for _ in range(events // _COMMIT):
            await run.append(*[message] * _COMMIT)
        await run.append(TurnEnded(conversation=conversation, turn=turn, stop_reason="end_turn"))
        await run.append(SessionEnd(reason="idle"))


def _holdfast(home: str, repo: str, *arguments: str) -> None:
    environment = {**os.environ, "HOLDFAST_HOME": home, "XDG_CONFIG_HOME": home}
    program = [sys.executable, "-m", "holdfast", *arguments]
    subprocess.run(program, cwd=repo, check=True, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _rewound(home: str, run_id: str, point: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "bench.rewinding", home, run_id, point]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _rewind(home_: str, run_id: str, point: str) -> dict[str, Any]:
    """As the command does it, with what it shows before it asks."""

    async def rewind() -> None:
        home, request = Home(home_), RewindRequest(undo=True) if point == _UNDO else RewindRequest(point)
        await rewind_run(home, run_id, request, await prepare_rewind(home, run_id, request))

    before, began = _bytes_read(), time.perf_counter()
    asyncio.run(rewind())
    return {"seconds": time.perf_counter() - began, "read": _bytes_read() - before}


def _bytes_read() -> int:
    """What this process read, also from the page cache; with the processes of git that it waited for."""
    with open(_COUNTER, encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("rchar:"))


if __name__ == "__main__":
    print(json.dumps(_rewind(*sys.argv[1:])))
