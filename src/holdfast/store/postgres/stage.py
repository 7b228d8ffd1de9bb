"""A run that is written out of sight in files of this machine, and published into the database by one transaction.

A process that dies before the transaction leaves a stage like those of the files backend, with the note that says what
else was done. One that dies after it leaves a stage of a run that exists.
"""

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.leaf.errors import RunExists
from holdfast.leaf.failpoints import failpoint_pair
from holdfast.store.files import staging
from holdfast.store.files.layout import LOG, run_folder
from holdfast.store.postgres.client import Client, client_of
from holdfast.store.postgres.connect import Connection, UniqueViolation
from holdfast.store.postgres.listener import RUNS_CHANNEL
from holdfast.store.postgres.log import BATCH_BYTES

_PUBLISH_LOCK = 0x686F6C70  # one process at a time looks at the runs and publishes another
_TIMEOUT_S = 60.0  # a long log, or another process that publishes one
_FAILPOINT_PUBLISH = failpoint_pair("postgres.publish")


class PostgresStage(staging.Stage):
    url = ""

    @classmethod
    def on(cls, url: str, stage: staging.Stage) -> "PostgresStage":
        """The stage, published to a store."""
        staged = cls(stage._home, stage.folder, stage._lock)  # noqa: SLF001 - the same stage
        staged.url = url
        return staged

    def publish(self, run_id: str) -> None:
        """Make the run one of the store: whole, and at once. Its messages, if any, were for nobody yet."""
        token = uuid.uuid4()
        with open(os.path.join(run_folder(self.folder, run_id), LOG), "rb") as file:
            log = file.read()

        async def publish(connection: Connection) -> bool:
            if await connection.fetchval("SELECT token = $2 FROM run WHERE id = $1", run_id, token):
                return True  # an earlier attempt succeeded
            async with connection.transaction():
                insert = "INSERT INTO run (id, token, head) VALUES ($1, $2, $3) RETURNING serial"
                try:
                    serial = await connection.fetchval(insert, run_id, token, len(log))
                except UniqueViolation:
                    raise RunExists(f"run {run_id} exists already; choose another name, or resume it") from None
                await connection.execute("INSERT INTO inbox (run) VALUES ($1)", serial)
                rows = [(serial, start, log[start:end]) for start, end in _parts(log)]
                await connection.executemany("INSERT INTO chunk (run, start, data) VALUES ($1, $2, $3)", rows)
                await connection.execute("SELECT pg_notify($1, '')", RUNS_CHANNEL)
            return True

        _FAILPOINT_PUBLISH.before()
        client_of(self.url).run_blocking(publish, timeout_s=_TIMEOUT_S)
        _FAILPOINT_PUBLISH.after()


@contextmanager
def publishing(url: str) -> Iterator[None]:
    """Let one process at a time look at the runs of a store and publish another."""
    client = client_of(url)
    connection = client.call_blocking(_locked(client), timeout_s=_TIMEOUT_S)
    try:
        yield
    finally:
        client.call_blocking(connection.close())


async def _locked(client: Client) -> Connection:
    connection = await client.open()
    await connection.execute("SELECT pg_advisory_lock($1)", _PUBLISH_LOCK)
    return connection


def _parts(log: bytes) -> Iterator[tuple[int, int]]:
    """Yield ranges of complete lines, each about as long as what is read at once."""
    start = 0
    while start < len(log):
        end = log.rfind(b"\n", start, start + BATCH_BYTES) + 1 or log.find(b"\n", start) + 1 or len(log)
        yield start, end
        start = end
