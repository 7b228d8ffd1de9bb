"""The ground a journal stands on: its lock and its log are those that others find, and the log ends where it was left.

This is asked before every write, so the answer must be cheap. No name in a folder changes without a change of the
folder's own time: while that stands still, what was true of lock and log when they were last looked at still is.
"""

import os
import time
from collections.abc import Callable

from holdfast.leaf.errors import Fenced
from holdfast.store.base import Position

SETTLED = 20_000_000  # nanoseconds: two changes that are closer together may carry the same time


class Ground:
    def __init__(
        self, path: str, fd: int, still_owned: Callable[[], bool], now: Callable[[], int] = time.time_ns
    ) -> None:
        self._path = path
        self._now = now
        self._fd = fd
        self._still_owned = still_owned
        self._inode = os.fstat(fd).st_ino
        self._folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)
        self._looked_at = -1  # the folder's time then

    def check(self, end: Position) -> None:
        changed = os.fstat(self._folder).st_ctime_ns
        if changed != self._looked_at:
            self._look()
            if self._now() - changed > SETTLED:
                self._looked_at = changed
        size = os.lseek(self._fd, 0, os.SEEK_END)
        if size != end:
            raise Fenced(
                f"{self._path} is {size} bytes long, its owner left it at {end}: "
                "something else wrote to it; nothing more is written"
            )

    def close(self) -> None:
        os.close(self._folder)

    def _look(self) -> None:
        if not self._still_owned():
            raise Fenced(
                f"{self._path} has another owner now, or its lock is gone; nothing more is written to it; `holdfast ls`"
            )
        try:
            there = os.stat(self._path).st_ino
        except FileNotFoundError:
            there = None
        if there != self._inode:
            raise Fenced(
                f"{self._path} was moved or deleted under its owner; nothing more is written to it; put it back"
            )
