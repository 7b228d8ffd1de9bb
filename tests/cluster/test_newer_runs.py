"""A run that a newer Holdfast wrote is left to newer workers: an older one refuses it and writes nothing."""

import asyncpg

from tests.cluster.test_placement import HELLO
from tests.support.cluster import Cluster
from tests.support.logs import whole

_NEWER = b'{"v":2,"ts":null,"sid":"s9","seq":0,"type":"task.failed","data":{"task":{"id":"1"}}}\n'
_APPEND = """
WITH extended AS (UPDATE run SET head = head + length($2::bytea) WHERE id = $1 RETURNING serial, head)
INSERT INTO chunk (run, start, data) SELECT serial, head - length($2::bytea), $2::bytea FROM extended"""


async def test_older_worker_leaves_a_newer_run_to_others(cluster: Cluster) -> None:
    run_id = cluster.submit("write hello.txt", cluster.book(HELLO))
    connection = await asyncpg.connect(cluster.home.store_url)
    try:
        await connection.execute(_APPEND, run_id, _NEWER)
    finally:
        await connection.close()
    log = await whole(cluster.home.store, run_id)
    assert log.endswith(_NEWER)
    worker = cluster.worker("older")
    await cluster.until(lambda: worker.read_log().count("refused") >= 2)
    assert "newer Holdfast" in worker.read_log()
    assert await whole(cluster.home.store, run_id) == log
    other = cluster.submit("write hello.txt", cluster.book(HELLO))
    await cluster.until_status(other, "done")
