"""The inbox: every process can add a message, which is durable when `put` returns.

A writer holds a lock for one line. If it dies in the middle of the line, the next writer moves the torn end to another
file. The owner reads; how far it has read is an event in its journal, not a file here. So a complete line, even one
that is not a message, is never removed: the owner may have read past it.
"""

import asyncio
import fcntl
import os
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress

from holdfast.core.log.codec import parse
from holdfast.core.redaction.redaction import Redactor
from holdfast.leaf.clock import Clock
from holdfast.leaf.errors import BadInput, NoSuchRun, StorageFailed, TimedOut
from holdfast.leaf.failpoints import failpoint_pair
from holdfast.leaf.files.disk import AppendFailpoints, Disk, make_directories, sync_or_drop, write_all
from holdfast.leaf.files.watch import Watcher
from holdfast.store.base import START, Batch, InboxEntry, Message, Position
from holdfast.store.files.layout import REPORTS
from holdfast.store.files.reading import FileLog
from holdfast.store.files.repair import terminate_line
from holdfast.store.files.report_files import ReportFiles, refusal_message
from holdfast.store.inbox_lines import MessageEncoder, parse_message, parse_messages
from holdfast.store.sequencer import check_raw_json

_FAILPOINT_APPEND = AppendFailpoints("inbox.append")
_FAILPOINT_REDACT = failpoint_pair("inbox.blank")
_FAILPOINT_MOVE_REPORT = failpoint_pair("report.move")
_LOCK_WAIT_S = 30.0  # for other writers, each of which needs milliseconds
_RETRY_DELAY_S = 0.002


