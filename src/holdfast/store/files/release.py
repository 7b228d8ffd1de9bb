"""Waits until a run has no owner, by the kernel: the lock is free when its holder releases it or dies."""

import asyncio
import fcntl
import os
from contextlib import suppress
from threading import Thread

from holdfast.leaf.errors import StorageFailed


async def wait_until_unlocked(path: str, run_id: str) -> None:
    """Return when no process holds the lock at `path`. The waiting thread is a daemon: nothing waits for it."""
    try:
        fd = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return
    loop, free = asyncio.get_running_loop(), asyncio.Event()
    errors: list[OSError] = []

    def wait() -> None:
        try:
            fcntl.flock(fd, fcntl.LOCK_SH)
        except OSError as error:  # a file server that keeps the locks and does not answer
            errors.append(error)
        finally:
            os.close(fd)
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(free.set)

    Thread(target=wait, daemon=True).start()
    await free.wait()
    if errors:
        raise StorageFailed(f"cannot tell whether run {run_id} has an owner: {errors[0].strerror}")
