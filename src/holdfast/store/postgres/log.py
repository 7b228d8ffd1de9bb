"""Reads a log from the database: a row holds the lines of one append, its key is their position."""

import asyncio
from collections.abc import AsyncIterator

from holdfast.store.base import START, Batch, Position
from holdfast.store.postgres.client import Client
from holdfast.store.postgres.connect import Connection

BATCH_BYTES = 128 * 1024  # read at once, unless one append is longer

_FORWARDS = """
SELECT start, data FROM chunk WHERE run = $1 AND start < $2::bigint + $3::bigint AND start >= coalesce(
    (SELECT max(start) FROM chunk WHERE run = $1 AND start <= $2), $2
) ORDER BY start"""
_BACKWARDS = """
SELECT start, data FROM chunk WHERE run = $1 AND start < $2 AND start >= least(
    $2::bigint - $3::bigint, (SELECT max(start) FROM chunk WHERE run = $1 AND start < $2)
) ORDER BY start"""
_END = "SELECT head FROM run WHERE serial = $1"


class PostgresLog:
    def __init__(self, client: Client, serial: int) -> None:
        self._client = client
        self._serial = serial

    async def read(self, after: Position = START) -> AsyncIterator[Batch]:
        position = after
        while True:
            batch = await self._fetch(_FORWARDS, position)
            data = batch.data[max(0, position - batch.start) :]
            if not data:
                return
            yield Batch(position, data)
            position += len(data)

    async def read_backwards(self, before: Position | None = None) -> AsyncIterator[Batch]:
        end = await self._end()
        end = end if before is None else min(before, end)
        while end > START:
            batch = await self._fetch(_BACKWARDS, end)
            data = batch.data[: end - batch.start]
            if not data:
                return
            yield Batch(batch.start, data)
            end = batch.start

    async def follow(self, after: Position = START) -> AsyncIterator[Batch]:
        changed = asyncio.Event()
        async with self._client.listener.waiting(changed, serial=self._serial, log=True):
            after = min(after, await self._end())
            while True:
                changed.clear()  # before the read, so that changes during it are not missed
                async for batch in self.read(after):
                    after = batch.end
                    yield batch
                await changed.wait()

    async def torn_tail(self) -> bytes:
        """A statement is executed completely or not at all: there is none."""
        return b""

    async def _fetch(self, query: str, position: Position) -> Batch:
        async def fetch(connection: Connection) -> list[tuple[int, bytes]]:
            rows: list[tuple[int, bytes]] = await connection.fetch(query, self._serial, position, BATCH_BYTES)
            return rows

        rows = await self._client.run(fetch)
        return Batch(rows[0][0], b"".join([data for _, data in rows])) if rows else Batch(position, b"")

    async def _end(self) -> Position:
        async def fetch(connection: Connection) -> Position:
            return await connection.fetchval(_END, self._serial) or START

        return await self._client.run(fetch)
