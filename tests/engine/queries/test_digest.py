"""What happened since somebody looked: from a position, from a moment, or of the newest session; never all of a log."""

from holdfast.core.events.conversation import MessageRecorded
from holdfast.core.events.session import RunCreated, SessionEnd, SessionStart
from holdfast.core.events.task import TaskCompleted
from holdfast.engine.home import Home
from holdfast.engine.queries.digest import MAX_READ_BYTES, digest_of
from holdfast.engine.queries.logs import end_of_log
from holdfast.store.files.store import FileStore
from holdfast.store.run import open_run

RUN = "run-aaaaaa"
FIRST, SECOND, THIRD = (f"2026-02-14T1{hour}:00:00.000Z" for hour in range(3))


async def _sit(home: str, at: str, *tasks: str, weight: int = 0) -> None:
    """A session that completes these tasks; with so many bytes of messages after the first of them."""
    store = FileStore(home)
    if RUN not in await store.run_ids():
        await store.create(RUN)
    async with open_run(store, RUN, clock=lambda: at) as run:
        await run.begin_session(SessionStart(command="resume"), RunCreated(run_id=RUN, goal="g"))
        for task in tasks:
            await run.append(TaskCompleted(task_id=task))
            for _ in range(weight // 100_000):
                await run.append(MessageRecorded(conversation="c", speaker="agent", text="x" * 100_000))
            weight = 0
        await run.append(SessionEnd(reason="stopped"))


async def test_without_a_beginning_it_is_of_the_newest_session(home: str) -> None:
    await _sit(home, FIRST, "1")
    await _sit(home, SECOND, "2", "3")
    digest = await digest_of(Home(home), RUN)
    assert (digest.completed, digest.sittings, digest.since, digest.whole) == (["2", "3"], 1, SECOND, True)


async def test_it_begins_at_a_position(home: str) -> None:
    await _sit(home, FIRST, "1")
    looked = await end_of_log(Home(home), RUN)
    await _sit(home, SECOND, "2")
    await _sit(home, THIRD, "3")
    assert (await digest_of(Home(home), RUN, looked)).completed == ["2", "3"]
    assert (await digest_of(Home(home), RUN, 0)).completed == ["1", "2", "3"]
    assert (await digest_of(Home(home), RUN, await end_of_log(Home(home), RUN))).events == 0


async def test_it_begins_at_a_moment(home: str) -> None:
    await _sit(home, FIRST, "1")
    await _sit(home, SECOND, "2")
    assert (await digest_of(Home(home), RUN, SECOND)).completed == ["2"]


async def test_a_long_log_is_not_read_to_its_beginning(home: str) -> None:
    await _sit(home, FIRST, "1", "2", weight=MAX_READ_BYTES + 1_000_000)
    digest = await digest_of(Home(home), RUN)
    assert (digest.completed, digest.whole) == (["2"], False)
    assert digest.events < 100
