"""The memory backend: implements `base` without a disk, for tests of code that uses a store."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import msgspec

from holdfast.core.day_spending import Spending, count_usage
from holdfast.core.events import Draft, Event
from holdfast.core.events.log import LogRepaired
from holdfast.core.redaction.redaction import Redactor
from holdfast.leaf.clock import Clock, now
from holdfast.leaf.errors import BadInput, NoSuchRun, RunExists, RunFenced, RunOwned, StorageFailed
from holdfast.leaf.process.identity import own_identity
from holdfast.store import snapshot
from holdfast.store.base import (
    SNAPSHOT_EVERY_BYTES,
    START,
    AccountLimit,
    Batch,
    Head,
    Holder,
    InboxEntry,
    Leftover,
    Message,
    Position,
    Snapshot,
    WriterContext,
)
from holdfast.store.sequencer import RESERVED_NESTING, Sequencer, check_raw_json, check_readable, position_mismatch


class _Run:
    def __init__(self, notify: Callable[[], None]) -> None:
        self._notify = notify
        self.log = bytearray()
        self.messages: list[Message] = []
        self.snapshot: bytes | None = None
        self.files: dict[str, bytes] = {}
        self.counted = START
        self.epoch = 0
        self.holder: Holder | None = None
        self.changed = asyncio.Event()

    def wake(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()
        self._notify()


class MemoryWatch:
    """Reports every change of every run."""

    def __init__(self) -> None:
        self.changed = asyncio.Event()
        self.unwatched = 0

    async def watch_only(self, run_ids: Sequence[str]) -> None:
        """All runs are watched anyway."""


class MemoryLimits:
    def __init__(self) -> None:
        self.known: dict[str, AccountLimit] = {}

    async def put(self, account: str, limit: AccountLimit) -> None:
        self.known = {name: known for name, known in self.known.items() if known.until > limit.since}
        self.known[account] = limit

    async def find(self, account: str) -> AccountLimit | None:
        return self.known.get(account)

    async def clear(self, account: str, until: str) -> None:
        if account in self.known and self.known[account].since <= until:
            del self.known[account]


class MemoryStore:
    def __init__(self, *, clock: Clock = now) -> None:
        self._clock = clock
        self._runs: dict[str, _Run] = {}
        self._watches: list[MemoryWatch] = []
        self._limits = MemoryLimits()
        self._spending = Spending()

    async def create(self, run_id: str) -> None:
        if run_id in self._runs:
            raise RunExists(f"run {run_id} exists already; choose another name, or resume it")
        self._runs[run_id] = _Run(self._notify)
        self._notify()

    async def run_ids(self) -> Sequence[str]:
        return sorted(self._runs)

    async def discard(self, run_id: str) -> None:
        async with self.own(run_id):
            del self._runs[run_id]
            self._notify()

    @asynccontextmanager
    async def own(self, run_id: str) -> AsyncIterator["MemoryLease"]:
        run = self._get_run(run_id)
        if run.holder is not None:
            raise RunOwned(f"run {run_id} is owned by pid {run.holder.pid} since {run.holder.since}")
        run.epoch += 1
        run.holder = Holder(epoch=run.epoch, **own_identity()._asdict(), host="memory", since=self._clock())
        lease = MemoryLease(run, run.epoch)
        try:
            yield lease
        finally:
            if run.epoch == lease.epoch:
                run.holder = None
                run.wake()

    async def holder(self, run_id: str) -> Holder | None:
        return self._get_run(run_id).holder

    async def wait_until_released(self, run_id: str) -> None:
        run = self._runs.get(run_id)
        while run is not None and run.holder is not None:
            await run.changed.wait()

    @asynccontextmanager
    async def watch_runs(self) -> AsyncIterator["MemoryWatch"]:
        watch = MemoryWatch()
        self._watches.append(watch)
        try:
            yield watch
        finally:
            self._watches.remove(watch)

    def log(self, run_id: str) -> "MemoryLog":
        return MemoryLog(self._get_run(run_id))

    def inbox(self, run_id: str) -> "MemoryInbox":
        return MemoryInbox(self._get_run(run_id))

    async def snapshot(self, run_id: str) -> Snapshot | None:
        data = self._get_run(run_id).snapshot
        return await snapshot.from_bytes(data, self.log(run_id)) if data is not None else None

    async def save_file(self, run_id: str, name: str, data: bytes) -> None:
        self._get_run(run_id).files[name] = data

    async def load_file(self, run_id: str, name: str) -> bytes | None:
        return self._get_run(run_id).files.get(name)

    @property
    def limits(self) -> "MemoryLimits":
        return self._limits

    async def count_spending(self, run_id: str, repository: str) -> Spending:
        run = self._get_run(run_id)
        count_usage(self._spending, repository, bytes(run.log[run.counted :]))
        run.counted = len(run.log)
        return self._spending

    def open_report_file(self, path: str) -> "MemoryInbox":
        raise BadInput(f"cannot open {path}: runs in memory have no files")

    async def covered_head(self, run_id: str) -> Head | None:
        found = await self.snapshot(run_id)
        return found.head if found is not None else None

    def leftovers(self) -> Sequence[Leftover]:
        return []

    def _notify(self) -> None:
        for watch in self._watches:
            watch.changed.set()

    def _get_run(self, run_id: str) -> _Run:
        if run_id not in self._runs:
            raise NoSuchRun(f"there is no run {run_id!r}")
        return self._runs[run_id]


class MemoryLog:
    def __init__(self, run: _Run) -> None:
        self._run = run

    async def read(self, after: Position = START) -> AsyncIterator[Batch]:
        if after < len(self._run.log):
            yield Batch(after, bytes(self._run.log[after:]))

    async def read_backwards(self, before: Position | None = None) -> AsyncIterator[Batch]:
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

    async def torn_tail(self) -> bytes:
        return b""


class MemoryLease:
    def __init__(self, run: _Run, epoch: int) -> None:
        self._run = run
        self.epoch = epoch

    async def wait_until_lost(self) -> str:
        never: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        return await never

    @property
    def is_lost(self) -> bool:
        return False

    @property
    def may_have_another_owner(self) -> bool:
        return False

    async def repair(self) -> Sequence[LogRepaired]:
        return []

    async def open_journal(self, context: WriterContext) -> "MemoryJournal":
        return MemoryJournal(self._run, context, self.epoch)

    async def save_snapshot(self, snapshot_: Snapshot) -> None:
        self._run.snapshot = snapshot.to_bytes(snapshot_)


class MemoryJournal:
    def __init__(self, run: _Run, context: WriterContext, epoch: int) -> None:
        self._run = run
        self._context = context
        self._epoch = epoch
        self._sequencer = Sequencer(context)
        self._next_snapshot_at = context.head.position + SNAPSHOT_EVERY_BYTES
        self._closed = False

    @property
    def head(self) -> Head:
        return Head(self._sequencer.position, self._sequencer.link)

    async def append(self, *drafts: Draft | Event, expect: Position | None = None) -> Batch:
        await asyncio.sleep(0)
        if self._closed:
            raise StorageFailed("the journal is closed")
        if self._run.epoch != self._epoch:
            raise RunFenced("the run has another owner now")
        start = self._sequencer.position
        if expect is not None and expect != start:
            raise position_mismatch(start, expect)
        lines = self._sequencer.encode_lines(drafts)
        self._sequencer.take_pending()
        self._run.log += lines
        self._context.on_written(lines)
        self._run.wake()
        if self._sequencer.position >= self._next_snapshot_at:
            self._next_snapshot_at = self._sequencer.position + SNAPSHOT_EVERY_BYTES
            await self._context.on_snapshot_due()
        return Batch(start, lines)

    async def close(self) -> None:
        self._closed = True


class MemoryInbox:
    """Positions count messages here: a cursor is valid only for the inbox that returned it."""

    def __init__(self, run: _Run) -> None:
        self._run = run

    async def put(self, message: Message) -> None:
        check_raw_json(message.body, f"the body of message {message.id}")
        check_readable(bytes(message.body), f"message {message.id}", 3 * RESERVED_NESTING)
        self._run.messages.append(message)
        self._run.wake()

    async def put_if_absent(self, message: Message) -> Message | None:
        existing = next((known for known in self._run.messages if known.id == message.id), None)
        if existing is None:
            await self.put(message)
        return existing

    async def redact(self, redactor: Redactor, after: Position) -> None:
        for index, message in enumerate(self._run.messages):
            if index >= after:
                self._run.messages[index] = msgspec.structs.replace(message, body=redactor.redact_json(message.body))

    async def check_writable(self) -> None:
        """Memory is always writable."""

    async def read(self, after: Position = START) -> AsyncIterator[InboxEntry]:
        known = {message.id for message in self._run.messages[:after]}
        for cursor, message in enumerate(self._run.messages[after:], start=after + 1):
            if message.id in known:
                yield InboxEntry(cursor, None, f"duplicate of message {message.id}")
            else:
                known.add(message.id)
                yield InboxEntry(cursor, message)

    async def is_cursor_valid(self, cursor: Position, last_message_id: str | None) -> bool:
        read = self._run.messages[:cursor]
        return len(read) == cursor and (last_message_id is None or read[-1].id == last_message_id)

    async def follow(self, after: Position = START) -> AsyncIterator[InboxEntry]:
        while True:
            changed = self._run.changed
            async for entry in self.read(after):
                after = entry.cursor
                yield entry
            await changed.wait()

    async def create_report_file(self, conversation_id: str) -> str:
        raise BadInput(f"cannot confine the agent of {conversation_id}: its run is in memory and has no files")

    async def collect_reports(self) -> None:
        """There are no report files in memory."""

    async def changes(self) -> AsyncIterator[None]:
        while True:
            changed = self._run.changed
            yield
            await changed.wait()
