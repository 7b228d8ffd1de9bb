"""Checks before every write that the journal's lock and log are still in place, and the log ends where it was left.

The check must be cheap. Every change of a name in a folder changes the folder's ctime: while that is the same, the last
check of lock and log is still valid.
"""

import os
import time
from collections.abc import Callable

from holdfast.leaf.errors import RunFenced
from holdfast.store.base import Position

SETTLED_NS = 20_000_000  # two changes that are closer together may have the same ctime


class WriteGuard:
    def __init__(self, path: str, fd: int, is_owned: Callable[[], bool], now: Callable[[], int] = time.time_ns) -> None:
        self._path = path
        self._now = now
        self._fd = fd
        self._is_owned = is_owned
        self._inode = os.fstat(fd).st_ino
        self._folder_fd = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)
        self._checked_ctime_ns = -1  # the folder's ctime at the last check

    def check(self, end: Position) -> None:
        changed = os.fstat(self._folder_fd).st_ctime_ns
        if changed != self._checked_ctime_ns:
            self._check_lock_and_log()
            if self._now() - changed > SETTLED_NS:
                self._checked_ctime_ns = changed
        size = os.lseek(self._fd, 0, os.SEEK_END)
        if size != end:
            raise RunFenced(
                f"{self._path} is {size} bytes long, but its owner wrote {end}: "
                "something else wrote to it; nothing more is written"
            )

    def close(self) -> None:
        os.close(self._folder_fd)

    def _check_lock_and_log(self) -> None:
        if not self._is_owned():
            raise RunFenced(
                f"{self._path} has another owner now, or its lock is gone; nothing more is written. Run: holdfast ls"
            )
        try:
            inode = os.stat(self._path).st_ino
        except FileNotFoundError:
            inode = None
        if inode != self._inode:
            raise RunFenced(
                f"{self._path} was moved or deleted while its run was active; nothing more is written. Put it back"
            )
