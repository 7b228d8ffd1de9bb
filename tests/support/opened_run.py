"""A run opened by hand, so that a test can leave it in any way that a process can."""

import os
import tempfile
from contextlib import AbstractAsyncContextManager

from holdfast.store.base import Store
from holdfast.store.files.journal import FileJournal
from holdfast.store.files.store import FileLease
from holdfast.store.run import OwnedRun, open_run


class StoreSession:
    def __init__(self, context: AbstractAsyncContextManager[OwnedRun], run: OwnedRun) -> None:
        self._context = context
        self.run = run

    @classmethod
    async def open(cls, store: Store, run_id: str, *, sid: str | None = None) -> "StoreSession":
        context = open_run(store, run_id, sid=sid)
        return cls(context, await context.__aenter__())

    async def close(self) -> None:
        await self._context.__aexit__(None, None, None)

    async def leave_without_writing(self) -> None:
        """Let go of everything as a dead process does: no snapshot, no word in the lock's record."""
        self.run._snapshot_at = self.run.head.position
        await self.close()


async def kill(session: StoreSession) -> None:
    """What the kernel does for a killed owner of files: its descriptors close, and nothing more is written.

    The numbers stay open, on a file that nobody sees: what the object still does goes nowhere.
    """
    lease, journal = session.run._lease, session.run._journal
    assert isinstance(lease, FileLease)
    assert isinstance(journal, FileJournal)
    with tempfile.TemporaryFile() as nowhere:
        for fd in (lease._lock._fd, journal._fd):
            os.dup2(nowhere.fileno(), fd, inheritable=False)
    await session.leave_without_writing()
