"""Wakes what waits for changes: one connection that listens, for all readers of this process.

A reader says what it waits for, then reads, then waits. So it misses nothing: what was written before is read, and what
is written later notifies. After a lost connection everyone is woken, because notifications may have been lost with it.

A notification costs the server something on every listening connection, and serializes commits. So a writer of a log
notifies only when somebody waits for that log: who does holds a shared advisory lock on it, which the writer notices
because it cannot get an exclusive one. The server frees that lock with the connection.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from holdfast.leaf.errors import HoldfastError
from holdfast.store.postgres.connect import DRIVER_ERRORS, Connection, storage_error

RUNS_CHANNEL = "holdfast_runs"  # the set of runs has changed
INTEREST_LOCK = 0x686F6C66  # the class of the advisory locks of those who wait for a log
MAX_INTERESTS = 1000  # advisory locks of one process: the server has room for a few thousand in all
_RETRY_DELAY_S, _CLOSE_TIMEOUT_S = 0.2, 2.0


class _Waiter:
    """Who waits for a channel, and the advisory lock that it holds a share of."""

    def __init__(self, channel: str, loop: asyncio.AbstractEventLoop, changed: asyncio.Event) -> None:
        self.channel = channel
        self.lock: int | None = None
        self._loop = loop
        self._changed = changed

    def wake(self) -> None:
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._changed.set)


def run_channel(serial: int) -> str:
    """The channel of a run's inbox, its lease, and its log while somebody waits for it."""
    return f"holdfast_{serial}"


def lock_number(serial: int) -> int:
    return serial & 0x7FFFFFFF


class Listener:
    """Used in the client's loop; `waiting` can be entered in any loop."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, open_connection: Callable[[], Awaitable[Connection]], url: str
    ) -> None:
        self._loop = loop
        self._url = url
        self._was_connected = False
        self._open = open_connection
        self._connection: Connection | None = None
        self._waiters: dict[str, list[_Waiter]] = {}
        self._interests: dict[int, int] = {}  # how many wait for the log with this lock number
        self._changing = asyncio.Lock()
        self._reconnecting: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def waiting(
        self, changed: asyncio.Event, *, serial: int | None = None, log: bool = False
    ) -> AsyncIterator[bool]:
        """Set an event of the caller's loop at every change: of a run, or of the set of runs.

        Yields False when too many logs are waited for, so that changes of this one are not reported.
        """
        waiter = _Waiter(RUNS_CHANNEL if serial is None else run_channel(serial), asyncio.get_running_loop(), changed)
        lock = lock_number(serial) if serial is not None and log else None
        adding = asyncio.run_coroutine_threadsafe(self._add(waiter, lock), self._loop)
        try:
            yield await asyncio.shield(asyncio.wrap_future(adding))
        finally:
            adding.add_done_callback(lambda _: self._remove_soon(waiter))

    def _remove_soon(self, waiter: _Waiter) -> None:
        with suppress(RuntimeError):  # the loop is closed
            asyncio.run_coroutine_threadsafe(self._remove(waiter), self._loop)

    async def _add(self, waiter: _Waiter, lock: int | None) -> bool:
        async with self._changing:
            is_new = waiter.channel not in self._waiters
            self._waiters.setdefault(waiter.channel, []).append(waiter)
            is_reported = lock is None or lock in self._interests or len(self._interests) < MAX_INTERESTS
            is_new_lock = is_reported and lock is not None and lock not in self._interests
            if is_reported and lock is not None:
                waiter.lock = lock
                self._interests[lock] = self._interests.get(lock, 0) + 1
            if self._connection is None:
                await self._connect_or_retry()
                return is_reported
            try:
                if is_new:
                    await self._connection.add_listener(waiter.channel, self._notify)
                if is_new_lock:
                    await _lock(self._connection, lock)
            except DRIVER_ERRORS:
                self._on_lost()
            return is_reported

    async def _remove(self, waiter: _Waiter) -> None:
        async with self._changing:
            waiters = self._waiters[waiter.channel]
            waiters.remove(waiter)
            if not waiters:
                del self._waiters[waiter.channel]
            is_unlocked = False
            if waiter.lock is not None:
                self._interests[waiter.lock] -= 1
                is_unlocked = not self._interests[waiter.lock]
                if is_unlocked:
                    del self._interests[waiter.lock]
            connection = self._connection
            if connection is None:
                return
            if not self._waiters:
                self._connection = None
                with suppress(*DRIVER_ERRORS):
                    await connection.close(timeout=_CLOSE_TIMEOUT_S)
                return
            with suppress(*DRIVER_ERRORS):
                if is_unlocked:
                    unlock = "SELECT pg_advisory_unlock_shared($1, $2)"
                    await connection.execute(unlock, INTEREST_LOCK, waiter.lock)
                if not waiters:
                    await connection.remove_listener(waiter.channel, self._notify)

    async def _connect_or_retry(self) -> None:
        """Connect now; or later, when the server was there before. Then everyone is woken."""
        try:
            await self._connect()
        except DRIVER_ERRORS as error:
            if not self._was_connected:
                raise storage_error(self._url, error) from error
            self._start_reconnecting()

    async def _connect(self) -> None:
        connection = await self._open()
        try:
            for channel in self._waiters:
                await connection.add_listener(channel, self._notify)
            for lock in self._interests:
                await _lock(connection, lock)
        except BaseException:
            connection.terminate()
            raise
        self._connection, self._was_connected = connection, True
        connection.add_termination_listener(lambda _: self._on_lost())

    def _on_lost(self) -> None:
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None
            self._start_reconnecting()

    def _start_reconnecting(self) -> None:
        if self._reconnecting is None:
            self._reconnecting = self._loop.create_task(self._reconnect())

    async def _reconnect(self) -> None:
        while True:
            async with self._changing:
                with suppress(*DRIVER_ERRORS, HoldfastError):
                    if self._connection is None and self._waiters:
                        await self._connect()
                    self._reconnecting = None
                    break
            await asyncio.sleep(_RETRY_DELAY_S)
        for waiters in self._waiters.values():
            for waiter in waiters:
                waiter.wake()

    def _notify(self, _connection: object, _pid: int, channel: str, _payload: str) -> None:
        for waiter in self._waiters.get(channel, ()):
            waiter.wake()


async def _lock(connection: Connection, lock: int | None) -> None:
    await connection.execute("SELECT pg_advisory_lock_shared($1, $2)", INTEREST_LOCK, lock)
