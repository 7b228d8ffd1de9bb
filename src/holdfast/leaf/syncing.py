"""Whole file systems, brought to their disks: for what other programs wrote there and did not sync."""

import asyncio
import ctypes
import os
from errno import EINVAL, ENOSYS, EOPNOTSUPP, EPERM
from functools import cache

from holdfast.leaf.errors import StorageFailed

_NOT_HERE = (ENOSYS, EPERM, EOPNOTSUPP, EINVAL)  # where a sandbox or a file system does not have it


async def sync_file_systems(*paths: str) -> None:
    """Return when all that was ever written to the file systems of these paths would survive a power cut."""
    await asyncio.to_thread(_sync, paths)


async def have_on_disk(*paths: str) -> None:
    """The same; what goes wrong is a line that its user can act on.

    Of a folder that somebody deleted there is nothing to bring there: whoever looks for it next finds out.
    """
    try:
        await sync_file_systems(*(path for path in paths if os.path.isdir(path)))
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise StorageFailed.by(error) from error


def _sync(paths: tuple[str, ...]) -> None:
    for path in {os.stat(path).st_dev: path for path in paths}.values():
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            code = ctypes.get_errno() if _libc().syncfs(fd) else 0
        finally:
            os.close(fd)
        if code in _NOT_HERE:
            os.sync()
        elif code:
            raise OSError(code, os.strerror(code), path)


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
