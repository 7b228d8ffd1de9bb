"""The inbox: every process may put a message in; it is durable before `put` returns.

Writers take a lock for the length of one line. One that dies in mid-line leaves a torn end, which the next
writer sets aside. The owner reads; how far it has read is an event in its journal, not a file here. So a whole
line, even one that is no message, is never cut off again: the owner may have read past it.
"""

import asyncio
import fcntl
import os
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress

import msgspec

from holdfast.core.events.base import Envelope
from holdfast.core.log.codec import UNREADABLE, Line, Malformed, encode, parse
from holdfast.core.redaction.redaction import Redactor
from holdfast.leaf.clock import Clock
from holdfast.leaf.errors import BadInput, NoSuchRun, StorageFailed, TimedOut
from holdfast.leaf.failpoints import around
from holdfast.leaf.ids import new_sid
from holdfast.store.base import MESSAGE_TYPE, START, Batch, Message, Position, Received
from holdfast.store.files.disk import Appending, Disk, make_directories, sync_or_forget, write_all
from holdfast.store.files.layout import REPORTS
from holdfast.store.files.reading import FileLog
from holdfast.store.files.repair import end_line
from holdfast.store.files.report_files import ReportFiles, refusal
from holdfast.store.files.watch import Watcher
from holdfast.store.sequencer import RESERVE, check_raw, check_readable, one_line

_CRASH = Appending("inbox.append")
_CRASH_IN_BLANKING = around("inbox.blank")
_CRASH_IN_MOVING = around("report.move")
_WRITERS_TAKE = 30.0  # seconds to wait for other writers, each of whom needs milliseconds
_PAUSE = 0.002


