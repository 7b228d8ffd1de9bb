"""Killed for real before and after each write: it happened or it did not, and doing it again leads to the same end."""

from pathlib import Path

import asyncpg
import msgspec
import pytest

from holdfast.store.base import Message, Store
from holdfast.store.postgres.workers import PostgresWorkers
from holdfast.store.run import open_run
from tests.support.children import act_on_database, worker_row
from tests.support.events import START, labels_in, numbered, used
from tests.support.limits import ACCOUNT, account_limit
from tests.support.logs import assert_whole, whole
from tests.support.postgres import PostgresServer
from tests.support.processes import KILLED, child
from tests.support.run_files import RUN
from tests.support.stores import database_address, database_url, store_at

ACTIONS = {
    "create": "postgres.create",
    "discard": "postgres.discard",
    "put": "postgres.put",
    "redact": "postgres.redact",
    "file": "postgres.file",
    "limit": "postgres.limit.put",
    "clear": "postgres.limit.clear",
    "count": "postgres.spending",
    "own": "postgres.own",
    "append": "postgres.commit",
    "snapshot": "postgres.snapshot",
    "release": "postgres.release",
    "publish": "postgres.publish",
    "beat": "postgres.worker.beat",
    "drain": "postgres.worker.drain",
}
AFTER_THE_WRITES = ("snapshot", "release")  # killed there, the events are written
SECRET = msgspec.Raw(b'{"text":"my geheim-wort-7 is"}')


async def prepared(address: str) -> Store:
    store = store_at(address)
    await store.create(RUN)
    async with open_run(store, RUN) as run:
        await run.begin_session(START, numbered("a", 0), used(100))
    await store.inbox(RUN).put(Message(id="m1", kind="say", body=SECRET))
    await store.save_file(RUN, "attachments/a", b"old")
    await PostgresWorkers(database_url(address)).beat(worker_row("one"))
    await store.limits.put(ACCOUNT, account_limit(since=1))
    return store


async def sums(address: str) -> dict[str, int]:
    """What is counted, without counting."""
    connection = await asyncpg.connect(database_url(address))
    try:
        return {row["kind"]: row["tokens"] for row in await connection.fetch("SELECT kind, tokens FROM spent")}
    finally:
        await connection.close()


async def contents(address: str) -> dict[str, object]:
    """What can be seen of the store. Fails when any of it is torn."""
    store = store_at(address)
    runs = list(await store.run_ids())
    if RUN not in runs:
        return {"runs": runs}
    data = await whole(store, RUN)
    assert_whole(data)
    workers = await PostgresWorkers(database_url(address)).list()
    messages = [entry.message async for entry in store.inbox(RUN).read() if entry.message is not None]
    return {
        "runs": runs,
        "events": labels_in(data),
        "messages": [(message.id, bytes(message.body)) for message in messages],
        "workers": [(worker.name, worker.is_draining) for worker in workers],
        "limit": await store.limits.find(ACCOUNT),
        "spent": await sums(address),
        "file": await store.load_file(RUN, "attachments/a"),
    }


def act(address: str, action: str, failpoint: str, passes: Path) -> int:
    passes.write_text("")
    with child(act_on_database, address, action, failpoint, str(passes)) as acting:
        return acting.wait()


@pytest.mark.parametrize("action", ACTIONS)
async def test_killed_at_a_write_it_is_done_or_not(
    postgres: PostgresServer, home: str, tmp_path: Path, action: str
) -> None:
    found, passes = dict[str, dict[str, object]](), tmp_path / "passes"
    for moment, code in (("never", 0), ("before", KILLED), ("after", KILLED)):
        address = database_address(postgres.new_store_url(), f"{home}-{moment}")
        store = await prepared(address)
        found["earlier"] = await contents(address)
        assert act(address, action, f"{ACTIONS[action]}.{moment}:1", passes) == code
        found[moment] = await contents(address)
        for run_id in await store.run_ids():
            async with open_run(store, run_id):  # at once: its owner is dead
                pass
            if run_id == RUN:
                for _ in range(2):
                    assert (await store.count_spending(RUN, "repo")).repositories["repo"].tokens == 100
    earlier, done = found["earlier"], found["never"]
    assert done != earlier
    assert found["before"] == (done if action in AFTER_THE_WRITES else earlier)
    assert found["after"] == (earlier if action == "own" else done)
