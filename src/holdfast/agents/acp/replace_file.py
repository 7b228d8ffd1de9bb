"""A file put in the place of another, whole or not at all, whatever happens meanwhile.

Where the file system can, the new one has no name before it is complete: when we die over it, nothing of it is left.
Elsewhere, and for the moment in which it takes another's place, it has a name by which git leaves it out.
"""

import errno
import os
import secrets
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import NamedTuple

from holdfast.core.work.names import half_written
from holdfast.leaf.failpoints import Point, around

_CRASH, _CRASH_HALF_WRITTEN = around("file.replace"), Point("file.replace.named")
_NEW_FILE, _PRIVATE = 0o666, 0o600
_WRITING = os.O_WRONLY | os.O_CLOEXEC
_OF_CONTENT = frozenset({"security.capability", "security.ima", "security.evm"})  # not true of another content
_ACCESS_LIST = "system.posix_acl_access"
_NOT_OURS = (errno.ENOTSUP, errno.EPERM, errno.EACCES, errno.ENODATA, errno.EINVAL)  # a list may name whom we cannot


class Likeness(NamedTuple):
    """What a new file has of the one before it: mode, attributes, and owner and group unless they do not matter.

    An access list is an attribute; without it the mode would give the group what the list withheld.
    """

    mode: int
    attributes: Mapping[str, bytes]
    owner: tuple[int, int] | None

    @classmethod
    def of(cls, fd: int, *, owner: bool) -> "Likeness":
        about = os.fstat(fd)
        return cls(stat.S_IMODE(about.st_mode), _attributes(fd), (about.st_uid, about.st_gid) if owner else None)


def replace_file(folder: int, name: str, data: bytes, like: Likeness | None = None) -> None:
    """Put it into an open folder, on the disk before it is there.

    `PermissionError` where nobody may put a file into that folder, or make it that owner's.
    """
    temporary = half_written(secrets.token_hex(8))
    _CRASH.before()
    try:
        try:
            named = _name_when_complete(folder, (name, temporary), data, like)
        except OSError:  # each file system and sandbox that cannot says so in its own way; a full disk says it again
            named = _name_at_once(folder, temporary, data, like)
        if named != name:
            _CRASH_HALF_WRITTEN()
            os.rename(named, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder)
        raise
    _CRASH.after()


def _name_when_complete(folder: int, names: tuple[str, str], data: bytes, like: Likeness | None) -> str:
    """Returns which of the names it has: the second only when the first is taken, be it since a moment ago."""
    fd = os.open(".", _WRITING | os.O_TMPFILE, _mode(like), dir_fd=folder)
    try:
        _fill(fd, data, like)
        for name in names:
            with suppress(FileExistsError):
                os.link(f"/proc/self/fd/{fd}", name, dst_dir_fd=folder)
                return name
    finally:
        os.close(fd)
    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), names[1])


def _name_at_once(folder: int, name: str, data: bytes, like: Likeness | None) -> str:
    fd = os.open(name, _WRITING | os.O_CREAT | os.O_EXCL, _mode(like), dir_fd=folder)
    try:
        _fill(fd, data, like)
    finally:
        os.close(fd)
    return name


def _mode(like: Likeness | None) -> int:
    return _NEW_FILE if like is None else _PRIVATE


def _fill(fd: int, data: bytes, like: Likeness | None) -> None:
    with os.fdopen(fd, "wb", closefd=False) as file:
        file.write(data)
    if like is not None:
        about = os.fstat(fd)
        if like.owner not in (None, (about.st_uid, about.st_gid)):
            os.fchown(fd, *like.owner)
        _give(fd, like.attributes)
        os.fchmod(fd, _mode_beside(_attributes(fd), like))  # last: it may close the file to us
    os.fsync(fd)


def _mode_beside(attributes: Mapping[str, bytes], like: Likeness) -> int:
    """Beside a list, the group's part of a mode is the most that anybody in the list has; without it, the group's."""
    lost = _ACCESS_LIST in like.attributes and _ACCESS_LIST not in attributes
    return like.mode & ~stat.S_IRWXG if lost else like.mode


def _attributes(fd: int) -> dict[str, bytes]:
    """All that we may see, but for what holds only while the content is the same."""
    found: dict[str, bytes] = {}
    with _if_allowed():
        for name in set(os.listxattr(fd)) - _OF_CONTENT:
            with _if_allowed():
                found[name] = os.getxattr(fd, name)
    return found


def _give(fd: int, wanted: Mapping[str, bytes]) -> None:
    """These and no others, as the access list that a folder gives to each new file in it."""
    there = _attributes(fd)
    for name in there.keys() - wanted.keys():
        with _if_allowed():
            os.removexattr(fd, name)
    for name, value in wanted.items():
        if there.get(name) != value:
            with _if_allowed():
                os.setxattr(fd, name, value)


@contextmanager
def _if_allowed() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in _NOT_OURS:
            raise
