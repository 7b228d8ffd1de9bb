"""The unix sockets of a runner, for live text and for reports, in a folder that only its user can enter.

That is `$XDG_RUNTIME_DIR/holdfast`, else `/tmp/holdfast-UID`; sandboxes hide both from agents. It is not in the run's
folder: a socket that a killed runner leaves there would be in the way of copies and backups. The folder is reached
through a descriptor, because the kernel limits the path of a socket to 108 bytes.
"""

import hashlib
import os
import socket
import stat
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

_BACKLOG = 16
_STALE_S = 60.0  # after which a socket without a runner is deleted
_CREDENTIALS = "3i"  # of a peer: pid, uid, gid
_MAX_PATH_BYTES = 107  # of a socket


class _Place(NamedTuple):
    folder: str
    name: str


class ListeningSocket(NamedTuple):
    socket: socket.socket
    place: _Place

    @property
    def path(self) -> str | None:
        """Where programs that do not use this module connect; None when the path is too long for that."""
        path = os.path.join(*self.place)
        return path if len(os.fsencode(path)) <= _MAX_PATH_BYTES else None

    def close(self) -> None:
        """Close and delete it. Only the owner of the run may: the name is that of its next owner too."""
        with suppress(OSError), _short_path(self.place) as path:
            os.unlink(path)
        self.socket.close()


def listen(run_folder: str, purpose: str = "") -> ListeningSocket | None:
    """Bind the run's socket in place of one that a killed runner left; None where no socket can be bound."""
    for place in _places(run_folder, purpose):
        bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            bound.setblocking(False)
            os.fchmod(bound.fileno(), 0o600)  # before it has a name
            with _short_path(place) as path:
                with suppress(FileNotFoundError):
                    os.unlink(path)
                bound.bind(path)
            bound.listen(_BACKLOG)
            _delete_stale(place)
        except OSError:  # such as a file system without sockets
            bound.close()
            continue
        return ListeningSocket(bound, place)
    return None


def connect(run_folder: str) -> socket.socket | None:
    """Connect to the run's runner; None while there is none, or it does not accept."""
    for place in _places(run_folder):
        with suppress(OSError):
            return _connect(place)
    return None


def is_trusted_peer(connection: socket.socket) -> bool:
    """Whether the other side is this user."""
    size = struct.calcsize(_CREDENTIALS)
    _, user_id, _ = struct.unpack(_CREDENTIALS, connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return bool(user_id == os.geteuid())


def _connect(place: _Place) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.setblocking(False)
        with _short_path(place) as path:
            connection.connect(path)
        if not is_trusted_peer(connection):
            raise PermissionError
    except OSError:
        connection.close()
        raise
    return connection


def _delete_stale(own: _Place) -> None:
    """Delete what killed runners left that were never resumed."""
    for entry in os.scandir(own.folder):
        with suppress(OSError):
            if entry.name == own.name or time.time() - entry.stat().st_mtime < _STALE_S:
                continue
            try:
                _connect(_Place(own.folder, entry.name)).close()
            except ConnectionRefusedError:
                os.unlink(entry.path)


def _places(run_folder: str, purpose: str = "") -> Iterator[_Place]:
    user_id = os.geteuid()
    name = hashlib.sha256(os.path.realpath(run_folder).encode(errors="surrogateescape")).hexdigest()[:32]
    runtime = os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{user_id}"
    for parent, folder in ((runtime, f"{runtime}/holdfast"), ("/tmp", f"/tmp/holdfast-{user_id}")):  # noqa: S108
        with suppress(OSError):
            if parent == "/tmp" or os.stat(parent).st_uid == user_id:  # noqa: S108 - the folder is checked below
                with suppress(FileExistsError):
                    os.mkdir(folder, mode=0o700)
            status = os.stat(folder, follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode) and status.st_uid == user_id and status.st_mode & 0o077 == 0:
                yield _Place(folder, f"{name}{purpose}.sock")


@contextmanager
def _short_path(place: _Place) -> Iterator[str]:
    fd = os.open(place.folder, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{fd}/{place.name}"
    finally:
        os.close(fd)
