"""A file put in the place of another, whole or not at all, whatever happens meanwhile.

Where the file system can, the new one has no name before it is complete: when we die over it, nothing of it is left.
Elsewhere, and for the moment in which it takes its place, its name is `.holdfast-` and so on.
"""

import os
import secrets
from contextlib import suppress
from typing import NamedTuple

_NEW_FILE = 0o666
_WRITING = os.O_WRONLY | os.O_CLOEXEC


class Likeness(NamedTuple):
    """What a new file has of the one before it: its mode, and its owner and group unless they do not matter."""

    mode: int
    owner: tuple[int, int] | None = None


def replace_file(folder: int, name: str, data: bytes, like: Likeness | None = None) -> None:
    """Put it into an open folder, on the disk before it is there.

    `PermissionError` where nobody may put a file into that folder, or make it that owner's.
    """
    temporary = f".holdfast-{secrets.token_hex(8)}.tmp"
    try:
        try:
            _name_when_complete(folder, temporary, data, like)
        except OSError:  # each file system and sandbox that cannot says so in its own way; a full disk says it again
            _name_at_once(folder, temporary, data, like)
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder)
        raise


def _name_when_complete(folder: int, name: str, data: bytes, like: Likeness | None) -> None:
    fd = os.open(".", _WRITING | os.O_TMPFILE, _NEW_FILE, dir_fd=folder)
    try:
        _fill(fd, data, like)
        os.link(f"/proc/self/fd/{fd}", name, dst_dir_fd=folder)
    finally:
        os.close(fd)


def _name_at_once(folder: int, name: str, data: bytes, like: Likeness | None) -> None:
    fd = os.open(name, _WRITING | os.O_CREAT | os.O_EXCL, _NEW_FILE, dir_fd=folder)
    try:
        _fill(fd, data, like)
    finally:
        os.close(fd)


def _fill(fd: int, data: bytes, like: Likeness | None) -> None:
    with os.fdopen(fd, "wb", closefd=False) as file:
        file.write(data)
    if like is not None:
        about = os.fstat(fd)
        if like.owner not in (None, (about.st_uid, about.st_gid)):
            os.fchown(fd, *like.owner)
        os.fchmod(fd, like.mode)
    os.fsync(fd)
