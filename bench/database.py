"""Appending to a store on Postgres: the cost of a fenced commit over the disk's own, and the gain of group commit.

The server is on the same disk, with the settings of an installation, and is reached by a unix socket.
"""

import asyncio
import os
from itertools import islice

from bench.appending import ALONE, EACH, PRODUCERS, Raw, append_all, append_by_many, drafts_of_a_run, rate
from bench.figure import Figure, Target, number, spread
from bench.homes import RUN
from bench.places import scratch
from holdfast.core.events.session import SessionStart
from holdfast.store.postgres.store import PostgresStore
from holdfast.store.run import open_run
from tests.support.postgres import postgres_server, programs_folder

AGAINST_RAW = 0.75


def measure(*, quick: bool) -> list[Figure]:
    if programs_folder() is None:
        return []
    with scratch() as folder:
        server_folder = os.path.join(folder, "server")
        os.mkdir(server_folder)
        os.chmod(folder, 0o755)  # the server is another user
        with postgres_server((), server_folder) as server:
            return asyncio.run(_measure(server.new_store_url(), folder, quick=quick))


async def _measure(url: str, folder: str, *, quick: bool) -> list[Figure]:
    store = PostgresStore(url, os.path.join(folder, "home"))
    await store.create(RUN)
    raw = Raw(folder, "raw")
    alone, together, bare, sizes = [], [], [], []
    async with open_run(store, RUN, feature="auth-system") as run:
        await run.begin_session(SessionStart(branch="main", host="vm", pid=os.getpid()))
        drafts = drafts_of_a_run()
        for _ in range((6 if quick else 60) + 1):
            block = await append_all(run, islice(drafts, ALONE))
            alone.append(block.seconds)
            bare.append(raw.timed(block.lines))
            sizes += [len(line) for line in block.lines]
            together.append(await append_by_many(run.append, drafts) / (PRODUCERS * EACH))
    raw.close()
    del alone[0], bare[0], together[0]  # warm-up
    return [
        Figure(
            name="postgres-append",
            what="fenced append to Postgres, 1 producer",
            against="`os.write` + `os.fdatasync` of the same bytes",
            spread=spread([disk / own for own, disk in zip(alone, bare, strict=True)]),
            target=Target("≥", AGAINST_RAW),
            note=(
                f"{rate(alone, ALONE)} events/s against {rate(bare, ALONE)}; "
                f"{number(spread(alone).median / ALONE * 1e6)} µs against "
                f"{number(spread(bare).median / ALONE * 1e6)} µs; "
                f"{sum(sizes) / len(sizes):.0f} bytes a line"
            ),
        ),
        Figure(
            name="postgres-group",
            what=f"fenced append to Postgres, {PRODUCERS} producers",
            against="1 producer on the same run",
            spread=spread([one / ALONE / many for one, many in zip(alone, together, strict=True)]),
            target=Target("≥", 20),
            note=f"{rate(together, 1)} events/s against {rate(alone, ALONE)}",
        ),
    ]
