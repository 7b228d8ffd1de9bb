"""The index of the files backend: the folder of runs, their locks, and the catalog.

Imports as little as possible: listing runs must start as fast as Python.
"""

from __future__ import annotations

import os

from holdfast.store.files.layout import LOCK, LOG, has_log, run_folder, runs_folder
from holdfast.store.files.lock import is_held

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable
    from typing import TypeVar

    from holdfast.store.index import Catalog, LogStamp

    T = TypeVar("T")


class FileIndex:
    def __init__(self, home: str) -> None:
        self._home = home

    def run_ids(self) -> list[str]:
        try:
            names = os.listdir(runs_folder(self._home))
        except FileNotFoundError:
            return []
        return sorted(name for name in names if self.has_run(name))

    def has_run(self, run_id: str) -> bool:
        return (
            run_id not in ("", os.curdir, os.pardir)
            and os.sep not in run_id
            and "\0" not in run_id
            and has_log(run_folder(self._home, run_id))
        )

    def is_owned(self, run_id: str) -> bool:
        return is_held(f"{run_folder(self._home, run_id)}/{LOCK}")

    def owned(self, run_ids: Iterable[str]) -> set[str]:
        return {run_id for run_id in run_ids if self.is_owned(run_id)}

    def describe(self) -> str:
        return f"{runs_folder(self._home)}: {len(self.run_ids())} runs in files"

    def stamp(self, run_id: str) -> LogStamp:
        from holdfast.store.files.catalog import stamp_of  # noqa: PLC0415 - loads SQLite, which most commands do not need

        return stamp_of(f"{run_folder(self._home, run_id)}/{LOG}")

    def query(self, query: Callable[[Catalog], T]) -> T:
        from holdfast.store.files.catalog import query_catalog  # noqa: PLC0415 - as above

        return query_catalog(self._home, query)

    async def update(self, update: Callable[[Catalog], Awaitable[T]]) -> T:
        from holdfast.store.files.catalog import update_catalog  # noqa: PLC0415 - as above

        return await update_catalog(self._home, update)
