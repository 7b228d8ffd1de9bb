"""Homes full of runs, created once through the store and kept in the bench's folder.

Only the sync is left out: sequence numbers, chain and snapshots come from the real code.
"""

import asyncio
import os
import shutil
import time
from collections.abc import Iterator
from typing import NamedTuple

from bench.places import bench_folder
from bench.progress import say
from bench.workload import Group, Size, story
from holdfast.core.events import Draft
from holdfast.core.events.session import RunCreated, SessionEnd, SessionStart
from holdfast.core.fold.fold import FOLD_VERSION
from holdfast.leaf.files.disk import Disk
from holdfast.store.files.layout import LOG, SNAPSHOT, run_folder
from holdfast.store.files.store import FileStore
from holdfast.store.run import OwnedRun, open_run

MADE = "made-4"  # increase the number when the creation changes; old homes are then recreated
RUN = "auth-system-k7m2pq"
TAIL = 1_000  # events after the snapshot
SESSIONS = 20  # how often the run was interrupted and resumed
COMMIT = 16  # events, about; more would be faster, but unlike a real run


class LongRun(NamedTuple):
    """One run, with a snapshot `TAIL` events before the end of its log."""

    home: str
    events: int

    @property
    def log(self) -> str:
        return os.path.join(run_folder(self.home, RUN), LOG)

    @property
    def snapshot(self) -> str:
        return os.path.join(run_folder(self.home, RUN), SNAPSHOT)

    @property
    def kept_snapshot(self) -> str:
        return self.snapshot + ".kept"

    def with_snapshot(self) -> None:
        shutil.copyfile(self.kept_snapshot, self.snapshot)

    def without_snapshot(self) -> None:
        if os.path.exists(self.snapshot):
            os.unlink(self.snapshot)


def long_run(size: Size) -> LongRun:
    home = os.path.join(bench_folder(), f"{MADE}-fold{FOLD_VERSION}-{size.tasks}x{size.events}")
    if not os.path.exists(home) or not asyncio.run(_is_usable(LongRun(home, size.events))):
        shutil.rmtree(home, ignore_errors=True)
        asyncio.run(_make_long_run(f"{home}.part", size))
        os.rename(f"{home}.part", home)
    return LongRun(home, size.events)


async def _is_usable(run: LongRun) -> bool:
    """Whether the current store accepts the stored snapshot."""
    run.with_snapshot()
    return await FileStore(run.home).snapshot(RUN) is not None


def many_runs(count: int) -> str:
    home = os.path.join(bench_folder(), f"{MADE}-fold{FOLD_VERSION}-runs{count}")
    if not os.path.exists(home):
        asyncio.run(_make_many_runs(f"{home}.part", count))
        os.rename(f"{home}.part", home)
    return home


def run_name(number: int) -> str:
    return f"add-feature-{number:04d}-abcdef"


def begin_story(size: Size) -> Iterator[Group]:
    """Yield the events of a run, with `run.created` first."""
    yield [Draft(RunCreated(run_id=RUN, goal="Add OAuth login", workflow="waves", repo="/src/shop", base="main"))]
    yield from story(size)


async def _make_long_run(home: str, size: Size) -> None:
    store = await _empty_store(home)
    await store.create(RUN)
    groups = begin_story(size)
    before_tail = size.events - TAIL
    made, began = 0, time.monotonic()
    for session in range(1, SESSIONS + 1):
        async with open_run(store, RUN, feature="auth-system") as run:
            command = "run" if session == 1 else "resume"
            await run.begin_session(SessionStart(command=command, branch="main", host="vm", pid=4000))
            made += 1
            made += await _write(run, groups, before_tail * session // SESSIONS - made)
            if session == SESSIONS:
                await run.save_snapshot()
                shutil.copyfile(LongRun(home, size.events).snapshot, LongRun(home, size.events).kept_snapshot)
                made += await _write(run, groups, size.events - made)
        if session % 5 == 0:
            say(f"making a run of {size.events:,} events: {made:,} ({time.monotonic() - began:.0f} s)")


async def _write(run: OwnedRun, groups: Iterator[Group], events: int) -> int:
    """Write at least `events` events, up to the end of a group; return how many."""
    made, commit = 0, Group()
    for group in groups:
        commit += group
        if len(commit) >= COMMIT or made + len(commit) >= events:
            await run.append(*commit)
            made, commit = made + len(commit), Group()
        if made >= events:
            break
    return made


async def _make_many_runs(home: str, count: int) -> None:
    store = await _empty_store(home)
    for number in range(count):
        name = run_name(number)
        await store.create(name)
        async with open_run(store, name, feature=name) as run:
            goal = f"Add feature {number} to the shop"
            created = RunCreated(run_id=name, goal=goal, workflow="waves", repo="/src/shop", base="main")
            await run.begin_session(SessionStart(branch="main", host="vm", pid=4000), created)
            for group in story(Size(tasks=2, events=80)):
                await run.append(*group)
            if number % 3:
                await run.append(SessionEnd(reason="completed"))
        if (number + 1) % 250 == 0:
            say(f"making {count:,} runs: {number + 1:,}")


async def _empty_store(home: str) -> FileStore:
    shutil.rmtree(home, ignore_errors=True)
    os.makedirs(home)
    return FileStore(home, disk=Disk(sync=lambda fd: None))
