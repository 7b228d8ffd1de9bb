"""Ends a session cleanly while there still is some disk space, instead of failing when there is none."""

import asyncio
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

CHECK_INTERVAL_S = 10.0
_SHARE = 0.02  # of a small file system, instead of the configured size
_MEGABYTE = 1024 * 1024


class FreeSpace(NamedTuple):
    """Of the file system of a path, in bytes, as this user may use it."""

    path: str
    free: int
    size: int


def free_space(path: str) -> FreeSpace | None:
    """Return None if it cannot be told."""
    with suppress(OSError):
        found = os.statvfs(path)
        return FreeSpace(path, found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize)
    return None


class DiskGuard:
    """Watches the file systems of a run: its folder, and its repository."""

    def __init__(
        self,
        paths: Sequence[str],
        reserve: int,
        measure: Callable[[str], FreeSpace | None] = free_space,
        interval_s: float = CHECK_INTERVAL_S,
    ) -> None:
        """`reserve` is in megabytes; 0 disables the guard."""
        self._paths = paths
        self._reserve = reserve
        self._measure = measure
        self._interval_s = interval_s

    def problem(self) -> str | None:
        """What is short, and what to do; None while there is enough."""
        for found in filter(None, map(self._measure, self._paths)):
            least = min(self._reserve * _MEGABYTE, int(found.size * _SHARE))
            if found.free < least:
                return (
                    f"{found.free // _MEGABYTE} MB are free at {found.path}, less than {least // _MEGABYTE} MB "
                    f"(disk.reserve = {self._reserve}); free some, for example with: holdfast archive --older-than 30d"
                )
        return None

    async def watch(self, on_problem: Callable[[], None]) -> None:
        """Call `on_problem` once there is too little, and return."""
        while self.problem() is None:  # noqa: ASYNC110 - nothing reports that a file system fills up
            await asyncio.sleep(self._interval_s)
        on_problem()
