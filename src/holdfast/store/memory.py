"""The memory backend: the contract of `base` without a disk, for tests of what is built on it."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import msgspec

from holdfast.core.events import Draft, Event
from holdfast.core.events.log import LogRepaired
from holdfast.core.redaction.redaction import Redactor
from holdfast.leaf.clock import Clock, now
from holdfast.leaf.errors import BadInput, Fenced, NoSuchRun, Owned, RunExists, StorageFailed
from holdfast.leaf.process.identity import myself
from holdfast.store import snapshot
from holdfast.store.base import SNAPSHOT_EVERY, START, Batch, Desk, Head, Holder, Message, Position, Received, Snapshot
from holdfast.store.sequencer import RESERVE, Stamp, check_raw, check_readable, mismatch


class _Run:
    def __init__(self) -> None:
        self.log = bytearray()
        self.messages: list[Message] = []
        self.snapshot: bytes | None = None
        self.epoch = 0
        self.holder: Holder | None = None
        self.changed = asyncio.Event()

    def wake(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()


class MemoryStore:
    def __init__(self, *, clock: Clock = now) -> None:
        self._clock = clock
        self._runs: dict[str, _Run] = {}

    async def create(self, run_id: str) -> None:
        if run_id in self._runs:
            raise RunExists(f"run {run_id} is there already; choose another name, or resume it")
        self._runs[run_id] = _Run()

    async def runs(self) -> Sequence[str]:
        return sorted(self._runs)

    async def discard(self, run_id: str) -> None:
        async with self.own(run_id):
            del self._runs[run_id]

    @asynccontextmanager
    async def own(self, run_id: str) -> AsyncIterator["MemoryLease"]:
        run = self._found(run_id)
        if run.holder is not None:
            raise Owned(f"run {run_id} is owned by pid {run.holder.pid} since {run.holder.since}")
        run.epoch += 1
        run.holder = Holder(epoch=run.epoch, **myself()._asdict(), host="memory", since=self._clock())
        lease = MemoryLease(run, run.epoch)
        try:
            yield lease
        finally:
            if run.epoch == lease.epoch:
                run.holder = None

    async def holder(self, run_id: str) -> Holder | None:
        return self._found(run_id).holder

    def log(self, run_id: str) -> "MemoryLog":
        return MemoryLog(self._found(run_id))

    def inbox(self, run_id: str) -> "MemoryInbox":
        return MemoryInbox(self._found(run_id))

    async def snapshot(self, run_id: str) -> Snapshot | None:
        data = self._found(run_id).snapshot
        return await snapshot.from_bytes(data, self.log(run_id)) if data is not None else None

    def _found(self, run_id: str) -> _Run:
        if run_id not in self._runs:
            raise NoSuchRun(f"there is no run {run_id!r}")
        return self._runs[run_id]


class MemoryLog:
    def __init__(self, run: _Run) -> None:
        self._run = run

    async def read(self, after: Position = START) -> AsyncIterator[Batch]:
        if after < len(self._run.log):
            yield Batch(after, bytes(self._run.log[after:]))

    async def read_back(self, before: Position | None = None) -> AsyncIterator[Batch]:
        data = bytes(self._run.log[: len(self._run.log) if before is None else before])
        if data:
            yield Batch(START, data)

    async def follow(self, after: Position = START) -> AsyncIterator[Batch]:
        while True:
            changed = self._run.changed
            async for batch in self.read(after):
                after = batch.end
                yield batch
            await changed.wait()

    async def fragment(self) -> bytes:
        return b""


class MemoryLease:
    def __init__(self, run: _Run, epoch: int) -> None:
        self._run = run
        self.epoch = epoch

    async def repair(self) -> Sequence[LogRepaired]:
        return []

    async def journal(self, desk: Desk) -> "MemoryJournal":
        return MemoryJournal(self._run, desk, self.epoch)

    async def save(self, snapshot_: Snapshot) -> None:
        self._run.snapshot = snapshot.to_bytes(snapshot_)


class MemoryJournal:
    def __init__(self, run: _Run, desk: Desk, epoch: int) -> None:
        self._run = run
        self._desk = desk
        self._epoch = epoch
        self._stamp = Stamp(desk)
        self._next_milestone = desk.head.position + SNAPSHOT_EVERY
        self._closed = False

    @property
    def head(self) -> Head:
        return Head(self._stamp.position, self._stamp.link)

    async def append(self, *drafts: Draft | Event, expect: Position | None = None) -> Batch:
        await asyncio.sleep(0)
        if self._closed:
            raise StorageFailed("the journal is closed")
        if self._run.epoch != self._epoch:
            raise Fenced("the run has another owner now")
        start = self._stamp.position
        if expect is not None and expect != start:
            raise mismatch(start, expect)
        lines = self._stamp.lines(drafts)
        self._stamp.take()
        self._run.log += lines
        self._desk.written(lines)
        self._run.wake()
        if self._stamp.position >= self._next_milestone:
            self._next_milestone = self._stamp.position + SNAPSHOT_EVERY
            await self._desk.milestone()
        return Batch(start, lines)

    async def close(self) -> None:
        self._closed = True


class MemoryInbox:
    """Positions count messages here: a cursor means something only to the inbox that gave it."""

    def __init__(self, run: _Run) -> None:
        self._run = run

    async def put(self, message: Message) -> None:
        check_raw(message.body, f"the body of message {message.id}")
        check_readable(bytes(message.body), f"message {message.id}", 3 * RESERVE)
        self._run.messages.append(message)
        self._run.wake()

    async def put_first(self, message: Message) -> Message | None:
        first = next((one for one in self._run.messages if one.id == message.id), None)
        if first is None:
            await self.put(message)
        return first

    async def blank(self, redactor: Redactor, after: Position) -> None:
        for place, message in enumerate(self._run.messages):
            if place >= after:
                self._run.messages[place] = msgspec.structs.replace(message, body=redactor.raw(message.body))

    async def must_take(self) -> None:
        """It always does."""

    async def read(self, after: Position = START) -> AsyncIterator[Received]:
        known = {message.id for message in self._run.messages[:after]}
        for cursor, message in enumerate(self._run.messages[after:], start=after + 1):
            if message.id in known:
                yield Received(cursor, None, f"message {message.id} came before")
            else:
                known.add(message.id)
                yield Received(cursor, message)

    async def still_holds(self, cursor: Position, last: str | None) -> bool:
        read = self._run.messages[:cursor]
        return len(read) == cursor and (last is None or read[-1].id == last)

    async def follow(self, after: Position = START) -> AsyncIterator[Received]:
        while True:
            changed = self._run.changed
            async for received in self.read(after):
                after = received.cursor
                yield received
            await changed.wait()

    async def report_file(self, conversation: str) -> str:
        raise BadInput(f"the agent of {conversation} cannot be confined: its run is in memory, and has no files")

    async def collect_reports(self) -> None:
        """There are none."""

    async def changes(self) -> AsyncIterator[None]:
        while True:
            changed = self._run.changed
            yield
            await changed.wait()
