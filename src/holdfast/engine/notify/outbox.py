"""Notifications that are not delivered yet, with the position in the log up to which they were collected.

One process at a time owns an outbox, by a lock that the kernel releases when it dies. What is collected is on the disk
before it is sent, and forgotten after it was: a process that is killed in between sends the same again, with its id.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import msgspec

from holdfast.core.notify.notification import Notification
from holdfast.leaf.errors import StorageFailed
from holdfast.leaf.files.disk import REAL_DISK, AppendFailpoints, Disk, replace

OUTBOX = "notify.json"
_LOCK = "notify.lock"
_FAILPOINT = AppendFailpoints("notify.save")


class Entry(msgspec.Struct):
    """A notification on its way to a target. `due` and `since` are Unix times."""

    notification: Notification
    target: str
    since: float
    due: float = 0.0
    attempts: int = 0
    held: bool = False  # for the end of the quiet hours
    problem: str | None = None


class OutboxState(msgspec.Struct):
    """`position` is None before the first collection. `days` has the day of the last digest, by target."""

    position: int | None = None
    entries: list[Entry] = []
    given_up: int = 0
    last_problem: str | None = None
    days: dict[str, str] = {}


class Outbox:
    """The outbox in a folder: of a run, or of the home."""

    def __init__(self, folder: str, disk: Disk = REAL_DISK) -> None:
        self._folder = folder
        self._path = os.path.join(folder, OUTBOX)
        self._disk = disk
        self.state = OutboxState()

    @contextmanager
    def owned(self) -> Iterator[bool]:
        """Own the outbox and load it, or yield False if another process owns it."""
        try:
            fd = os.open(os.path.join(self._folder, _LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StorageFailed.from_os_error(error) from error
        try:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            self.load()
            yield True
        finally:
            os.close(fd)

    def load(self) -> OutboxState:
        """Read the outbox. One that cannot be decoded is set aside, never overwritten."""
        try:
            with open(self._path, "rb") as file:
                data = file.read()
        except FileNotFoundError:
            self.state = OutboxState()
            return self.state
        except OSError as error:
            raise StorageFailed.from_os_error(error) from error
        try:
            self.state = msgspec.json.decode(data, type=OutboxState)
        except (msgspec.DecodeError, UnicodeDecodeError):
            with suppress(OSError):
                os.rename(self._path, f"{self._path}.unreadable")
            self.state = OutboxState(last_problem=f"{self._path} was damaged; it is kept as {OUTBOX}.unreadable")
        return self.state

    def save(self) -> None:
        try:
            replace(self._path, msgspec.json.encode(self.state), _FAILPOINT.wrap(self._disk))
        except OSError as error:
            raise StorageFailed.from_os_error(error) from error
