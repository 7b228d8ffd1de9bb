"""Writes to a terminal or a pipe that may be slow, stopped with Ctrl-S or closed, without blocking the event loop.

A daemon thread does the writing, so neither the run nor the exit of the program waits for a reader. It writes to the
file descriptor: at exit, Python would wait for a stream's lock that the thread holds.
"""

import asyncio
import os
import select
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread
from typing import NamedTuple


class ReaderGone(Exception):
    """The reader closed the pipe or the terminal."""


class _Job(NamedTuple):
    data: bytes
    loop: asyncio.AbstractEventLoop
    done: "asyncio.Future[bool]"


class AsyncWriter:
    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        Thread(target=self._write_jobs, daemon=True).start()

    async def write(self, text: str | bytes) -> None:
        """Return when the text is written."""
        data = text if isinstance(text, bytes) else text.encode(errors="backslashreplace")
        loop = asyncio.get_running_loop()
        job = _Job(data, loop, loop.create_future())
        self._jobs.put(job)
        if not await job.done:
            raise ReaderGone

    def close(self) -> None:
        self._jobs.put(None)

    def _write_jobs(self) -> None:
        while (job := self._jobs.get()) is not None:
            written = self._write_all(job.data)
            with suppress(RuntimeError):  # the loop is closed, and the caller with it
                job.loop.call_soon_threadsafe(_set_result, job.done, written)

    def _write_all(self, data: bytes) -> bool:
        while data:
            try:
                data = data[os.write(self.fd, data) :]
            except BlockingIOError:  # another process made the shared descriptor non-blocking
                wait = select.poll()
                wait.register(self.fd, select.POLLOUT)
                wait.poll()
            except OSError:
                return False
        return True


def _set_result(done: "asyncio.Future[bool]", written: bool) -> None:  # noqa: FBT001 - called by the loop
    if not done.done():
        done.set_result(written)
