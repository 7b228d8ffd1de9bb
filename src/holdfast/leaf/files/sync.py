"""Sync whole file systems, for files that other programs wrote and did not sync.

Also drops pages that the kernel failed to write, so that no reader takes them for written.
"""

import asyncio
import ctypes
import os
from contextlib import suppress
from errno import EINVAL, ENOSYS, EOPNOTSUPP, EPERM
from functools import cache

from holdfast.leaf.errors import StorageFailed

_UNSUPPORTED_ERRNOS = (ENOSYS, EPERM, EOPNOTSUPP, EINVAL)  # of syncfs in some sandboxes and file systems


async def sync_file_systems(*paths: str) -> None:
    """Return when everything written to the file systems of these paths would survive a power cut.

    Raises `FileNotFoundError` when a path does not exist, after syncing the others.
    """
    await asyncio.to_thread(_sync, paths)


async def sync_existing_folders(*paths: str) -> None:
    """Like `sync_file_systems`, but a failed sync raises `StorageFailed` with a line that the user can act on.

    Deleted folders are ignored: there is nothing to sync, and the next step that needs one reports it.
    """
    try:
        await sync_file_systems(*(path for path in paths if os.path.isdir(path)))
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise StorageFailed.from_os_error(error) from error


def _sync(paths: tuple[str, ...]) -> None:
    synced = set[int]()
    missing: OSError | None = None
    for path in paths:
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError) as error:
            missing = error
            continue
        try:
            device = os.fstat(fd).st_dev
            if device not in synced:
                _sync_file_system_of(fd, path)
                synced.add(device)
        finally:
            os.close(fd)
    if missing is not None:
        raise missing


def _sync_file_system_of(fd: int, path: str) -> None:
    code = ctypes.get_errno() if _libc().syncfs(fd) else 0
    if code in _UNSUPPORTED_ERRNOS:
        os.sync()
    elif code:
        raise OSError(code, os.strerror(code), path)


def drop_unwritten_pages(fd: int) -> None:
    """After a failed sync, make readers see what is on the disk.

    The kernel does not retry. It marks the pages that it could not write as clean and keeps showing them, and the next
    sync succeeds without them: a reader would build on data that the next power cut loses. Dirty pages are not touched.
    Best effort: a page that is in use at this moment stays.
    """
    with suppress(OSError):
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
