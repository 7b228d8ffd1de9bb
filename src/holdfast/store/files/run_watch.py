"""Watches the folder of runs, and the folders of single runs, with one watcher for all of them."""

import asyncio
import os
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Self

from holdfast.leaf.errors import StorageFailed
from holdfast.leaf.files.watch import Watcher
from holdfast.store.files.layout import run_folder, runs_folder


class FolderWatch:
    def __init__(self, home: str, watcher: Watcher) -> None:
        self.changed = asyncio.Event()
        self.unwatched = 0
        self._home = home
        self._watcher = watcher
        self._watched: dict[str, AsyncExitStack] = {}

    async def __aenter__(self) -> Self:
        os.makedirs(runs_folder(self._home), exist_ok=True)
        self._watched[""] = await self._watch_folder(runs_folder(self._home))
        return self

    async def __aexit__(self, *_: object) -> None:
        for stack in self._watched.values():
            await stack.aclose()

    async def watch_only(self, run_ids: Sequence[str]) -> None:
        for run_id in self._watched.keys() - {"", *run_ids}:
            await self._watched.pop(run_id).aclose()
        self.unwatched = 0
        for run_id in run_ids:
            if run_id not in self._watched:
                folder = run_folder(self._home, run_id)
                try:
                    self._watched[run_id] = await self._watch_folder(folder)
                except StorageFailed:
                    self.unwatched += os.path.isdir(folder)

    async def _watch_folder(self, folder: str) -> AsyncExitStack:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._watcher.changes(folder, self.changed))
            return stack.pop_all()
