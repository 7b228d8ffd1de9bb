"""What the contract suite needs of a backend. A new one (Postgres) is one more class here and one line in conftest."""

import os
from typing import Protocol

import asyncpg

from holdfast.store.base import Store
from holdfast.store.files.layout import LOCK, run_folder
from holdfast.store.files.store import FileStore
from holdfast.store.postgres.listener import run_channel
from holdfast.store.postgres.store import PostgresLease, PostgresStore
from tests.support import opened_run as sessions
from tests.support.memory_store import MemoryStore
from tests.support.opened_run import StoreSession


class Backend(Protocol):
    def store(self) -> Store:
        """A store on the same runs, as another process would open it."""
        ...

    async def kill(self, session: StoreSession) -> None:
        """The owner dies without a word."""
        ...

    async def usurp(self, run_id: str) -> None:
        """The owner lives, but its right is taken away: others may own the run."""
        ...


class Files:
    def __init__(self, home: str) -> None:
        self._home = home

    def store(self) -> FileStore:
        return FileStore(self._home)

    async def kill(self, session: StoreSession) -> None:
        await sessions.kill(session)

    async def usurp(self, run_id: str) -> None:
        os.unlink(os.path.join(run_folder(self._home, run_id), LOCK))


class Memory:
    def __init__(self) -> None:
        self._store = MemoryStore()

    def store(self) -> MemoryStore:
        return self._store

    async def kill(self, session: StoreSession) -> None:
        await session.leave_without_writing()

    async def usurp(self, run_id: str) -> None:
        self._store._runs[run_id].holder = None


class Postgres:
    def __init__(self, url: str, home: str) -> None:
        self._url = url
        self._home = home

    def store(self) -> PostgresStore:
        return PostgresStore(self._url, self._home)

    async def kill(self, session: StoreSession) -> None:
        """Its lease ends with its time, which passes here at once."""
        lease = session.run._lease
        assert isinstance(lease, PostgresLease)
        lease._held_lease.abandon()
        await self._expire(lease._held_lease.serial)
        await session.leave_without_writing()

    async def usurp(self, run_id: str) -> None:
        store = self.store()
        await self._expire(store._serial(run_id))

    async def _expire(self, serial: int) -> None:
        connection = await asyncpg.connect(self._url)
        try:
            await connection.execute("UPDATE run SET expires = now() WHERE serial = $1", serial)
            await connection.execute("SELECT pg_notify($1, '')", run_channel(serial))
        finally:
            await connection.close()
