"""What the contract suite needs of a backend. A new one (Postgres) is one more class here and one line in conftest."""

import os
from typing import Protocol

from holdfast.store.base import Store
from holdfast.store.files.layout import LOCK, run_folder
from holdfast.store.files.store import FileStore
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
