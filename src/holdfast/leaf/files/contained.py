"""Files opened inside one folder and nowhere else, whatever their path or a link in it says.

A path that was checked may lead elsewhere a moment later: someone who can write in the folder can replace any part of
it by a link. So a path is resolved once, and its real components are then opened one by one without following links.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from holdfast.leaf.errors import Denied

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def resolve_inside(root: str, path: str) -> str:
    """The real path of a file below `root`. `Denied` when it lies outside or in `.git`, by `..`, a link or its name."""
    home = os.path.realpath(root)
    if "\0" in path or not _is_a_name(path):
        raise Denied(f"{path!r} is not a path")
    real = os.path.realpath(os.path.join(home, path))
    if real != home and not real.startswith(f"{home.rstrip(os.sep)}{os.sep}"):
        raise Denied(f"{path} is outside of {home}")
    if ".git" in os.path.relpath(real, home).split(os.sep):
        raise Denied(f"{path} belongs to git, not to the work")
    return real


def _is_a_name(path: str) -> bool:
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        return False
    return True


@contextmanager
def folder_of(root: str, path: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
    """The open folder that a real path below `root` lies in, and the file's name in it."""
    *folders, name = os.path.relpath(path, root).split(os.sep)
    current = os.open(root, _FOLDER)
    try:
        for folder in folders:
            if make:
                with suppress(FileExistsError):
                    os.mkdir(folder, dir_fd=current)
            below = os.open(folder, _FOLDER, dir_fd=current)
            os.close(current)
            current = below
        yield current, name
    finally:
        os.close(current)


def open_plain(folder: int, name: str, path: str, flags: int) -> int:
    """Open a plain file of an open folder. A pipe in its place would make us wait for whoever is at its other end."""
    fd = os.open(name, flags | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    raise Denied(f"{path} is not a plain file")


def read_start(root: str, path: str, limit: int) -> tuple[bytes, int]:
    """The first `limit` bytes of a file below `root`, and how many it has."""
    with folder_of(os.path.realpath(root), resolve_inside(root, path)) as (folder, name):
        fd = open_plain(folder, name, path, os.O_RDONLY)
    with open(fd, "rb") as file:
        return file.read(limit), os.fstat(file.fileno()).st_size
