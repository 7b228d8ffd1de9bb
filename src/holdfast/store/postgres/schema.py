"""The tables, as a list of migrations. Each is applied once, under a lock, by the first Holdfast that knows it.

`oldest` is the oldest migration level that can still work with the tables: an older Holdfast refuses them with one
line. A migration that only adds something leaves `oldest` as it is, so that machines can be upgraded one by one.
"""

from typing import NamedTuple

from holdfast.leaf.errors import BadInput
from holdfast.store.postgres.address import shown
from holdfast.store.postgres.connect import Connection, schema_of

_MIGRATION_LOCK = 0x686F6C64  # "hold": one process migrates at a time


class Migration(NamedTuple):
    """Statements that lead to the next level, and the oldest level that can work with the result."""

    oldest: int
    statements: str


MIGRATIONS = (
    Migration(
        oldest=1,
        statements="""
        CREATE TABLE run (
            serial bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            id text COLLATE "C" NOT NULL UNIQUE,
            token uuid NOT NULL,
            head bigint NOT NULL DEFAULT 0,
            epoch bigint NOT NULL DEFAULT 0,
            holder bytea,
            claim uuid,
            expires timestamptz
        ) WITH (fillfactor = 50);
        COMMENT ON COLUMN run.head IS 'the end of the log: every append moves it, and so finds a newer owner';
        CREATE TABLE chunk (
            run bigint NOT NULL REFERENCES run ON DELETE CASCADE,
            start bigint NOT NULL,
            data bytea NOT NULL,
            PRIMARY KEY (run, start)
        );
        CREATE TABLE inbox (
            run bigint PRIMARY KEY REFERENCES run ON DELETE CASCADE,
            head bigint NOT NULL DEFAULT 0
        ) WITH (fillfactor = 50);
        CREATE TABLE message (
            run bigint NOT NULL REFERENCES run ON DELETE CASCADE,
            start bigint NOT NULL,
            id bytea NOT NULL,
            put uuid NOT NULL UNIQUE,
            data bytea NOT NULL,
            PRIMARY KEY (run, start)
        );
        CREATE INDEX message_id ON message (run, id, start);
        CREATE TABLE snapshot (
            run bigint PRIMARY KEY REFERENCES run ON DELETE CASCADE,
            data bytea NOT NULL
        );
        CREATE TABLE summary (
            run bigint PRIMARY KEY REFERENCES run ON DELETE CASCADE,
            head bigint NOT NULL,
            messages_until bigint NOT NULL,
            fields bytea NOT NULL
        );
        CREATE TABLE said (
            run bigint NOT NULL REFERENCES run ON DELETE CASCADE,
            position bigint NOT NULL,
            speaker text NOT NULL,
            text text NOT NULL,
            words tsvector NOT NULL
        );
        CREATE INDEX said_run ON said (run);
        CREATE INDEX said_words ON said USING gin (words);
        """,
    ),
    Migration(
        oldest=1,
        statements="""
        CREATE TABLE file (
            run bigint NOT NULL REFERENCES run ON DELETE CASCADE,
            name bytea NOT NULL,
            data bytea NOT NULL,
            PRIMARY KEY (run, name)
        );
        """,
    ),
    Migration(
        oldest=1,
        statements="""
        CREATE TABLE worker (
            name text PRIMARY KEY,
            machine text NOT NULL,
            host text NOT NULL,
            version text NOT NULL,
            labels text[] NOT NULL,
            slots int NOT NULL,
            runs text[] NOT NULL,
            draining boolean NOT NULL,
            seen timestamptz NOT NULL
        ) WITH (fillfactor = 50);
        """,
    ),
    Migration(
        oldest=1,
        statements="""
        CREATE TABLE account_limit (
            account text COLLATE "C" PRIMARY KEY,
            until text COLLATE "C" NOT NULL,
            since text COLLATE "C" NOT NULL,
            run text NOT NULL,
            resets_at text,
            provider text
        );
        CREATE TABLE counted (
            run bigint PRIMARY KEY REFERENCES run ON DELETE CASCADE,
            position bigint NOT NULL
        ) WITH (fillfactor = 50);
        COMMENT ON TABLE counted IS 'how far the log of a run is counted: moves together with the sums in spent';
        CREATE TABLE spent (
            kind text COLLATE "C" NOT NULL,
            name text COLLATE "C" NOT NULL,
            tokens bigint NOT NULL,
            dollars float8 NOT NULL,
            estimate float8 NOT NULL,
            PRIMARY KEY (kind, name)
        ) WITH (fillfactor = 50);
        """,
    ),
)


async def prepare(connection: Connection, url: str) -> None:
    """Create or upgrade the tables. Raises `BadInput` when a newer Holdfast made them unusable for this one."""
    if await _level(connection, url) < len(MIGRATIONS):
        async with connection.transaction():
            await connection.execute("SELECT pg_advisory_xact_lock($1)", _MIGRATION_LOCK)
            await _migrate(connection, url)


async def _level(connection: Connection, url: str) -> int:
    if await connection.fetchval("SELECT to_regclass('schema_level')") is None:
        return 0
    level, oldest = await connection.fetchrow("SELECT level, oldest FROM schema_level")
    if oldest > len(MIGRATIONS):
        raise BadInput(
            f"the store at {shown(url)} was upgraded by a newer Holdfast (level {level}, this one knows "
            f"{len(MIGRATIONS)}); upgrade Holdfast on this machine"
        )
    return int(level)


async def _migrate(connection: Connection, url: str) -> None:
    await connection.execute(f'CREATE SCHEMA IF NOT EXISTS "{schema_of(url)}"')
    await connection.execute("CREATE TABLE IF NOT EXISTS schema_level (level int NOT NULL, oldest int NOT NULL)")
    done = await _level(connection, url) if await connection.fetchval("SELECT count(*) FROM schema_level") else 0
    if done >= len(MIGRATIONS):  # another process was faster
        return
    for migration in MIGRATIONS[done:]:
        await connection.execute(migration.statements)
    await connection.execute("DELETE FROM schema_level")
    level, oldest = len(MIGRATIONS), MIGRATIONS[-1].oldest
    await connection.execute("INSERT INTO schema_level VALUES ($1, $2)", level, oldest)
