"""Whole file systems, brought to their disks: for what other programs wrote there and did not sync.

And what never came to a disk, so that nobody takes it for written.
"""

import asyncio
import ctypes
import os
from contextlib import suppress
from errno import EINVAL, ENOSYS, EOPNOTSUPP, EPERM
from functools import cache

from holdfast.leaf.errors import StorageFailed

_NOT_HERE = (ENOSYS, EPERM, EOPNOTSUPP, EINVAL)  # where a sandbox or a file system does not have it


async def sync_file_systems(*paths: str) -> None:
    """Return when all that was ever written to the file systems of these paths would survive a power cut.

    `FileNotFoundError` when one of them is gone; the others are synced all the same.
    """
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
    synced = set[int]()
    gone: OSError | None = None
    for path in paths:
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError) as error:
            gone = error
            continue
        try:
            device = os.fstat(fd).st_dev
            if device not in synced:
                _sync_file_system_of(fd, path)
                synced.add(device)
        finally:
            os.close(fd)
    if gone is not None:
        raise gone


def _sync_file_system_of(fd: int, path: str) -> None:
    code = ctypes.get_errno() if _libc().syncfs(fd) else 0
    if code in _NOT_HERE:
        os.sync()
    elif code:
        raise OSError(code, os.strerror(code), path)


def forget_unwritten(fd: int) -> None:
    """After a failed sync, let everybody see what of a file is on the disk.

    The kernel does not try again. It takes the pages that it could not write for written and goes on to show them, and
    the next sync succeeds without them: whoever reads them then builds on what the next power cut takes away. What is
    still to be written is not touched. Best effort: a page that is in use at this moment stays as it is.
    """
    with suppress(OSError):
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
