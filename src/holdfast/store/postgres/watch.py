"""Watches the set of runs, and single runs, for a server or a dashboard."""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Self

from holdfast.store.postgres.client import Client
from holdfast.store.postgres.connect import Connection


class PostgresWatch:
    def __init__(self, client: Client) -> None:
        self.changed = asyncio.Event()
        self.unwatched = 0
        self._client = client
        self._stack = AsyncExitStack()
        self._watched: dict[str, tuple[AsyncExitStack, bool]] = {}

    async def __aenter__(self) -> Self:
        await self._stack.enter_async_context(self._client.listener.waiting(self.changed))
        return self

    async def __aexit__(self, *_: object) -> None:
        for stack, _is_reported in self._watched.values():
            await stack.aclose()
        await self._stack.aclose()

    async def watch_only(self, run_ids: Sequence[str]) -> None:
        for run_id in self._watched.keys() - set(run_ids):
            await self._watched.pop(run_id)[0].aclose()
        added = [run_id for run_id in run_ids if run_id not in self._watched]
        if added:
            for run_id, serial in (await self._client.run(lambda connection: _serials(connection, added))).items():
                stack = AsyncExitStack()
                waiting = self._client.listener.waiting(self.changed, serial=serial, log=True)
                self._watched[run_id] = (stack, await stack.enter_async_context(waiting))
        self.unwatched = sum(not is_reported for _, is_reported in self._watched.values())


async def _serials(connection: Connection, run_ids: Sequence[str]) -> dict[str, int]:
    rows = await connection.fetch("SELECT id, serial FROM run WHERE id = ANY($1::text[])", run_ids)
    return {row["id"]: row["serial"] for row in rows}
