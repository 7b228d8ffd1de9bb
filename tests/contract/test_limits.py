"""What runs share: the usage limits of accounts, and what all of them spent."""

import asyncio
from functools import partial

from holdfast.store.base import Store
from holdfast.store.run import open_run
from tests.contract.backends import Backend
from tests.contract.conftest import RUN
from tests.support.events import START, numbered, used
from tests.support.limits import ACCOUNT, account_limit, moment

REPOSITORY = "https://example.com/a.git"
OTHER = "other-aaaaaa"


async def record(store: Store, run_id: str, *tokens: int) -> None:
    async with open_run(store, run_id) as run:
        await run.begin_session(START, *map(used, tokens), numbered("a", 1))


async def tokens_of(store: Store, run_id: str, repository: str = REPOSITORY) -> tuple[int, int]:
    """What is counted, in this repository and on all days."""
    spending = await store.count_spending(run_id, repository)
    of_repository = spending.repositories.get(repository)
    return of_repository.tokens if of_repository else 0, sum(day.tokens for day in spending.days.values())


async def test_a_limit_is_seen_by_other_processes_until_it_is_cleared(backend: Backend) -> None:
    assert await backend.store().limits.find(ACCOUNT) is None
    await backend.store().limits.put(ACCOUNT, account_limit(since=1))
    await backend.store().limits.put("b" * 24, account_limit(since=1, run="b"))
    assert await backend.store().limits.find(ACCOUNT) == account_limit(since=1)
    await backend.store().limits.clear(ACCOUNT, moment(1))
    assert await backend.store().limits.find(ACCOUNT) is None
    assert await backend.store().limits.find("b" * 24) == account_limit(since=1, run="b")


async def test_success_of_an_earlier_turn_does_not_clear_a_limit(backend: Backend) -> None:
    limits = backend.store().limits
    await limits.put(ACCOUNT, account_limit(since=5))
    await limits.clear(ACCOUNT, moment(4))
    assert await limits.find(ACCOUNT) == account_limit(since=5)


async def test_newer_limit_replaces_the_older_one_and_deletes_those_that_are_over(backend: Backend) -> None:
    limits = backend.store().limits
    await limits.put(ACCOUNT, account_limit(since=1, until=100))
    await limits.put("b" * 24, account_limit(since=2, until=100))
    await limits.put("c" * 24, account_limit(since=3, until=500))
    await limits.put(ACCOUNT, account_limit(since=200, until=400))
    assert await limits.find(ACCOUNT) == account_limit(since=200, until=400)
    assert await limits.find("b" * 24) is None
    assert await limits.find("c" * 24) == account_limit(since=3, until=500)


async def test_many_limits_at_once_are_all_kept(backend: Backend) -> None:
    accounts = [f"{number:024}" for number in range(12)]
    await asyncio.gather(*(backend.store().limits.put(account, account_limit(since=1)) for account in accounts))
    assert None not in [await backend.store().limits.find(account) for account in accounts]


async def test_each_usage_is_counted_once(backend: Backend, store: Store) -> None:
    assert await tokens_of(store, RUN) == (0, 0)
    await record(store, RUN, 100, 20)
    for _ in range(2):
        assert await tokens_of(backend.store(), RUN) == (120, 120)
    await record(store, RUN, 3)
    assert await tokens_of(backend.store(), RUN) == (123, 123)


async def test_spending_of_all_runs_is_summed(backend: Backend, store: Store) -> None:
    await store.create(OTHER)
    await record(store, RUN, 100)
    await record(store, OTHER, 20)
    await tokens_of(store, RUN)
    assert await tokens_of(backend.store(), OTHER) == (120, 120)
    await record(store, OTHER, 3)
    assert await tokens_of(store, OTHER, "elsewhere") == (3, 123)


async def test_usage_that_many_count_at_once_is_counted_once(backend: Backend, store: Store) -> None:
    await store.create(OTHER)
    for number in range(4):
        await record(store, RUN, 100 + number)
        await record(store, OTHER, 10)
        counts = [partial(tokens_of, backend.store(), run_id) for run_id in (RUN, OTHER) * 4]
        await asyncio.gather(*(count() for count in counts))
    assert await tokens_of(store, RUN) == (446, 446)


async def test_spending_outlives_the_run(backend: Backend, store: Store) -> None:
    await record(store, RUN, 100)
    await tokens_of(store, RUN)
    await store.discard(RUN)
    await store.create(OTHER)
    await record(store, OTHER, 1)
    assert await tokens_of(backend.store(), OTHER) == (101, 101)
