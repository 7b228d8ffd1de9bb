"""The store's part of ten workers in one process: leases, journals and events, without agents and repositories.

It obeys commands, a JSON line each, on stdin: `append`, `rest` and `take`; and answers each with a line.
"""

import asyncio
import json
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress

from holdfast.core.events import Draft
from holdfast.core.events.issue import WarningLogged
from holdfast.leaf.clock import now
from holdfast.leaf.errors import RunFenced
from holdfast.leaf.ids import new_sid
from holdfast.store.base import Head, Journal, WriterContext
from holdfast.store.postgres.store import PostgresStore

EVENT = Draft(WarningLogged(message="x" * 200))


class Runs:
    """The runs that this process owns."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store
        self._stack = AsyncExitStack()
        self._journals: list[Journal] = []

    async def own(self, run_id: str) -> Journal:
        lease = await self._stack.enter_async_context(self._store.own(run_id))
        head = Head()
        async for batch in self._store.log(run_id).read_backwards():
            head = Head(batch.end)  # the chain is of no matter here
            break
        context = WriterContext(new_sid(), None, head, now, lambda _: None, _take_no_snapshot)
        journal = await lease.open_journal(context)
        self._journals.append(journal)
        return journal

    async def append(self, count: int, seconds: float) -> dict[str, object]:
        """As many runs append one event after the other, for so long. `lost` counts the runs that lost their lease."""
        until = time.perf_counter() + seconds
        took: list[float] = []

        async def produce(journal: Journal) -> bool:
            while (began := time.perf_counter()) < until:
                try:
                    await journal.append(EVENT)
                except RunFenced:  # the machine was too busy to renew it in time
                    return True
                took.append(time.perf_counter() - began)
            return False

        lost = await asyncio.gather(*(produce(journal) for journal in self._journals[:count]))
        return {"took": took, "lost": sum(lost)}

    async def take(self, run_ids: Sequence[str], since: float) -> dict[str, object]:
        """Wait until these runs are free, own them and write an event."""

        async def take(run_id: str) -> float:
            while True:
                await self._store.wait_until_released(run_id)
                with suppress(RunFenced):  # the machine was too busy to keep it
                    await (await self.own(run_id)).append(EVENT)
                    break
            return time.clock_gettime(time.CLOCK_BOOTTIME) - since

        return {"took": list(await asyncio.gather(*map(take, run_ids)))}


async def _take_no_snapshot() -> None:
    """The measure is of appends."""


async def main(url: str, home: str, run_ids: list[str]) -> None:
    store = PostgresStore(url, home)
    runs = Runs(store)
    for run_id in run_ids:
        await store.create(run_id)
        await runs.own(run_id)
    print("{}", flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        command = json.loads(line)
        match command.pop("do"):
            case "append":
                answer = await runs.append(**command)
            case "take":
                answer = await runs.take(**command)
            case _:
                await asyncio.sleep(command["seconds"])
                answer = {}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3].split()))
