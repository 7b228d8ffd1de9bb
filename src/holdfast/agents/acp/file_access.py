"""Files by an agent's request: inside its worktree, and nowhere else, whatever the path says."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from typing import TextIO

from holdfast.agents.acp.replace_file import Likeness, replace_file
from holdfast.leaf.errors import Denied
from holdfast.leaf.files.contained import folder_of, open_plain, resolve_inside

_MOST = 64 * 1024 * 1024  # bytes of a file that is given whole; characters of the lines that are given of one
_FURTHEST = 256 * 1024 * 1024  # characters that are gone through to find a line
_PIECE = 64 * 1024  # characters of a line that are held at once, while it is not known whether it is wanted
# its folder is closed, or it is mounted
_MUST_BE_WRITTEN_IN_PLACE = (errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY)


def read_text(root: str, path: str, line: int | None = None, limit: int | None = None) -> str:
    """A file's text, or so many lines of it from a line on (counted from 1)."""
    with open(_opened(root, path, os.O_RDONLY), encoding="utf-8", errors="replace", newline="") as file:
        if limit is None and os.fstat(file.fileno()).st_size > _MOST:
            raise Denied(f"{path} is longer than {_MOST:,} bytes; read it in pieces, by line and limit")
        if line is None and limit is None:
            return file.read()
        first = max(line or 1, 1)
        return _lines(file, path, first, None if limit is None else first + max(limit, 0))


def _lines(file: TextIO, path: str, first: int, end: int | None) -> str:
    kept = StringIO()  # a list of short lines would be many times as large as they are
    size = passed = 0
    for number, piece in _pieces(file):
        if end is not None and number >= end:
            break
        if number < first:
            passed += len(piece)
            if passed > _FURTHEST:
                raise Denied(f"line {first} of {path} lies beyond its first {_FURTHEST:,} characters")
            continue
        size += len(piece)
        if size > _MOST:
            raise Denied(f"these lines of {path} are longer than {_MOST:,} characters; ask for fewer")
        kept.write(piece)
    return kept.getvalue()


def _pieces(file: TextIO) -> Iterator[tuple[int, str]]:
    """The lines, each with its number; a long one in several pieces."""
    number, before = 0, "\n"
    while piece := file.readline(_PIECE):
        if before.endswith("\n") or (before.endswith("\r") and piece != "\n"):
            number += 1
        yield number, piece
        before = piece


def write_text(root: str, path: str, content: str) -> None:
    """Put a text in place, whole or not at all, in a file of the mode, the owner and the attributes that it had.

    It is another file: by its other names, if it has any, the old text is found. Where its folder takes no new files,
    it is written in its place instead, and that is not whole or nothing: a death in the middle leaves part of it.
    """
    data = _encoded(path, content)
    with _place_of(root, path, make=True) as (folder, name):
        try:
            fd = open_plain(folder, name, path, os.O_WRONLY)
        except FileNotFoundError:
            replace_file(folder, name, data)
            return
        with open(fd, "wb") as file:
            try:
                replace_file(folder, name, data, Likeness.of(fd, owner=True))
            except OSError as error:
                if error.errno not in _MUST_BE_WRITTEN_IN_PLACE:
                    raise
                file.truncate()
                file.write(data)
                file.flush()
                os.fsync(fd)


def _encoded(path: str, content: str) -> bytes:
    try:
        return content.encode()
    except UnicodeEncodeError as error:
        half = content[error.start]
        raise Denied(f"{path} was not written: {half!r} in its text is half of a character; write the whole") from None


def _opened(root: str, path: str, flags: int) -> int:
    with _place_of(root, path) as (folder, name):
        return open_plain(folder, name, path, flags)


@contextmanager
def _place_of(root: str, path: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
    real = resolve_inside(root, path)
    try:
        with folder_of(os.path.realpath(root), real, make=make) as place:
            yield place
    except FileNotFoundError:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), real) from None
