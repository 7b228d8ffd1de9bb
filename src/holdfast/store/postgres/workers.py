"""The workers of the cluster: each keeps a row current, and reads there whether someone wants it drained."""

from holdfast.leaf.errors import BadInput, NothingToDo
from holdfast.leaf.failpoints import failpoint_pair
from holdfast.store.index import WorkerRow
from holdfast.store.postgres.client import client_of

_FAILPOINT_BEAT, _FAILPOINT_DRAIN = failpoint_pair("postgres.worker.beat"), failpoint_pair("postgres.worker.drain")
_RETRY_S = 5.0
GONE_AFTER_S = 15.0  # without a sign of life

_BEAT = """
INSERT INTO worker (name, machine, host, version, labels, slots, runs, draining, seen)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, now())
ON CONFLICT (name) DO UPDATE SET machine = excluded.machine, host = excluded.host, version = excluded.version,
    labels = excluded.labels, slots = excluded.slots, runs = excluded.runs, seen = now(),
    draining = excluded.draining OR (worker.draining AND worker.machine = excluded.machine AND NOT $9)
WHERE worker.machine = excluded.machine OR worker.seen < now() - make_interval(secs => $10)
RETURNING draining"""
_LIST = """
SELECT name, machine, host, version, labels, slots, runs, draining, extract(epoch FROM now() - seen)::float8 AS seen_s
FROM worker ORDER BY name"""
_DRAIN = "UPDATE worker SET draining = true WHERE name = $1 RETURNING name"


class PostgresWorkers:
    def __init__(self, url: str) -> None:
        self._url = url
        self._is_new = True  # a drain was meant for the process before this one

    async def beat(self, row: WorkerRow) -> bool:
        """Write the row; True when the worker is to be drained. Raises `BadInput` if another machine has the name."""
        arguments = (
            row.name,
            row.machine,
            row.host,
            row.version,
            list(row.labels),
            row.slots,
            list(row.runs),
            row.is_draining,
            self._is_new,
            GONE_AFTER_S,
        )
        _FAILPOINT_BEAT.before()
        drains = await client_of(self._url).run(
            lambda connection: connection.fetchval(_BEAT, *arguments), retry_s=_RETRY_S
        )
        _FAILPOINT_BEAT.after()
        if drains is None:
            raise BadInput(f"another machine has a worker {row.name!r}; choose another name with --name")
        self._is_new = False
        return bool(drains)

    async def list(self) -> list[WorkerRow]:
        """Return the workers that were not drained, also those that died."""
        rows = await client_of(self._url).run(lambda connection: connection.fetch(_LIST))
        return [
            WorkerRow(
                row["name"],
                row["machine"],
                row["host"],
                row["version"],
                tuple(row["labels"]),
                row["slots"],
                tuple(row["runs"]),
                row["draining"],
                row["seen_s"],
            )
            for row in rows
        ]

    async def drain(self, name: str) -> None:
        """Ask a worker to hand its runs over and end."""
        _FAILPOINT_DRAIN.before()
        found = await client_of(self._url).run(lambda connection: connection.fetchval(_DRAIN, name))
        _FAILPOINT_DRAIN.after()
        if found is None:
            raise NothingToDo(f"there is no worker {name!r}; `holdfast workers` lists them")

    async def forget(self, name: str) -> None:
        """Delete a worker's row: it ended, or it is dead for good."""
        await client_of(self._url).run(
            lambda connection: connection.execute("DELETE FROM worker WHERE name = $1", name)
        )
