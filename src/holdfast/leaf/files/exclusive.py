"""Locks between processes. The kernel releases them when their holder dies."""

import asyncio
import fcntl
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from threading import Thread

from holdfast.leaf.files.disk import make_directories


@contextmanager
def lock_folder(folder: str) -> Iterator[None]:
    """Lock a folder, creating it if needed. Waits for other holders; does not block readers."""
    make_directories(folder)
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


@asynccontextmanager
async def hold_file_lock(path: str, waits: Callable[[int | None], None]) -> AsyncIterator[None]:
    """Hold the lock of a file, which then has our pid. `waits` is called, with the holder's, if another has it."""
    async with lock_file(path, waits) as fd:
        os.ftruncate(fd, 0)
        os.pwrite(fd, b"%d\n" % os.getpid(), 0)
        yield


@asynccontextmanager
async def lock_file(path: str, waits: Callable[[int | None], None] = lambda _: None) -> AsyncIterator[int]:
    """Hold the lock of a file, which is not changed. Everything else in this process goes on while it waits."""
    make_directories(os.path.dirname(path))
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        waits(_pid_in(fd))
        fd = await _wait_for_lock(fd)
    except BaseException:
        os.close(fd)
        raise
    try:
        yield fd
    finally:
        os.close(fd)


def _pid_in(fd: int) -> int | None:
    text = os.pread(fd, 20, 0).strip()
    return int(text) if text.isdigit() else None


async def _wait_for_lock(fd: int) -> int:
    """Lock in a daemon thread, for which nothing waits: cancelled, it closes the file once it has the lock."""
    loop = asyncio.get_running_loop()
    locked: asyncio.Future[int] = loop.create_future()

    def wait() -> None:
        error = None
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
        except OSError as failure:
            error = failure
        try:
            loop.call_soon_threadsafe(hand_over, error)
        except RuntimeError:  # the loop is closed
            os.close(fd)

    def hand_over(error: OSError | None) -> None:
        if error is not None or locked.cancelled():
            os.close(fd)
        if not locked.cancelled():
            locked.set_exception(error) if error is not None else locked.set_result(fd)

    Thread(target=wait, daemon=True).start()
    return await locked
