"""Writing to a terminal or a pipe that may be slow, stopped with Ctrl-S, or gone, while others have work to do.

The writing is done by a thread that nobody waits for at the end: neither a run at work nor the program's exit hangs on
who reads. It writes to the descriptor itself, for a stream's lock would be missed when the program ends.
"""

import asyncio
import os
import select
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread
from typing import NamedTuple


class Gone(Exception):
    """Nobody reads any more."""


class _Job(NamedTuple):
    data: bytes
    loop: asyncio.AbstractEventLoop
    done: "asyncio.Future[bool]"


class Pen:
    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        Thread(target=self._work, daemon=True).start()

    async def write(self, text: str | bytes) -> None:
        """Returns when it is written."""
        data = text if isinstance(text, bytes) else text.encode(errors="backslashreplace")
        loop = asyncio.get_running_loop()
        job = _Job(data, loop, loop.create_future())
        self._jobs.put(job)
        if not await job.done:
            raise Gone

    def put_down(self) -> None:
        self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            written = self._written(job.data)
            with suppress(RuntimeError):  # the loop is closed: whoever asked is gone
                job.loop.call_soon_threadsafe(_settle, job.done, written)

    def _written(self, data: bytes) -> bool:
        while data:
            try:
                data = data[os.write(self.fd, data) :]
            except BlockingIOError:  # somebody made it so for all who have it
                wait = select.poll()
                wait.register(self.fd, select.POLLOUT)
                wait.poll()
            except OSError:
                return False
        return True


def _settle(done: "asyncio.Future[bool]", written: bool) -> None:  # noqa: FBT001 - called by the loop
    if not done.done():
        done.set_result(written)
