"""Compresses the log of an archived run, and expands it again. Only for the owner of the run.

One rename puts the new file in place, and then the other one is deleted. A process that is killed between the two
leaves both: the plain one counts (see `log_bytes`), and the next call deletes the other or writes it again.
"""

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

from holdfast.leaf.errors import StorageFailed
from holdfast.leaf.failpoints import failpoint_pair
from holdfast.leaf.files.directories import sync_directory
from holdfast.leaf.files.disk import REAL_DISK, AppendFailpoints, Disk, disk_advice, write_all
from holdfast.store.files.frames import FRAME_BYTES, CompressedLog, compress
from holdfast.store.files.layout import COMPRESSED_SUFFIX
from holdfast.store.files.log_bytes import open_log_bytes, stat_log

_FAILPOINT_COMPRESS, _FAILPOINT_EXPAND = AppendFailpoints("log.compress"), AppendFailpoints("log.expand")
_FAILPOINT_DELETE_PLAIN = failpoint_pair("log.compress.delete_plain")
_FAILPOINT_DELETE_COMPRESSED = failpoint_pair("log.expand.delete_compressed")

Lines = Iterable[bytes]


class FileLogCompressor:
    def __init__(self, path: str, disk: Disk = REAL_DISK) -> None:
        self._path = path
        self._disk = disk

    def generation(self) -> int | None:
        if os.path.exists(self._path):
            return None
        with open_log_bytes(self._path) as log:
            return log.generation if isinstance(log, CompressedLog) else None

    def size(self) -> int:
        return stat_log(self._path)[1].st_size

    def compress(self, generation: int, rewrite: Callable[[Lines], Lines]) -> None:
        path, compressed = self._path, f"{self._path}{COMPRESSED_SUFFIX}"
        size = os.path.getsize(path)
        _write(compressed, compress(rewrite(_lines(path)), generation), _FAILPOINT_COMPRESS, self._disk)
        difference = _difference(compressed, size, rewrite(_lines(path)))
        if difference is not None:
            os.unlink(compressed)
            raise StorageFailed(f"{path} was not compressed: {difference}; nothing was changed")
        _FAILPOINT_DELETE_PLAIN.before()
        os.unlink(path)
        sync_directory(os.path.dirname(path))
        _FAILPOINT_DELETE_PLAIN.after()


def _difference(compressed: str, size: int, expected: Lines) -> str | None:
    """Decode the whole copy, as a later reader will, and say how it differs from what it should hold."""
    found, wanted = hashlib.sha256(), hashlib.sha256()
    try:
        with open(compressed, "rb", buffering=0) as file:
            log = CompressedLog(file.fileno(), compressed)
            if log.size != size:
                return "the copy has another length"
            for start in range(0, size, FRAME_BYTES):
                found.update(log.pread(FRAME_BYTES, start))
    except StorageFailed as error:
        return f"the copy cannot be read: {error}"
    for line in expected:
        wanted.update(line)
    return None if found.digest() == wanted.digest() else "the copy has another content"


def expand_log(path: str, disk: Disk) -> None:
    """Make the log a plain file, so that it can be written to. Does nothing to a plain one."""
    compressed = f"{path}{COMPRESSED_SUFFIX}"
    if not os.path.exists(compressed):
        return
    if not os.path.exists(path):
        with open_log_bytes(path) as log:
            pieces = (log.pread(FRAME_BYTES, start) for start in range(0, log.size, FRAME_BYTES))
            _write(path, pieces, _FAILPOINT_EXPAND, disk)
    _FAILPOINT_DELETE_COMPRESSED.before()
    with suppress(FileNotFoundError):
        os.unlink(compressed)
    sync_directory(os.path.dirname(path))
    _FAILPOINT_DELETE_COMPRESSED.after()


def _write(target: str, pieces: Iterable[bytes], failpoints: AppendFailpoints, disk: Disk) -> None:
    """Write a file beside its place, sync it, and move it there."""
    temporary = f"{target}.tmp"
    wrapped = failpoints.wrap_write(disk)
    try:
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            for piece in pieces:
                write_all(wrapped, fd, piece)
            disk.sync(fd)
        finally:
            os.close(fd)
        os.rename(temporary, target)
        sync_directory(os.path.dirname(target))
    except BaseException as error:
        with suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError):
            raise StorageFailed(f"cannot write {target}: {error.strerror}; {disk_advice(error)}") from error
        raise
    failpoints.after()


def _lines(path: str) -> Iterator[bytes]:
    with open(path, "rb") as file:
        yield from file
