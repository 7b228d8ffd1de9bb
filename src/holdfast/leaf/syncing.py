"""Whole file systems, brought to their disks: for what other programs wrote there and did not sync."""

import asyncio
import ctypes
import os

from holdfast.leaf.errors import StorageFailed


async def sync_file_systems(*paths: str) -> None:
    """Return when all that was ever written to the file systems of these paths would survive a power cut."""
    await asyncio.to_thread(_sync, paths)


async def have_on_disk(path: str) -> None:
    """The same for one path; what goes wrong is a line that its user can act on.

    Of a folder that somebody deleted there is nothing to bring there: whoever looks for it next finds out.
    """
    try:
        await sync_file_systems(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise StorageFailed.by(error) from error


def _sync(paths: tuple[str, ...]) -> None:
    for path in {os.stat(path).st_dev: path for path in paths}.values():
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            if ctypes.CDLL(None, use_errno=True).syncfs(fd):
                code = ctypes.get_errno()
                raise OSError(code, os.strerror(code), path)
        finally:
            os.close(fd)
