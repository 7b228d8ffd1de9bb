"""Reads and writes files for an agent, only inside its worktree, whatever the path says."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from typing import TextIO

from holdfast.agents.acp.replace_file import FileMetadata, replace_file
from holdfast.leaf.errors import Denied
from holdfast.leaf.files.contained import open_parent_folder, open_regular_file, resolve_inside

_MAX_BYTES = 64 * 1024 * 1024  # of a whole file; characters of requested lines
_MAX_SCANNED_CHARS = 256 * 1024 * 1024  # to find a line
_CHUNK_CHARS = 64 * 1024  # of a line held in memory before it is known whether it is requested
# the folder is read-only, or the file is a mount point
_WRITE_IN_PLACE_ERRNOS = (errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY)


def read_text(root: str, path: str, line: int | None = None, limit: int | None = None) -> str:
    """Return a file's text, or `limit` lines of it starting with `line` (counted from 1)."""
    with open(_open_file(root, path, os.O_RDONLY), encoding="utf-8", errors="replace", newline="") as file:
        if limit is None and os.fstat(file.fileno()).st_size > _MAX_BYTES:
            raise Denied(f"{path} is longer than {_MAX_BYTES:,} bytes; read it in pieces, with line and limit")
        if line is None and limit is None:
            return file.read()
        first = max(line or 1, 1)
        return _read_lines(file, path, first, None if limit is None else first + max(limit, 0))


def _read_lines(file: TextIO, path: str, first: int, end: int | None) -> str:
    kept = StringIO()  # a list of short lines would need many times their size
    size = skipped = 0
    for number, piece in _line_chunks(file):
        if end is not None and number >= end:
            break
        if number < first:
            skipped += len(piece)
            if skipped > _MAX_SCANNED_CHARS:
                raise Denied(f"line {first} of {path} is beyond its first {_MAX_SCANNED_CHARS:,} characters")
            continue
        size += len(piece)
        if size > _MAX_BYTES:
            raise Denied(f"these lines of {path} are longer than {_MAX_BYTES:,} characters; ask for fewer")
        kept.write(piece)
    return kept.getvalue()


def _line_chunks(file: TextIO) -> Iterator[tuple[int, str]]:
    """Yield the lines with their numbers; a long line in several pieces."""
    number, before = 0, "\n"
    while piece := file.readline(_CHUNK_CHARS):
        if before.endswith("\n") or (before.endswith("\r") and piece != "\n"):
            number += 1
        yield number, piece
        before = piece


def write_text(root: str, path: str, content: str) -> None:
    """Write a file atomically; it keeps its mode, owner and attributes.

    The result is a new file: other hard links keep the old text. Where the folder does not accept new files, the file
    is overwritten in place, which is not atomic: a crash in the middle leaves part of the text.
    """
    data = _encode(path, content)
    with _open_parent(root, path, create=True) as (folder, name):
        try:
            fd = open_regular_file(folder, name, path, os.O_WRONLY)
        except FileNotFoundError:
            replace_file(folder, name, data)
            return
        with open(fd, "wb") as file:
            try:
                replace_file(folder, name, data, FileMetadata.read(fd, with_owner=True))
            except OSError as error:
                if error.errno not in _WRITE_IN_PLACE_ERRNOS:
                    raise
                file.truncate()
                file.write(data)
                file.flush()
                os.fsync(fd)


def _encode(path: str, content: str) -> bytes:
    try:
        return content.encode()
    except UnicodeEncodeError as error:
        surrogate = content[error.start]
        raise Denied(f"{path} was not written: its text contains {surrogate!r}, half of a character") from None


def _open_file(root: str, path: str, flags: int) -> int:
    with _open_parent(root, path) as (folder, name):
        return open_regular_file(folder, name, path, flags)


@contextmanager
def _open_parent(root: str, path: str, *, create: bool = False) -> Iterator[tuple[int, str]]:
    real = resolve_inside(root, path)
    try:
        with open_parent_folder(os.path.realpath(root), real, make=create) as folder_and_name:
            yield folder_and_name
    except FileNotFoundError:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), real) from None
