"""Work of a server that fails, or whose client goes away."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

import pytest

from holdfast.app.web.idempotent_requests import IdempotentRequests
from holdfast.app.web.live.jobs import Jobs
from holdfast.leaf.errors import StorageFailed


async def _turns_of_the_loop() -> None:
    """Let everything run that is ready."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_request_that_failed_after_its_client_left_is_done_again() -> None:
    once, may_fail, attempts = IdempotentRequests(), asyncio.Event(), 0

    async def work() -> str:
        nonlocal attempts
        attempts += 1
        if attempts == 1:
            await may_fail.wait()
            raise StorageFailed("the disk is full")
        return "done"

    leaving = asyncio.create_task(once.do("create", b"{}", work))
    await _turns_of_the_loop()
    leaving.cancel()
    with suppress(asyncio.CancelledError):
        await leaving
    may_fail.set()
    await _turns_of_the_loop()
    assert await once.do("create", b"{}", work) == "done"


async def test_job_says_why_it_failed() -> None:
    jobs = Jobs()

    async def work(say: Callable[[str], None]) -> None:
        say("begun")
        raise ValueError("a bug")

    job = jobs.start("probe", work)
    with pytest.raises(ValueError, match="a bug"):
        await next(iter(jobs._tasks.values()))
    assert job.done
    assert job.error == "ValueError: a bug"
