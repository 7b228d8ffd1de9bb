"""Measurements in a new process: `python -m bench.probe NAME HOME RUN [COUNT]` prints one JSON object.

Time and memory are measured from after the imports.
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from holdfast.store.files.layout import LOG, run_folder
from holdfast.store.files.store import FileStore
from holdfast.store.run import open_run


def open_often(home: str, run_id: str, count: int) -> dict[str, Any]:
    """Open and close a run `count` times: lock, repair, snapshot, tail."""

    async def open_once() -> tuple[float, int]:
        store = FileStore(home)
        began = time.perf_counter()
        async with open_run(store, run_id) as run:
            took = time.perf_counter() - began
            return took, run.state.events

    async def open_all() -> list[tuple[float, int]]:
        return [await open_once() for _ in range(count)]

    before = _memory("VmRSS")
    times = asyncio.run(open_all())
    return {"seconds": [took for took, _ in times], "events": times[-1][1], "grown": _memory("VmHWM") - before}


def seeds_way(home: str, run_id: str, count: int) -> dict[str, Any]:
    """Open it as the Resume Protocol does: parse all lines, find the newest session, filter by its id."""
    before = _memory("VmRSS")
    began = time.perf_counter()
    events = []
    with open(os.path.join(run_folder(home, run_id), LOG), encoding="utf-8") as file:
        for line in file:
            trimmed = line.strip()
            if trimmed:
                events.append(json.loads(trimmed))
    newest = events[-1]["sid"]
    session = [event for event in events if event["sid"] == newest]
    took = time.perf_counter() - began
    return {
        "seconds": [took],
        "events": len(events),
        "session": len(session),
        "grown": _memory("VmHWM") - before,
    }


def follow(home: str, run_id: str, count: int) -> dict[str, Any]:
    """Print each new event of a log, and record when it was printed."""

    async def watch() -> list[int]:
        printed: list[int] = []
        async for batch in FileStore(home).log(run_id).follow():
            for line in batch.data.splitlines():
                print(json.loads(line)["seq"], flush=True)
                printed.append(time.perf_counter_ns())
            if len(printed) >= count:
                break
        return printed

    return {"printed": asyncio.run(watch())}


def _memory(field: str) -> int:
    """Return a memory field of this process, in bytes. VmHWM is its peak, without that of its parent."""
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(f"{field}:"))


PROBES: dict[str, Callable[[str, str, int], dict[str, Any]]] = {
    "open": open_often,
    "seed": seeds_way,
    "follow": follow,
}

if __name__ == "__main__":
    name, home_, run_, count_ = sys.argv[1:]
    print(json.dumps(PROBES[name](home_, run_, int(count_))))
