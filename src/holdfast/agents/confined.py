"""Files by an agent's request: inside its worktree, and nowhere else, whatever the path says."""

import errno
import os
import stat
import sys
from itertools import islice

from holdfast.agents.descent import folder_of
from holdfast.leaf.errors import Denied

_LINES = sys.maxsize // 2  # more than any file has
_MOST = 64 * 1024 * 1024  # bytes of a file that is given whole


def inside(root: str, path: str) -> str:
    """The real path of a file in the worktree; `Denied` when it is not in it, by `..`, by a link, or by its name."""
    home = os.path.realpath(root)
    if "\0" in path:
        raise Denied(f"{path!r} is not a path")
    real = os.path.realpath(os.path.join(home, path))
    if real != home and not real.startswith(f"{home}{os.sep}"):
        raise Denied(f"{path} is outside of {home}")
    if ".git" in os.path.relpath(real, home).split(os.sep):
        raise Denied(f"{path} belongs to git, not to the work")
    return real


def read_text(root: str, path: str, line: int | None = None, limit: int | None = None) -> str:
    """A file's text, or so many lines of it from a line on (counted from 1)."""
    with open(_opened(root, path, os.O_RDONLY), encoding="utf-8", errors="replace", newline="") as file:
        if limit is None and os.fstat(file.fileno()).st_size > _MOST:
            raise Denied(f"{path} is longer than {_MOST:,} bytes; read it in pieces, by line and limit")
        if line is None and limit is None:
            return file.read()
        first = min(max((line or 1) - 1, 0), _LINES)
        return "".join(islice(file, first, None if limit is None else first + min(max(limit, 0), _LINES)))


def read_start(root: str, path: str, most: int) -> tuple[bytes, int]:
    """The first bytes of a file, and how many it has."""
    with open(_opened(root, path, os.O_RDONLY), "rb") as file:
        return file.read(most), os.fstat(file.fileno()).st_size


def write_text(root: str, path: str, content: str) -> None:
    with open(_opened(root, path, os.O_WRONLY | os.O_CREAT), "w", encoding="utf-8", newline="") as file:
        file.truncate()
        file.write(content)


def _opened(root: str, path: str, flags: int) -> int:
    """A plain file. A pipe in its place would make us wait for whoever is at its other end."""
    real = inside(root, path)
    try:
        with folder_of(os.path.realpath(root), real, make=bool(flags & os.O_CREAT)) as (folder, name):
            fd = os.open(name, flags | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666, dir_fd=folder)
    except FileNotFoundError:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), real) from None
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    raise Denied(f"{path} is not a file")
