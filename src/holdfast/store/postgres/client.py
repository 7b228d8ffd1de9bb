"""This process's connections to one store: a thread with an event loop of its own, and a few connections in it.

Why a thread: listing and finding runs blocks, also inside a running event loop; a lease must be renewed while the
session's own loop is busy; and a program may run several event loops, one after the other. Only the journal has a
connection in its session's loop, because each append waits for it.

Work that finds its connection lost is tried again: everything that is asked here is harmless when it happens twice.
A process that never reached the server is told so at once; one that did waits for the server to come back.
"""

import asyncio
import os
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from typing import TypeVar

from holdfast.leaf.errors import HoldfastError
from holdfast.store.postgres.connect import DRIVER_ERRORS, Connection, connect, is_connection_lost, storage_error
from holdfast.store.postgres.listener import Listener
from holdfast.store.postgres.schema import prepare

T = TypeVar("T")
Work = Callable[[Connection], Awaitable[T]]

_MAX_CONNECTIONS = 4  # at a time; further work waits
_MAX_URGENT_CONNECTIONS = 2  # besides, for leases
_IDLE_S = 10.0  # after so long an unused connection is closed
_RETRY_S = 30.0  # how long a server that was reached before may be away
BLOCKING_S = 5.0  # for work that blocks an event loop
_RETRY_DELAY_S = 0.1

_clients: dict[tuple[int, str], "Client"] = {}
_clients_lock = threading.Lock()


def client_of(url: str) -> "Client":
    """Return this process's client of a store. A forked child gets its own."""
    with _clients_lock:
        key = (os.getpid(), url)
        if key not in _clients:
            _clients[key] = Client(url)
        return _clients[key]


class Client:
    def __init__(self, url: str) -> None:
        self.url = url
        self._loop = asyncio.new_event_loop()
        self._idle: list[tuple[Connection, float]] = []
        self._free = asyncio.Semaphore(_MAX_CONNECTIONS)
        self._free_for_urgent = asyncio.Semaphore(_MAX_URGENT_CONNECTIONS)
        self._was_reached = False
        self._closing: asyncio.TimerHandle | None = None
        self.listener = Listener(self._loop, self.open, url)
        threading.Thread(target=self._run_loop, name="holdfast-store", daemon=True).start()

    async def run(self, work: Work[T], *, retry_s: float = _RETRY_S) -> T:
        """Do something with a connection. It may be done twice, when the connection is lost."""
        return await self.call(self.attempts(work, retry_s))

    def run_blocking(self, work: Work[T], *, timeout_s: float = BLOCKING_S) -> T:
        """Do it while the calling thread waits, for as long as a folder takes to list."""
        return self.call_blocking(self.attempts(work, 0.0), timeout_s=timeout_s)

    def call_blocking(self, coroutine: Coroutine[object, object, T], *, timeout_s: float = BLOCKING_S) -> T:
        """Run a coroutine in the client's loop while the calling thread waits."""
        future = self.start(coroutine)
        try:
            return future.result(timeout_s)
        except DRIVER_ERRORS as error:
            future.cancel()
            raise storage_error(self.url, error) from error

    async def call(self, coroutine: Coroutine[object, object, T]) -> T:
        """Run a coroutine in the client's loop."""
        return await asyncio.wrap_future(self.start(coroutine))

    def start(self, coroutine: Coroutine[object, object, T]) -> "Future[T]":
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def _run_loop(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    async def attempts(self, work: Work[T], retry_s: float = _RETRY_S, *, urgent: bool = False) -> T:
        """The same as `run`, for coroutines of the client's loop. `urgent` work has connections of its own."""
        deadline = time.monotonic() + retry_s
        while True:
            try:
                async with self._free_for_urgent if urgent else self._free:
                    return await self._attempt(work)
            except DRIVER_ERRORS as error:
                if not (self._was_reached and is_connection_lost(error)) or time.monotonic() > deadline:
                    raise storage_error(self.url, error) from error
            await asyncio.sleep(_RETRY_DELAY_S)

    async def _attempt(self, work: Work[T]) -> T:
        connection = self._take_idle() or await self.open()
        try:
            result = await work(connection)
        except BaseException as error:
            is_usable = isinstance(error, Exception) and not is_connection_lost(error)
            if is_usable and not connection.is_in_transaction():
                self._put_idle(connection)
            else:
                connection.terminate()
            raise
        self._put_idle(connection)
        return result

    async def open(self) -> Connection:
        """Open a connection; the first one brings the tables up to date."""
        connection = await connect(self.url)
        if not self._was_reached:
            try:
                await prepare(connection, self.url)
            except BaseException:
                connection.terminate()
                raise
            self._was_reached = True
        return connection

    def _take_idle(self) -> Connection | None:
        while self._idle:
            connection, _ = self._idle.pop()
            if not connection.is_closed():
                return connection
        return None

    def _put_idle(self, connection: Connection) -> None:
        self._idle.append((connection, time.monotonic()))
        if self._closing is None:
            self._closing = self._loop.call_later(_IDLE_S, self._close_idle)

    def _close_idle(self) -> None:
        self._closing = None
        since = time.monotonic() - _IDLE_S
        for connection, used in self._idle:
            if used <= since:
                self._loop.create_task(_close(connection))
        self._idle = [(connection, used) for connection, used in self._idle if used > since]
        if self._idle:
            self._closing = self._loop.call_later(_IDLE_S, self._close_idle)


async def _close(connection: Connection) -> None:
    with suppress(*DRIVER_ERRORS, HoldfastError):
        await connection.close(timeout=BLOCKING_S)
