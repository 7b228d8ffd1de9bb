"""Fills a disk that is really small, and goes on when there is room again. Run as a program, in a process of its own.

python -m tests.support.full_disk FOLDER         FOLDER is a file system of a few hundred KiB
python -m tests.support.full_disk FOLDER LIMIT   no file may grow past LIMIT bytes
"""

import asyncio
import os
import resource
import sys
from collections.abc import Awaitable, Callable

import msgspec

from holdfast.core.events.session import SessionStart
from holdfast.leaf.errors import StorageFailed
from holdfast.store.base import Message
from holdfast.store.files.store import FileStore
from holdfast.store.run import open_run
from tests.support.events import START, Label, labels_in, numbered
from tests.support.logs import assert_whole, folded, is_prefix, whole
from tests.support.run_files import RUN, content, log_file

FRESH = "fresh-aaaaaa"
LATE = "late-aaaaaa"


class SmallFileSystem:
    """Room is made by deleting a file that was there before."""

    def __init__(self, folder: str) -> None:
        self._filler = os.path.join(folder, "filler")
        with open(self._filler, "wb") as file:
            file.write(b"x" * 64 * 1024)

    def fill_up(self) -> None:
        """Take the last free bytes, which an event of some length could not use."""
        with open(f"{self._filler}.rest", "wb", buffering=0) as file:
            for size in (4096, 1):
                try:
                    while True:
                        file.write(b"x" * size)
                except OSError:
                    pass

    def make_room(self) -> None:
        for path in (self._filler, f"{self._filler}.rest"):
            os.unlink(path)


class FileSizeLimit:
    """Room is made by lifting the limit."""

    def __init__(self, limit: int) -> None:
        self._hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, self._hard))

    def fill_up(self) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, self._hard))

    def make_room(self) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (self._hard, self._hard))


async def main(folder: str, disk: SmallFileSystem | FileSizeLimit) -> None:
    home = os.path.join(folder, "home")
    store = FileStore(home)
    await store.create(RUN)
    await store.create(FRESH)
    acknowledged = await append_until_full(store)
    disk.fill_up()
    before = content(log_file(home))
    await refused_or_done(lambda: put(store, "m1"))
    await refused_or_done(lambda: store.create(LATE))
    await refused_or_done(lambda: begin(store, RUN))
    await refused_or_done(lambda: begin(store, FRESH))
    assert is_prefix(acknowledged, labels_in(await whole(store, RUN)))
    assert content(log_file(home))[: len(before) - 4096] == before[: len(before) - 4096]
    disk.make_room()
    await goes_on(store, acknowledged)
    await begin(store, FRESH)
    if LATE not in await store.run_ids():
        await store.create(LATE)
    await begin(store, LATE)


async def append_until_full(store: FileStore) -> list[Label]:
    acknowledged: list[Label] = []
    async with open_run(store, RUN) as run:
        await run.begin_session(START)
        await put(store, "m0")
        try:
            while True:
                label = ("a", len(acknowledged))
                await run.append(numbered(*label, 1777))
                acknowledged.append(label)
        except StorageFailed:
            pass
        assert len(acknowledged) > 20
        await must_refuse(lambda: run.append(numbered("late", 0)))
        assert run.state == folded((await whole(store, RUN))[: run.head.position])
    return acknowledged


async def goes_on(store: FileStore, acknowledged: list[Label]) -> None:
    await put(store, "m2")
    async with open_run(store, RUN) as run:
        await run.begin_session(SessionStart(command="resume"), numbered("b", 0))
        taken = [message.id for message in await run.consume_inbox()]
        assert taken in (["m0", "m1", "m2"], ["m0", "m2"]), taken
        data = await whole(store, RUN)
        assert run.state == folded(data)
        assert run.state.malformed == []
    assert_whole(data)
    labels = [label for label in labels_in(data) if label[0] == "a"]
    assert is_prefix(acknowledged, labels)
    assert len(labels) <= len(acknowledged) + 1


async def must_refuse(act: Callable[[], Awaitable[object]]) -> None:
    try:
        await act()
    except StorageFailed:
        return
    raise AssertionError("was done on a full disk")


async def refused_or_done(act: Callable[[], Awaitable[object]]) -> None:
    """A full disk may have room for a little; but no other error than its own comes out."""
    try:
        await act()
    except StorageFailed as refusal:
        sys.stderr.write(f"refused: {refusal}\n")


async def put(store: FileStore, name: str) -> None:
    await store.inbox(RUN).put(Message(id=name, kind="say", body=msgspec.Raw(b'"' + b"x" * 500 + b'"')))


async def begin(store: FileStore, run_id: str) -> None:
    async with open_run(store, run_id) as run:
        await run.begin_session(SessionStart(command="resume"), numbered("begun", 0, 5000))


if __name__ == "__main__":
    place = sys.argv[1]
    asyncio.run(main(place, FileSizeLimit(int(sys.argv[2])) if sys.argv[2:] else SmallFileSystem(place)))
