"""The index of the Postgres backend: what listing and finding runs asks of the database, without an event loop."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

from holdfast.store.index import LogStamp
from holdfast.store.postgres.address import shown
from holdfast.store.postgres.catalog import PostgresCatalog
from holdfast.store.postgres.client import Client, client_of
from holdfast.store.postgres.connect import Connection, schema_of
from holdfast.store.postgres.lease import is_storable, owned_runs

if TYPE_CHECKING:
    from holdfast.store.index import Catalog

T = TypeVar("T")


class PostgresIndex:
    def __init__(self, url: str) -> None:
        self._url = url

    def run_ids(self) -> list[str]:
        rows = self._client.run_blocking(lambda connection: connection.fetch("SELECT id FROM run ORDER BY id"))
        return [row["id"] for row in rows]

    def has_run(self, run_id: str) -> bool:
        return self._row(run_id) is not None

    def is_owned(self, run_id: str) -> bool:
        return bool(self.owned([run_id]))

    def owned(self, run_ids: Iterable[str]) -> set[str]:
        asked = [run_id for run_id in run_ids if is_storable(run_id)]
        return self._client.run_blocking(lambda connection: owned_runs(connection, asked)) if asked else set()

    def describe(self) -> str:
        started = time.monotonic()
        server, level, runs = self._client.run_blocking(_facts)
        took_ms = 1000 * (time.monotonic() - started)
        return (
            f"{shown(self._url)}: {runs} runs in Postgres {server}, schema {schema_of(self._url)} at level {level}, "
            f"answered in {took_ms:.0f} ms"
        )

    def stamp(self, run_id: str) -> LogStamp:
        row = self._row(run_id)
        if row is None:
            raise FileNotFoundError(f"there is no run {run_id!r}")
        return LogStamp(row["serial"], row["head"], 0)

    def query(self, query: Callable[[Catalog], T]) -> T:
        return query(PostgresCatalog(self._client))

    async def update(self, update: Callable[[Catalog], Awaitable[T]]) -> T:
        return await update(PostgresCatalog(self._client))

    @property
    def _client(self) -> Client:
        return client_of(self._url)

    def _row(self, run_id: str) -> Connection | None:
        if not is_storable(run_id):
            return None
        query = "SELECT serial, head FROM run WHERE id = $1"
        return self._client.run_blocking(lambda connection: connection.fetchrow(query, run_id))


async def _facts(connection: Connection) -> tuple[str, int, int]:
    level = await connection.fetchval("SELECT level FROM schema_level")
    runs = await connection.fetchval("SELECT count(*) FROM run")
    return await connection.fetchval("SHOW server_version"), level, runs
