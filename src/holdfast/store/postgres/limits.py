"""Usage limits of accounts and spending, for all machines of a cluster.

A log is counted in one statement: it moves the position up to which the run is counted, if that still is where the
count began, and adds to the sums. Of two who count the same lines, one finds that the position moved, and looks again.
So a statement that may have happened before its connection was lost can be sent again.
"""

from holdfast.core.day_spending import KEPT_DAYS, Spending, Spent, count_usage
from holdfast.leaf.failpoints import failpoint_pair
from holdfast.store.base import START, AccountLimit, Position
from holdfast.store.postgres.client import Client
from holdfast.store.postgres.log import PostgresLog

_FAILPOINT_PUT, _FAILPOINT_CLEAR = failpoint_pair("postgres.limit.put"), failpoint_pair("postgres.limit.clear")
_FAILPOINT_SPENDING = failpoint_pair("postgres.spending")
_RETRY_S = 5.0  # for limits: they are a hint, and a prompt waits

_PUT = """
WITH over AS (
    DELETE FROM account_limit WHERE account IN (
        SELECT account FROM account_limit WHERE until <= $3 AND account <> $1 FOR UPDATE SKIP LOCKED
    )
)
INSERT INTO account_limit (account, until, since, run, resets_at, provider) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (account) DO UPDATE SET until = $2, since = $3, run = $4, resets_at = $5, provider = $6"""
_FIND = "SELECT until, since, run, resets_at, provider FROM account_limit WHERE account = $1"
_CLEAR = "DELETE FROM account_limit WHERE account = $1 AND since <= $2"

_COUNTED = "SELECT position FROM counted WHERE run = $1"
_COUNT = """
WITH moved AS (
    INSERT INTO counted (run, position) SELECT serial, $3 FROM run WHERE serial = $1
    ON CONFLICT (run) DO UPDATE SET position = $3 WHERE counted.position = $2 RETURNING run
), added AS (
    INSERT INTO spent (kind, name, tokens, dollars, estimate)
    SELECT part.kind, part.name, part.tokens, part.dollars, part.estimate
    FROM moved, unnest($4::text[], $5::text[], $6::bigint[], $7::float8[], $8::float8[])
        AS part (kind, name, tokens, dollars, estimate)
    ORDER BY part.kind, part.name
    ON CONFLICT (kind, name) DO UPDATE SET tokens = spent.tokens + excluded.tokens,
        dollars = spent.dollars + excluded.dollars, estimate = spent.estimate + excluded.estimate
)
SELECT run FROM moved"""
_SUMS = """
(SELECT kind, name, tokens, dollars, estimate FROM spent WHERE kind = 'day' ORDER BY name DESC LIMIT $2)
UNION ALL SELECT kind, name, tokens, dollars, estimate FROM spent WHERE kind = 'repository' AND name = $1"""


class PostgresLimits:
    def __init__(self, client: Client) -> None:
        self._client = client

    async def put(self, account: str, limit: AccountLimit) -> None:
        arguments = (account, limit.until, limit.since, limit.run, limit.resets_at, limit.provider)
        _FAILPOINT_PUT.before()
        await self._client.run(lambda connection: connection.execute(_PUT, *arguments), retry_s=_RETRY_S)
        _FAILPOINT_PUT.after()

    async def find(self, account: str) -> AccountLimit | None:
        row = await self._client.run(lambda connection: connection.fetchrow(_FIND, account), retry_s=_RETRY_S)
        return AccountLimit(**row) if row is not None else None

    async def clear(self, account: str, until: str) -> None:
        _FAILPOINT_CLEAR.before()
        await self._client.run(lambda connection: connection.execute(_CLEAR, account, until), retry_s=_RETRY_S)
        _FAILPOINT_CLEAR.after()


async def count_run(client: Client, serial: int, repository: str) -> Spending:
    """Count what a run recorded since it was last counted. Returns the recent days, and the repository."""
    while True:
        start: Position = await client.run(lambda connection: connection.fetchval(_COUNTED, serial)) or START
        added, end = Spending(), start
        async for batch in PostgresLog(client, serial).read(start):
            count_usage(added, repository, batch.data)
            end = batch.end
        if end == start or await _add(client, serial, start, end, added):
            return await _read_sums(client, repository)


async def _add(client: Client, serial: int, start: Position, end: Position, added: Spending) -> bool:
    """Add to the sums; False when the run is not counted up to `start` any more."""
    parts = [
        *(("day", name, spent) for name, spent in added.days.items()),
        *(("repository", name, spent) for name, spent in added.repositories.items()),
    ]
    columns = (
        [kind for kind, _, _ in parts],
        [name for _, name, _ in parts],
        [spent.tokens for _, _, spent in parts],
        [spent.dollars for _, _, spent in parts],
        [spent.estimate for _, _, spent in parts],
    )
    _FAILPOINT_SPENDING.before()
    moved = await client.run(lambda connection: connection.fetchval(_COUNT, serial, start, end, *columns))
    _FAILPOINT_SPENDING.after()
    return moved is not None


async def _read_sums(client: Client, repository: str) -> Spending:
    spending = Spending()
    for row in await client.run(lambda connection: connection.fetch(_SUMS, repository, KEPT_DAYS)):
        sums = spending.days if row["kind"] == "day" else spending.repositories
        sums[row["name"]] = Spent(row["tokens"], row["dollars"], row["estimate"])
    return spending
