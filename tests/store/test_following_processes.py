"""Following a log from another process: every line as it comes, whoever writes, however long it is."""

from contextlib import ExitStack

from holdfast.store.files.store import FileStore
from holdfast.store.run import open_run
from tests.support.children import follow_for_ever
from tests.support.events import START, numbered
from tests.support.opened_run import StoreSession, kill
from tests.support.processes import child
from tests.support.run_files import RUN


async def test_another_process_sees_each_line_when_it_is_written(home: str) -> None:
    store = FileStore(home)
    await store.create(RUN)
    with child(follow_for_ever, home) as follower:
        assert follower.hear() == "following"
        async with open_run(store, RUN) as run:
            batch = await run.begin_session(START)
            assert follower.hear_some(1) == batch.data.decode().splitlines()
            for number in range(50):
                batch = await run.append(*(numbered("a", number) for _ in range(1 + number % 3)))
                lines = batch.data.decode().splitlines()
                assert follower.hear_some(len(lines)) == lines


async def test_many_processes_follow_through_the_death_of_the_writer(home: str) -> None:
    store = FileStore(home)
    await store.create(RUN)
    with ExitStack() as running:
        followers = [running.enter_context(child(follow_for_ever, home)) for _ in range(4)]
        for turn in range(3):
            session = await StoreSession.open(store, RUN)
            await session.run.begin_session(START, numbered("a", turn))
            await kill(session)
            with open(f"{home}/runs/{RUN}/events.jsonl", "ab") as log:
                log.write(b'{"torn":')
        async with open_run(store, RUN) as run:
            await run.begin_session(START)
        data = b"".join([batch.data async for batch in store.log(RUN).read()])
        for follower in followers:
            assert follower.hear_some(1 + data.count(b"\n")) == ["following", *data.decode().splitlines()]


async def test_a_long_line_reaches_another_process(home: str) -> None:
    store = FileStore(home)
    await store.create(RUN)
    with child(follow_for_ever, home) as follower:
        async with open_run(store, RUN) as run:
            await run.begin_session(START)
            batch = await run.append(numbered("a", 1, 3_000_000))
        assert follower.hear_some(3)[2] == f"{len(batch.data) - 1} bytes"
