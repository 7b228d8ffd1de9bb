"""The tables: made once, upgraded by whoever knows more, refused by whoever knows less."""

import asyncio

import asyncpg
import pytest

from holdfast.leaf.errors import BadInput
from holdfast.store.postgres.client import Client
from holdfast.store.postgres.schema import MIGRATIONS, prepare
from tests.support.postgres import PostgresServer


@pytest.fixture
async def url(postgres: PostgresServer) -> str:
    return postgres.new_store_url()


async def levels(url: str) -> tuple[int, int]:
    connection = await asyncpg.connect(url)
    try:
        row = await connection.fetchrow("SELECT level, oldest FROM schema_level")
        return row["level"], row["oldest"]
    finally:
        await connection.close()


async def set_levels(url: str, level: int, oldest: int) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute("UPDATE schema_level SET level = $1, oldest = $2", level, oldest)
    finally:
        await connection.close()


async def run_ids(url: str) -> list[str]:
    """As a new process sees them."""
    rows = await Client(url).run(lambda connection: connection.fetch("SELECT id FROM run"))
    return [row["id"] for row in rows]


async def test_first_of_many_processes_creates_the_tables(url: str) -> None:
    assert await asyncio.gather(*(run_ids(url) for _ in range(6))) == [[]] * 6
    assert await levels(url) == (len(MIGRATIONS), MIGRATIONS[-1].oldest)


async def test_tables_that_a_newer_holdfast_only_extended_are_used(url: str) -> None:
    await run_ids(url)
    await set_levels(url, len(MIGRATIONS) + 3, len(MIGRATIONS))
    assert await run_ids(url) == []
    assert await levels(url) == (len(MIGRATIONS) + 3, len(MIGRATIONS))


async def test_tables_that_only_a_newer_holdfast_understands_are_refused_in_one_line(url: str) -> None:
    await run_ids(url)
    await set_levels(url, len(MIGRATIONS) + 1, len(MIGRATIONS) + 1)
    with pytest.raises(BadInput, match=r"newer Holdfast .*upgrade Holdfast on this machine") as refused:
        await run_ids(url)
    assert "\n" not in str(refused.value)


async def test_migration_that_fails_changes_nothing(url: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(f"CREATE SCHEMA {url.rpartition('=')[2]}")
        await connection.execute("CREATE TABLE message (mine int)")  # in the way of one of ours
        with pytest.raises(asyncpg.DuplicateTableError):
            await prepare(connection, url)
        assert await connection.fetchval("SELECT to_regclass('run')") is None
        await connection.execute("DROP TABLE message")
        await prepare(connection, url)
        assert await connection.fetchval("SELECT count(*) FROM run") == 0
    finally:
        await connection.close()
