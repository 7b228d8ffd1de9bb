"""The unix socket on which a runner offers live text.

It is in `$XDG_RUNTIME_DIR/holdfast`, which only the user can enter, else in the run's folder. Both are reached through
a descriptor of the folder: the kernel limits the path of a socket to 108 bytes, and a run's folder may be deeper.
"""

import hashlib
import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

_BACKLOG = 16
_NAME = "live.sock"  # in the run's folder
_CREDENTIALS = "3i"  # of a peer: pid, uid, gid


class _Place(NamedTuple):
    folder: str
    name: str


class ListeningSocket(NamedTuple):
    socket: socket.socket
    place: _Place

    def close(self) -> None:
        """Close and delete it. Only the owner of the run may: the name is that of its next owner too."""
        with suppress(OSError), _short_path(self.place) as path:
            os.unlink(path)
        self.socket.close()


def listen(run_folder: str) -> ListeningSocket | None:
    """Bind the run's socket in place of one that a killed runner left; None where no socket can be bound."""
    for place in _places(run_folder, create=True):
        bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            bound.setblocking(False)
            os.fchmod(bound.fileno(), 0o600)  # before it has a name
            with _short_path(place) as path:
                with suppress(FileNotFoundError):
                    os.unlink(path)
                bound.bind(path)
            bound.listen(_BACKLOG)
        except OSError:  # such as a file system without sockets
            bound.close()
            continue
        return ListeningSocket(bound, place)
    return None


def connect(run_folder: str) -> socket.socket | None:
    """Connect to the run's runner; None while there is none, or it does not accept."""
    for place in _places(run_folder, create=False):
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.setblocking(False)
        try:
            with _short_path(place) as path:
                connection.connect(path)
            if is_trusted_peer(connection, os.stat(run_folder).st_uid):
                return connection
        except OSError:
            pass
        connection.close()
    return None


def is_trusted_peer(connection: socket.socket, *user_ids: int) -> bool:
    """Whether the other side is this user, root, or one of these users."""
    size = struct.calcsize(_CREDENTIALS)
    _, user_id, _ = struct.unpack(_CREDENTIALS, connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return user_id in (os.geteuid(), 0, *user_ids)


def _places(run_folder: str, *, create: bool) -> Iterator[_Place]:
    runtime = os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.geteuid()}"
    folder = os.path.join(runtime, "holdfast")
    with suppress(OSError):
        if create and os.stat(runtime).st_uid == os.geteuid():
            with suppress(FileExistsError):
                os.mkdir(folder, mode=0o700)
        status = os.stat(folder, follow_symlinks=False)
        if status.st_uid == os.geteuid() and status.st_mode & 0o077 == 0:
            run = os.path.realpath(run_folder).encode(errors="surrogateescape")
            yield _Place(folder, f"{hashlib.sha256(run).hexdigest()[:32]}.sock")
    yield _Place(run_folder, _NAME)


@contextmanager
def _short_path(place: _Place) -> Iterator[str]:
    fd = os.open(place.folder, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{fd}/{place.name}"
    finally:
        os.close(fd)
