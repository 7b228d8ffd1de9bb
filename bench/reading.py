"""Reading, for information: the delay until another process sees an event, and the speed of `holdfast verify`."""

import asyncio
import os
import shutil
import subprocess
import sys
import time

import msgspec

from bench.figure import Figure, Target, number, spread
from bench.fresh import probe_command
from bench.homes import RUN, long_run
from bench.opening import EVENTS, TASKS
from bench.places import ROOT, scratch
from bench.starting import HOLDFAST
from bench.workload import Size
from holdfast.core.events.conversation import MessageRecorded
from holdfast.core.events.session import SessionStart
from holdfast.core.log.codec import parse_lines
from holdfast.store.files.compaction import FileLogCompressor
from holdfast.store.files.layout import LOG
from holdfast.store.files.reading import FileLog
from holdfast.store.files.store import FileStore
from holdfast.store.fold import fold_log
from holdfast.store.run import open_run

PAUSE_S = 0.005  # between two appends, so that the follower sleeps again


class Printed(msgspec.Struct):
    printed: list[int]


def measure(*, quick: bool) -> list[Figure]:
    with scratch() as folder:
        figures = asyncio.run(_follow(folder, events=50 if quick else 300))
        figures += _archived(folder, quick=quick)
    return [*figures, *_verify(quick=quick)]


async def _follow(folder: str, events: int) -> list[Figure]:
    store = FileStore(folder)
    await store.create(RUN)
    called, returned = [], []
    async with open_run(store, RUN, feature="auth-system") as run:
        follower = await asyncio.create_subprocess_exec(
            *probe_command("follow", folder, events), cwd=ROOT, stdout=asyncio.subprocess.PIPE
        )
        assert follower.stdout is not None
        for number_ in range(events):
            event = MessageRecorded(conversation="conv-1", speaker="agent", text="x" * 150)
            called.append(time.perf_counter_ns())
            await (run.append(event) if number_ else run.begin_session(SessionStart()))
            returned.append(time.perf_counter_ns())
            await follower.stdout.readline()  # the follower has printed it
            await asyncio.sleep(PAUSE_S)
        printed = msgspec.json.decode(await follower.stdout.read(), type=Printed).printed
        await follower.wait()
    after_call = [(p - c) / 1e6 for p, c in zip(printed[1:], called[1:], strict=True)]
    after_return = [(p - r) / 1e6 for p, r in zip(printed[1:], returned[1:], strict=True)]
    return [
        Figure(
            name="follow",
            what="an event is printed by a follower in another process",
            against="after `append` was called",
            spread=spread(after_call),
            unit="ms",
            note=f"the slowest of {events:,}: {number(max(after_call))} ms",
        ),
        Figure(
            name="follow-after",
            what="an event is printed by a follower in another process",
            against="after `append` returned",
            spread=spread(after_return),
            unit="ms",
            note="below zero: seen before the writer's sync was done" if min(after_return) < 0 else "",
        ),
    ]


def _archived(folder: str, *, quick: bool) -> list[Figure]:
    """Both logs are in the page cache, and are folded in turn by this process."""
    long = long_run(Size(TASKS // 10, EVENTS // (100 if quick else 10)))
    plain, archived = (os.path.join(folder, name, LOG) for name in ("plain", "archived"))
    for path in (plain, archived):
        os.makedirs(os.path.dirname(path))
        shutil.copyfile(long.log, path)
    compressor = FileLogCompressor(archived)
    compressor.compress(0, lambda lines: lines)
    ratios = {"fold": list[float](), "read": list[float]()}
    for _ in range(3 if quick else 9):
        for name, measure_ in (("fold", _fold), ("read", _read)):
            took = [measure_(path) for path in (plain, archived)]
            ratios[name].append(took[1] / took[0])
    size = f"{os.path.getsize(plain) / compressor.size():.1f} times smaller than the plain log"
    return [
        Figure(
            name="archived",
            what=f"fold the compressed log of an archived run, {long.events:,} events",
            against="the plain log",
            spread=spread(ratios["fold"]),
            target=None if quick else Target("≤", 2),
            note=size,
        ),
        Figure(
            name="archived-logs",
            what="parse every line of it, as `holdfast logs` does",
            against="the plain log",
            spread=spread(ratios["read"]),
            target=None if quick else Target("≤", 2),
        ),
    ]


def _fold(path: str) -> float:
    began = time.perf_counter()
    asyncio.run(fold_log(FileLog(path)))
    return time.perf_counter() - began


def _read(path: str) -> float:
    async def read() -> None:
        async for batch in FileLog(path).read():
            parse_lines(batch.data)

    began = time.perf_counter()
    asyncio.run(read())
    return time.perf_counter() - began


def _verify(*, quick: bool) -> list[Figure]:
    probe = subprocess.run([HOLDFAST, "verify", "--help"], capture_output=True, check=False)
    if probe.returncode != 0:
        return []
    long = long_run(Size(TASKS // 10, EVENTS // 10) if quick else Size(TASKS, EVENTS))
    environment = os.environ | {"HOLDFAST_HOME": long.home}
    began = time.perf_counter()
    subprocess.run([HOLDFAST, "verify", RUN], env=environment, stdout=sys.stderr, check=True)
    rate = long.events / (time.perf_counter() - began)
    return [
        Figure(
            name="verify",
            what="`holdfast verify`, the whole command",
            against=f"a run of {long.events:,} events",
            spread=spread([rate]),
            unit="events/s",
            note="once",
        )
    ]
