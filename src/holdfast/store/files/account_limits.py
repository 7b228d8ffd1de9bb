"""The usage limits that runs of a home met, in one locked file. It is a hint: one that cannot be read has no limits."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from holdfast.leaf.errors import StorageFailed
from holdfast.leaf.files.disk import AppendFailpoints, Disk, replace
from holdfast.leaf.files.exclusive import lock_file
from holdfast.store.base import AccountLimit

FILE = "quota.json"
_LOCK = "quota.lock"
_FAILPOINT = AppendFailpoints("quota.save")


class FileLimits:
    def __init__(self, home: str, disk: Disk) -> None:
        self._home = home
        self._disk = disk

    async def put(self, account: str, limit: AccountLimit) -> None:
        async with self._changing() as limits:
            for name in [name for name, known in limits.items() if known.until <= limit.since]:
                del limits[name]
            limits[account] = limit

    async def find(self, account: str) -> AccountLimit | None:
        return self._read().get(account)

    async def clear(self, account: str, until: str) -> None:
        if not _is_met_until(self._read().get(account), until):
            return
        async with self._changing() as limits:
            if _is_met_until(limits.get(account), until):
                del limits[account]

    def _read(self) -> dict[str, AccountLimit]:
        try:
            with open(os.path.join(self._home, FILE), "rb") as file:
                return msgspec.json.decode(file.read(), type=dict[str, AccountLimit])
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            return {}

    @asynccontextmanager
    async def _changing(self) -> AsyncIterator[dict[str, AccountLimit]]:
        """Change the limits, one process at a time."""
        try:
            async with lock_file(os.path.join(self._home, _LOCK)):
                limits = self._read()
                yield limits
                replace(os.path.join(self._home, FILE), msgspec.json.encode(limits), _FAILPOINT.wrap(self._disk))
        except OSError as error:
            raise StorageFailed.from_os_error(error) from error


def _is_met_until(limit: AccountLimit | None, until: str) -> bool:
    return limit is not None and limit.since <= until