class FileInbox:
    def __init__(self, path: str, clock: Clock, disk: Disk, watcher: Watcher) -> None:
        self._path = path
        self._clock = clock
        self._disk = disk
        self._put_on = _CRASH.on(disk)
        self._log = FileLog(path, watcher)
        self._watcher = watcher
        self._reports = ReportFiles(os.path.join(os.path.dirname(path), REPORTS))
        self._moved: set[str] | None = None  # the messages of the inbox, once a report file has something
        self._sid = new_sid()
        self._seq = 0
        self._secrets: Redactor | None = None
        self._ids: set[str] = set()
        self._ids_until: Position = START

    async def put(self, message: Message) -> None:
        check_raw(message.body, f"the body of message {message.id}")
        async with self._locked() as fd:
            await self._put(fd, message)

    async def put_first(self, message: Message) -> Message | None:
        check_raw(message.body, f"the body of message {message.id}")
        async with self._locked() as fd:
            first = await self._find(message.id)
            if first is None:
                await self._put(fd, message)
            else:
                self._make_durable(fd)  # whoever put it may not have come to that
            return first

    async def _put(self, fd: int, message: Message) -> None:
        line = self._stamped(msgspec.structs.replace(message, body=self._redactor().raw(message.body)))
        check_readable(line, f"message {message.id}", 3 * RESERVE)
        folder = os.path.dirname(self._path)
        run = os.path.basename(os.path.dirname(folder) if os.path.basename(folder) == REPORTS else folder)
        told = f"`holdfast show {run}` and `holdfast logs {run}` tell"
        await self._write(fd, line, f"the message may have arrived nonetheless ({told}); if not, send it again")

    async def _find(self, wanted: str) -> Message | None:
        async for message in self._all():
            if message.id == wanted:
                return message
        return None

    async def _all(self) -> AsyncIterator[Message]:
        async for batch in self._log.read(START):
            for received in _received(batch, set(), set()):
                if received.message is not None:
                    yield received.message

    def _redactor(self) -> Redactor:
        """Of the environment of whoever sends: its secrets are not for a file."""
        if self._secrets is None:
            self._secrets = Redactor.of(os.environ)
        return self._secrets

    async def must_take(self) -> None:
        """By a blank line, which nobody takes for a message. Whoever keeps us from it does write."""
        with suppress(TimedOut):
            async with self._locked() as fd:
                await self._write(fd, b"", "agents cannot report to the run; put that right, and resume")

    async def _write(self, fd: int, line: bytes, then: str) -> None:
        try:
            await end_line(self._path, self._disk)
            write_all(self._put_on, fd, line + b"\n")
            sync_or_forget(self._put_on, fd)
        except OSError as error:
            raise StorageFailed(f"cannot write {self._path}: {error.strerror}; {then}") from error

    async def read(self, after: Position = START) -> AsyncIterator[Received]:
        before, fresh = await self._ids_before(after), set[str]()
        with self._opened() as fd:  # before it is read: what cannot be written from then on, the sync tells of
            async for batch in self._log.read(after):
                self._make_durable(fd)
                for received in _received(batch, before, fresh):
                    yield received

    async def follow(self, after: Position = START) -> AsyncIterator[Received]:
        before, fresh = await self._ids_before(after), set[str]()
        async for batch in self._log.follow(after):
            with self._opened() as fd:
                self._make_durable(fd)
            for received in _received(batch, before, fresh):
                yield received

    async def blank(self, redactor: Redactor, after: Position) -> None:
        """In place, byte for byte: an agent that reports a secret does not know that it is one, and its owner does.

        Cut off anywhere in it, each byte is the old or the new one, and the line can be read.
        """
        _CRASH_IN_BLANKING.before()
        try:
            fd = os.open(self._path, os.O_RDWR)
            try:
                found = os.pread(fd, os.fstat(fd).st_size - after, after)
                for start, end in redactor.values_in(found):
                    os.pwrite(fd, b"*" * (end - start), after + start)
            finally:
                os.close(fd)
        except OSError as error:
            raise StorageFailed(f"cannot write {self._path}: {error.strerror}; put that right, and resume") from error
        _CRASH_IN_BLANKING.after()

    def _stamped(self, message: Message) -> bytes:
        """Under the lock, so that numbers and times follow the order of the lines."""
        data = msgspec.Raw(msgspec.json.encode(message))
        envelope = Envelope(ts=self._clock(), sid=self._sid, seq=self._seq, type=MESSAGE_TYPE, data=data)
        self._seq += 1
        return one_line(encode(envelope))

    async def report_file(self, conversation: str) -> str:
        await self.collect_reports()  # killed after this and before the next line, they are collected once more
        return self._reports.make(conversation)

    async def collect_reports(self) -> None:
        for conversation in self._reports.unread():
            if self._moved is None:
                self._moved = {message.id async for message in self._all()}
            async for message in self._reports.read(conversation, self._redactor()):
                if message.id in self._moved:
                    continue
                _CRASH_IN_MOVING.before()
                try:
                    await self.put(message)
                except BadInput:  # nested too deeply
                    await self.put(refusal(conversation, bytes(message.body)))
                self._moved.add(message.id)
                _CRASH_IN_MOVING.after()

    async def changes(self) -> AsyncIterator[None]:
        """Also of the report files."""
        make_directories(self._reports.folder)
        async with self._watcher.changes(self._reports.folder) as changed:
            async for _ in self._watcher.each_change(self._path, changed):
                yield

    async def _ids_before(self, position: Position) -> set[str]:
        """The ids of all messages before a position: what was read once is not read again."""
        if position < self._ids_until:
            self._ids, self._ids_until = set(), START
        async for batch in self._log.read(self._ids_until):
            if batch.start >= position:
                break
            part = Batch(batch.start, batch.data[: position - batch.start])
            self._ids.update(r.message.id for r in _received(part, set(), set()) if r.message is not None)
        self._ids_until = position
        return self._ids

    async def still_holds(self, cursor: Position, last: str | None) -> bool:
        if cursor == START:
            return True
        async for batch in self._log.read_back(cursor):
            if batch.end != cursor or not batch.data.endswith(b"\n"):
                return False
            line = parse(batch.data[batch.data.rfind(b"\n", 0, -1) + 1 :])
            message = _message(line) if line is not None else None
            return last is None or (isinstance(message, Message) and message.id == last)
        return False

    def _make_durable(self, fd: int) -> None:
        """Sync what was read: its writer may not have come to that yet, and a cursor must never point past the end."""
        try:
            sync_or_forget(self._disk, fd)
        except OSError as error:
            raise StorageFailed(f"cannot sync {self._path}: {error.strerror}; nothing of it was consumed") from error

    @contextmanager
    def _opened(self) -> Iterator[int]:
        fd = os.open(self._path, os.O_RDONLY)
        try:
            yield fd
        finally:
            os.close(fd)

    @asynccontextmanager
    async def _locked(self) -> AsyncIterator[int]:
        try:
            fd = os.open(self._path, os.O_RDWR | os.O_APPEND)
        except FileNotFoundError:
            raise NoSuchRun(f"there is no inbox at {self._path}; `holdfast ls` lists the runs") from None
        try:
            await self._lock(fd)
            yield fd
        finally:
            os.close(fd)

    async def _lock(self, fd: int) -> None:
        patience = time.monotonic() + _WRITERS_TAKE
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > patience:
                    raise TimedOut(
                        f"another process holds {self._path} for over {_WRITERS_TAKE:.0f} s; "
                        "the message was not taken, send it again"
                    ) from None
                await asyncio.sleep(_PAUSE)
            else:
                return


def _received(batch: Batch, before: set[str], fresh: set[str]) -> Iterator[Received]:
    """The lines of a batch as messages. `before` are the ids that came earlier; `fresh` grows by those of this look."""
    cursor = batch.start
    for raw in batch.data.split(b"\n")[:-1]:
        cursor += len(raw) + 1
        line = parse(raw)
        if line is None:
            continue
        message = _message(line)
        if isinstance(message, str):
            yield Received(cursor, None, message)
        elif message.id in before or message.id in fresh:
            yield Received(cursor, None, f"message {message.id} came before")
        else:
            fresh.add(message.id)
            yield Received(cursor, message)


def _message(line: Line | Malformed) -> Message | str:
    if isinstance(line, Malformed):
        return line.reason
    if line.type != MESSAGE_TYPE:
        return f"not a message: {line.type}"
    try:
        message = msgspec.json.decode(line.data, type=Message)
        check_raw(message.body, "its body")
        check_readable(bytes(line.data), "it", 2 * RESERVE)
    except (*UNREADABLE, BadInput) as error:
        return f"not a message: {error}"
    return message
