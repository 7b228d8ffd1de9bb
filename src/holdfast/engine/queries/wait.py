"""Waiting until nobody is at work on a run."""

import asyncio
import fcntl
import os
from contextlib import suppress
from threading import Thread

from holdfast.leaf.errors import StorageFailed
from holdfast.store.files.layout import LOCK, run_folder


async def wait_until_free(home: str, run_id: str) -> None:
    """By the kernel: the lock is free when its holder ends it, or dies. Nobody waits for the thread that waits."""
    try:
        fd = os.open(os.path.join(run_folder(home, run_id), LOCK), os.O_RDONLY)
    except FileNotFoundError:
        return
    loop, free = asyncio.get_running_loop(), asyncio.Event()
    refused: list[OSError] = []

    def wait() -> None:
        try:
            fcntl.flock(fd, fcntl.LOCK_SH)
        except OSError as error:  # as where a server keeps the locks, and does not answer: nobody knows who is there
            refused.append(error)
        finally:
            os.close(fd)
            with suppress(RuntimeError):  # whoever asked is gone
                loop.call_soon_threadsafe(free.set)

    Thread(target=wait, daemon=True).start()
    await free.wait()
    if refused:
        raise StorageFailed(f"whether run {run_id} is at work cannot be told: {refused[0].strerror}")
