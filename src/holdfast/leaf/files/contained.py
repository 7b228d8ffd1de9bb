"""Open files inside one folder and nowhere else, whatever their path or a link in it says.

A checked path may lead elsewhere a moment later: a process that can write in the folder can replace any part of the
path with a link. So a path is resolved once, and its real components are opened one by one without following links.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from holdfast.leaf.errors import Denied

_OPEN_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def resolve_inside(root: str, path: str) -> str:
    """The real path of a file below `root`. `Denied` when it is outside or in `.git`, by `..`, a link or its name."""
    folder = os.path.realpath(root)
    if "\0" in path or not _is_encodable(path):
        raise Denied(f"{path!r} is not a path")
    real = os.path.realpath(os.path.join(folder, path))
    if real != folder and not real.startswith(f"{folder.rstrip(os.sep)}{os.sep}"):
        raise Denied(f"{path} is outside of {folder}")
    if ".git" in os.path.relpath(real, folder).split(os.sep):
        raise Denied(f"{path} belongs to git")
    return real


def _is_encodable(path: str) -> bool:
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        return False
    return True


@contextmanager
def open_parent_folder(root: str, path: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
    """An open descriptor of the folder that holds a real path below `root`, and the file's name in it."""
    *folders, name = os.path.relpath(path, root).split(os.sep)
    current = os.open(root, _OPEN_FOLDER_FLAGS)
    try:
        for folder in folders:
            if make:
                with suppress(FileExistsError):
                    os.mkdir(folder, dir_fd=current)
            below = os.open(folder, _OPEN_FOLDER_FLAGS, dir_fd=current)
            os.close(current)
            current = below
        yield current, name
    finally:
        os.close(current)


def open_regular_file(folder: int, name: str, path: str, flags: int) -> int:
    """Open a regular file of an open folder, without blocking: on a pipe, open() waits for the other end."""
    fd = os.open(name, flags | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    raise Denied(f"{path} is not a regular file")


def read_prefix(root: str, path: str, max_bytes: int) -> tuple[bytes, int]:
    """The first `max_bytes` bytes of a file below `root`, and its size."""
    with open_parent_folder(os.path.realpath(root), resolve_inside(root, path)) as (folder, name):
        fd = open_regular_file(folder, name, path, os.O_RDONLY)
    with open(fd, "rb") as file:
        return file.read(max_bytes), os.fstat(file.fileno()).st_size