class FileInbox:
    def __init__(self, path: str, clock: Clock, disk: Disk, watcher: Watcher) -> None:
        self._path = path
        self._disk = disk
        self._append_disk = _FAILPOINT_APPEND.wrap(disk)
        self._log = FileLog(path, watcher)
        self._watcher = watcher
        self._reports = ReportFiles(os.path.join(os.path.dirname(path), REPORTS))
        self._message_ids: set[str] | None = None  # all messages in the inbox, read when a report file has something
        self._encoder = MessageEncoder(clock)
        self._seen_ids: set[str] = set()
        self._seen_until: Position = START

    async def put(self, message: Message) -> None:
        check_raw_json(message.body, f"the body of message {message.id}")
        async with self._open_locked() as fd:
            await self._put(fd, message)

    async def put_if_absent(self, message: Message) -> Message | None:
        check_raw_json(message.body, f"the body of message {message.id}")
        async with self._open_locked() as fd:
            existing = await self._find(message.id)
            if existing is None:
                await self._put(fd, message)
            else:
                self._make_durable(fd)  # its writer may not have synced it yet
            return existing

    async def _put(self, fd: int, message: Message) -> None:
        line = self._encoder.encode(message)
        folder = os.path.dirname(self._path)
        run = os.path.basename(os.path.dirname(folder) if os.path.basename(folder) == REPORTS else folder)
        commands = f"`holdfast show {run}` or `holdfast logs {run}`"
        await self._write(fd, line, f"the message may have arrived nonetheless: check {commands}, or send it again")

    async def _find(self, message_id: str) -> Message | None:
        async for message in self._read_messages():
            if message.id == message_id:
                return message
        return None

    async def _read_messages(self) -> AsyncIterator[Message]:
        async for batch in self._log.read(START):
            for entry in parse_messages(batch, set(), set()):
                if entry.message is not None:
                    yield entry.message

    async def check_writable(self) -> None:
        """Write a blank line, which readers skip. A timeout is no failure: then another process is writing."""
        with suppress(TimedOut):
            async with self._open_locked() as fd:
                await self._write(fd, b"", "agents cannot report to the run; fix this, then resume the run")

    async def _write(self, fd: int, line: bytes, advice: str) -> None:
        try:
            await terminate_line(self._path, self._disk)
            write_all(self._append_disk, fd, line + b"\n")
            sync_or_drop(self._append_disk, fd)
        except OSError as error:
            raise StorageFailed(f"cannot write {self._path}: {error.strerror}; {advice}") from error

    async def read(self, after: Position = START) -> AsyncIterator[InboxEntry]:
        earlier_ids, new_ids = await self._ids_before(after), set[str]()
        with self._open() as fd:  # opened before the read: the sync then reports every later write error
            async for batch in self._log.read(after):
                self._make_durable(fd)
                for entry in parse_messages(batch, earlier_ids, new_ids):
                    yield entry

    async def follow(self, after: Position = START) -> AsyncIterator[InboxEntry]:
        earlier_ids, new_ids = await self._ids_before(after), set[str]()
        async for batch in self._log.follow(after):
            with self._open() as fd:
                self._make_durable(fd)
            for entry in parse_messages(batch, earlier_ids, new_ids):
                yield entry

    async def redact(self, redactor: Redactor, after: Position) -> None:
        """Overwrite secrets in place: an agent does not know that it reports a secret, but the owner does.

        After a crash in the middle, each byte is the old or the new one, and the line is readable.
        """
        _FAILPOINT_REDACT.before()
        try:
            fd = os.open(self._path, os.O_RDWR)
            try:
                data = os.pread(fd, os.fstat(fd).st_size - after, after)
                for start, end in redactor.value_spans(data):
                    os.pwrite(fd, b"*" * (end - start), after + start)
            finally:
                os.close(fd)
        except OSError as error:
            raise StorageFailed(
                f"cannot write {self._path}: {error.strerror}; fix this, then resume the run"
            ) from error
        _FAILPOINT_REDACT.after()

    async def create_report_file(self, conversation_id: str) -> str:
        await (
            self.collect_reports()
        )  # if we are killed before the next line, they are collected again, without duplicates
        return self._reports.create(conversation_id)

    async def collect_reports(self) -> None:
        for conversation in self._reports.unread_conversations():
            if self._message_ids is None:
                self._message_ids = {message.id async for message in self._read_messages()}
            async for message in self._reports.read(conversation, self._encoder.redactor):
                if message.id in self._message_ids:
                    continue
                _FAILPOINT_MOVE_REPORT.before()
                try:
                    await self.put(message)
                except BadInput:  # nested too deeply
                    await self.put(refusal_message(conversation, bytes(message.body)))
                self._message_ids.add(message.id)
                _FAILPOINT_MOVE_REPORT.after()

    async def changes(self) -> AsyncIterator[None]:
        """Also yields when a report file changes."""
        make_directories(self._reports.folder)
        async with self._watcher.changes(self._reports.folder) as changed:
            async for _ in self._watcher.each_change(self._path, changed):
                yield

    async def _ids_before(self, position: Position) -> set[str]:
        """Return the ids of all messages before a position. Caches what it has read."""
        if position < self._seen_until:
            self._seen_ids, self._seen_until = set(), START
        async for batch in self._log.read(self._seen_until):
            if batch.start >= position:
                break
            part = Batch(batch.start, batch.data[: position - batch.start])
            entries = parse_messages(part, set(), set())
            self._seen_ids.update(entry.message.id for entry in entries if entry.message is not None)
        self._seen_until = position
        return self._seen_ids

    async def is_cursor_valid(self, cursor: Position, last_message_id: str | None) -> bool:
        if cursor == START:
            return True
        async for batch in self._log.read_backwards(cursor):
            if batch.end != cursor or not batch.data.endswith(b"\n"):
                return False
            line = parse(batch.data[batch.data.rfind(b"\n", 0, -1) + 1 :])
            message = parse_message(line) if line is not None else None
            return last_message_id is None or (isinstance(message, Message) and message.id == last_message_id)
        return False

    def _make_durable(self, fd: int) -> None:
        """Sync what was read: its writer may not have synced it yet, and a cursor must never point past the end."""
        try:
            sync_or_drop(self._disk, fd)
        except OSError as error:
            raise StorageFailed(f"cannot sync {self._path}: {error.strerror}; no message was consumed") from error

    @contextmanager
    def _open(self) -> Iterator[int]:
        fd = os.open(self._path, os.O_RDONLY)
        try:
            yield fd
        finally:
            os.close(fd)

    @asynccontextmanager
    async def _open_locked(self) -> AsyncIterator[int]:
        try:
            fd = os.open(self._path, os.O_RDWR | os.O_APPEND)
        except FileNotFoundError:
            raise NoSuchRun(f"there is no inbox at {self._path}; `holdfast ls` lists the runs") from None
        try:
            await self._wait_for_lock(fd)
            yield fd
        finally:
            os.close(fd)

    async def _wait_for_lock(self, fd: int) -> None:
        deadline = time.monotonic() + _LOCK_WAIT_S
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise TimedOut(
                        f"another process has locked {self._path} for more than {_LOCK_WAIT_S:.0f} s; "
                        "the message was not sent, send it again"
                    ) from None
                await asyncio.sleep(_RETRY_DELAY_S)
            else:
                return
