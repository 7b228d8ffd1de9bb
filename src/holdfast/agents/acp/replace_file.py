"""Replaces a file atomically.

Where the file system supports it, the new file has no name before it is complete: if we die, nothing of it is left.
Elsewhere, and for the moment of the rename, it has a temporary name that our git commands exclude.
"""

import errno
import os
import secrets
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import NamedTuple

from holdfast.core.work.names import temporary_name
from holdfast.leaf.failpoints import Failpoint, failpoint_pair

_FAILPOINT, _FAILPOINT_HALF_WRITTEN = failpoint_pair("file.replace"), Failpoint("file.replace.named")
_NEW_FILE_MODE, _PRIVATE_MODE = 0o666, 0o600
_WRITE_FLAGS = os.O_WRONLY | os.O_CLOEXEC
_CONTENT_ATTRIBUTES = frozenset(
    {"security.capability", "security.ima", "security.evm"}
)  # only valid for the old content
_ACL_ATTRIBUTE = "system.posix_acl_access"
_IGNORED_ERRNOS = (
    errno.ENOTSUP,
    errno.EPERM,
    errno.EACCES,
    errno.ENODATA,
    errno.EINVAL,
)  # an access list may name users that we cannot set


class FileMetadata(NamedTuple):
    """What a new file takes from the old one: mode, attributes and, if needed, owner and group.

    An access list is an attribute; without it, the mode would give the group what the list denied.
    """

    mode: int
    attributes: Mapping[str, bytes]
    owner: tuple[int, int] | None

    @classmethod
    def read(cls, fd: int, *, with_owner: bool) -> "FileMetadata":
        status = os.fstat(fd)
        owner = (status.st_uid, status.st_gid) if with_owner else None
        return cls(stat.S_IMODE(status.st_mode), _read_attributes(fd), owner)


def replace_file(folder: int, name: str, data: bytes, metadata: FileMetadata | None = None) -> None:
    """Create or replace a file in an open folder. Its content is synced before it gets its name.

    Raises `PermissionError` when the folder is read-only, or the owner cannot be set.
    """
    temporary = temporary_name(secrets.token_hex(8))
    _FAILPOINT.before()
    try:
        try:
            named = _link_when_complete(folder, (name, temporary), data, metadata)
        except OSError:  # unsupported, with a different errno on each file system; a full disk fails again below
            named = _create_in_place(folder, temporary, data, metadata)
        if named != name:
            _FAILPOINT_HALF_WRITTEN()
            os.rename(named, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder)
        raise
    _FAILPOINT.after()


def _link_when_complete(folder: int, names: tuple[str, str], data: bytes, metadata: FileMetadata | None) -> str:
    """Return the name that it got: the second only when the first exists."""
    fd = os.open(".", _WRITE_FLAGS | os.O_TMPFILE, _initial_mode(metadata), dir_fd=folder)
    try:
        _fill(fd, data, metadata)
        for name in names:
            with suppress(FileExistsError):
                os.link(f"/proc/self/fd/{fd}", name, dst_dir_fd=folder)
                return name
    finally:
        os.close(fd)
    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), names[1])


def _create_in_place(folder: int, name: str, data: bytes, metadata: FileMetadata | None) -> str:
    fd = os.open(name, _WRITE_FLAGS | os.O_CREAT | os.O_EXCL, _initial_mode(metadata), dir_fd=folder)
    try:
        _fill(fd, data, metadata)
    finally:
        os.close(fd)
    return name


def _initial_mode(metadata: FileMetadata | None) -> int:
    return _NEW_FILE_MODE if metadata is None else _PRIVATE_MODE


def _fill(fd: int, data: bytes, metadata: FileMetadata | None) -> None:
    with os.fdopen(fd, "wb", closefd=False) as file:
        file.write(data)
    if metadata is not None:
        status = os.fstat(fd)
        if metadata.owner not in (None, (status.st_uid, status.st_gid)):
            os.fchown(fd, *metadata.owner)
        _set_attributes(fd, metadata.attributes)
        os.fchmod(fd, _mode_with_acl(_read_attributes(fd), metadata))  # last: it may take away our own access
    os.fsync(fd)


def _mode_with_acl(attributes: Mapping[str, bytes], metadata: FileMetadata) -> int:
    """With an access list, the group bits are the maximum of all its entries; if it was lost, clear them."""
    is_acl_lost = _ACL_ATTRIBUTE in metadata.attributes and _ACL_ATTRIBUTE not in attributes
    return metadata.mode & ~stat.S_IRWXG if is_acl_lost else metadata.mode


def _read_attributes(fd: int) -> dict[str, bytes]:
    """Return all readable attributes, except those that are only valid for the same content."""
    found: dict[str, bytes] = {}
    with _ignore_unsupported():
        for name in set(os.listxattr(fd)) - _CONTENT_ATTRIBUTES:
            with _ignore_unsupported():
                found[name] = os.getxattr(fd, name)
    return found


def _set_attributes(fd: int, wanted: Mapping[str, bytes]) -> None:
    """Set exactly these attributes; removes others, such as the access list that a folder gives to new files."""
    current = _read_attributes(fd)
    for name in current.keys() - wanted.keys():
        with _ignore_unsupported():
            os.removexattr(fd, name)
    for name, value in wanted.items():
        if current.get(name) != value:
            with _ignore_unsupported():
                os.setxattr(fd, name, value)


@contextmanager
def _ignore_unsupported() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in _IGNORED_ERRNOS:
            raise
