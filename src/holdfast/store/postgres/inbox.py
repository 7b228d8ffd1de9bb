"""The inbox in the database: a row is a line, its key is the line's position in bytes.

A writer moves the end of the inbox, and with that locks it until its line is there. So positions have no gaps, and a
reader never passes a line that becomes visible later. Reports of confined agents come from files of this machine.
"""

import asyncio
import hashlib
import uuid
from collections.abc import AsyncIterator
from functools import partial

from holdfast.core.log.codec import parse
from holdfast.core.redaction.redaction import Redactor
from holdfast.leaf.clock import Clock
from holdfast.leaf.errors import BadInput, NoSuchRun
from holdfast.leaf.failpoints import failpoint_pair
from holdfast.leaf.files.disk import make_directories
from holdfast.leaf.files.watch import Watcher
from holdfast.store.base import START, Batch, InboxEntry, Message, Position
from holdfast.store.files.report_files import ReportFiles, original_report_id, refusal_message
from holdfast.store.inbox_lines import MessageEncoder, parse_message, parse_messages
from holdfast.store.postgres.client import Client
from holdfast.store.postgres.connect import Connection, UniqueViolation
from holdfast.store.postgres.listener import run_channel
from holdfast.store.sequencer import check_raw_json

_FAILPOINT_PUT = failpoint_pair("postgres.put")
_FAILPOINT_REDACT = failpoint_pair("postgres.redact")
_PAGE_BYTES = 128 * 1024

_PUT = """
WITH moved AS (
    UPDATE inbox SET head = head + length($4::bytea) WHERE run = $1 RETURNING run, head - length($4::bytea) AS start
), written AS (
    INSERT INTO message (run, start, id, put, data) SELECT run, start, $2, $3, $4::bytea FROM moved RETURNING run
)
SELECT run, pg_notify($5, '') FROM written"""
_LOCK = "SELECT head FROM inbox WHERE run = $1 FOR UPDATE"
_FIND = "SELECT put, data FROM message WHERE run = $1 AND id = $2 ORDER BY start LIMIT 1"
_READ = """
SELECT start, data, EXISTS (
    SELECT FROM message earlier WHERE earlier.run = $1 AND earlier.id = message.id AND earlier.start < message.start
) AS is_duplicate
FROM message WHERE run = $1 AND start >= $2
AND start < $3::bigint + (SELECT min(start) FROM message WHERE run = $1 AND start >= $2) ORDER BY start"""
_BEFORE = "SELECT start, id, data FROM message WHERE run = $1 AND start < $2 ORDER BY start DESC LIMIT 1"
_AFTER = "SELECT start, data FROM message WHERE run = $1 AND start >= $2 ORDER BY start FOR UPDATE"
_REPLACE = "UPDATE message SET data = $3 WHERE run = $1 AND start = $2"


class PostgresInbox:
    def __init__(
        self, client: Client, serial: int, run_id: str, reports: ReportFiles, clock: Clock, watcher: Watcher
    ) -> None:
        self._client = client
        self._serial = serial
        self._run_id = run_id
        self._reports = reports
        self._watcher = watcher
        self._encoder = MessageEncoder(clock)

    async def put(self, message: Message) -> None:
        line = self._encode(message)
        put_id = uuid.uuid4()

        async def put(connection: Connection) -> bool:
            return await self._insert(connection, message.id, put_id, line)

        _FAILPOINT_PUT.before()
        self._require(await self._client.run(put))
        _FAILPOINT_PUT.after()

    async def put_if_absent(self, message: Message) -> Message | None:
        line = self._encode(message)
        put_id = uuid.uuid4()

        async def put(connection: Connection) -> bytes | bool:
            async with connection.transaction():
                await connection.execute(_LOCK, self._serial)  # another process may put the same id now
                found = await connection.fetchrow(_FIND, self._serial, _key(message.id))
                if found is not None and found["put"] != put_id:  # an earlier attempt of ours may have succeeded
                    return bytes(found["data"])
                return found is not None or await self._insert(connection, message.id, put_id, line)

        _FAILPOINT_PUT.before()
        result = await self._client.run(put)
        _FAILPOINT_PUT.after()
        if isinstance(result, bytes):
            return _decode(result)
        self._require(result)
        return None

    async def _insert(self, connection: Connection, message_id: str, put_id: uuid.UUID, line: bytes) -> bool:
        """Add a line; False when there is no such run. An earlier attempt may have succeeded."""
        arguments = (self._serial, _key(message_id), put_id, line, run_channel(self._serial))
        try:
            return await connection.fetchrow(_PUT, *arguments) is not None
        except UniqueViolation:
            return True

    def _encode(self, message: Message) -> bytes:
        check_raw_json(message.body, f"the body of message {message.id}")
        return self._encoder.encode(message) + b"\n"

    def _require(self, is_there: bool) -> None:  # noqa: FBT001 - what the query returned
        if not is_there:
            raise NoSuchRun(f"there is no run {self._run_id!r} any more; `holdfast ls` lists the runs")

    async def check_writable(self) -> None:
        """Write the same end again."""

        async def write(connection: Connection) -> bool:
            changed = await connection.execute("UPDATE inbox SET head = head WHERE run = $1", self._serial)
            return bool(changed == "UPDATE 1")

        self._require(await self._client.run(write))

    async def read(self, after: Position = START) -> AsyncIterator[InboxEntry]:
        while True:
            arguments = (self._serial, after, _PAGE_BYTES)
            rows = await self._client.run(partial(_fetch, _READ, arguments))
            if not rows:
                return
            for start, data, is_duplicate in rows:
                for entry in parse_messages(Batch(start, data), set(), set()):
                    if entry.message is not None and is_duplicate:
                        yield InboxEntry(entry.cursor, None, f"duplicate of message {entry.message.id}")
                    else:
                        yield entry
                after = start + len(data)

    async def follow(self, after: Position = START) -> AsyncIterator[InboxEntry]:
        changed = asyncio.Event()
        async with self._client.listener.waiting(changed, serial=self._serial):
            while True:
                changed.clear()
                async for entry in self.read(after):
                    after = entry.cursor
                    yield entry
                await changed.wait()

    async def is_cursor_valid(self, cursor: Position, last_message_id: str | None) -> bool:
        if cursor == START:
            return True
        row = await self._client.run(lambda connection: connection.fetchrow(_BEFORE, self._serial, cursor))
        if row is None or row["start"] + len(row["data"]) != cursor:
            return False
        return last_message_id is None or row["id"] == _key(last_message_id)

    async def redact(self, redactor: Redactor, after: Position) -> None:
        async def replace(connection: Connection) -> None:
            async with connection.transaction():
                for start, data in await connection.fetch(_AFTER, self._serial, after):
                    spans = list(redactor.value_spans(data))
                    redacted = bytearray(data)
                    for begin, end in spans:
                        redacted[begin:end] = b"*" * (end - begin)
                    if spans:
                        await connection.execute(_REPLACE, self._serial, start, bytes(redacted))

        _FAILPOINT_REDACT.before()
        await self._client.run(replace)
        _FAILPOINT_REDACT.after()

    async def create_report_file(self, conversation_id: str) -> str:
        await self.collect_reports()
        return self._reports.create(conversation_id)

    async def collect_reports(self) -> None:
        for conversation in self._reports.unread_conversations():
            async for message in self._reports.read(conversation, self._encoder.redactor):
                if await self._was_relayed(message):
                    continue
                try:
                    await self.put_if_absent(message)  # an earlier session may have moved it
                except BadInput:  # nested too deeply
                    await self.put_if_absent(refusal_message(conversation, bytes(message.body)))

    async def _was_relayed(self, report: Message) -> bool:
        """True when the runner stored a report before it died, whose agent then wrote it to its file.

        Only the agent itself knows the id. If it chose that of another message, it loses its report.
        """
        relayed_id = original_report_id(report)
        found = await self._client.run(lambda connection: connection.fetchrow(_FIND, self._serial, _key(relayed_id)))
        return found is not None

    async def changes(self) -> AsyncIterator[None]:
        """Also yields when a report file changes."""
        changed = asyncio.Event()
        make_directories(self._reports.folder)
        async with (
            self._client.listener.waiting(changed, serial=self._serial),
            self._watcher.changes(self._reports.folder, changed),
        ):
            while True:
                changed.clear()
                yield
                await changed.wait()


async def _fetch(query: str, arguments: tuple[object, ...], connection: Connection) -> list[Connection]:
    rows: list[Connection] = await connection.fetch(query, *arguments)
    return rows


def _key(message_id: str) -> bytes:
    """Ids have any length, and any characters."""
    return hashlib.sha256(message_id.encode(errors="surrogatepass")).digest()


def _decode(data: bytes) -> Message:
    line = parse(data)
    message = parse_message(line) if line is not None else None
    if not isinstance(message, Message):
        raise BadInput(f"an inbox holds a line that is not a message: {data[:60]!r}")
    return message
