"""Writers killed for real, at any moment: every acknowledged event is there, and none that was not sent."""

import random

import pytest

from holdfast.store.files.store import FileStore
from holdfast.store.run import open_run
from tests.support.children import append_for_ever
from tests.support.events import by_producer, labels_in
from tests.support.logs import assert_whole, folded, whole
from tests.support.processes import child
from tests.support.run_files import RUN

MOST_AT_ONCE = 3  # events of one append: so many may be in the log of which no one was told yet


async def kill_rounds(home: str, producers: int, rounds: int, seed: int) -> None:
    """Kill one writer after the other on the same run, each after so many acknowledged events."""
    dice = random.Random(seed)
    store = FileStore(home)
    await store.create(RUN)
    written = {f"p{index}": 0 for index in range(producers)}
    for turn in range(rounds):
        with child(append_for_ever, home, written, dice.randrange(2**32)) as writer:
            heard = writer.hear_some(dice.choice((1, 2, 5, 20, 60)))
            writer.kill()
            heard += writer.hear_all()
        acknowledged = [(name, int(number)) for name, number in map(str.split, heard[1:])]
        async with open_run(store, RUN, sid=f"check-{turn}") as run:
            data = await whole(store, RUN)
            assert_whole(data)
            assert run.state == folded(data)
            assert run.state.malformed == []
        found = labels_in(data)
        assert set(acknowledged) <= set(found)
        in_log = by_producer(found)
        sent = by_producer(acknowledged)
        for name, number in written.items():
            numbers = in_log.get(name, [])
            assert numbers == list(range(len(numbers))), "in order, none twice, none left out"
            assert len(numbers) <= number + len(sent.get(name, [])) + MOST_AT_ONCE, "none invented"
            written[name] = len(numbers)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("producers", [1, 16])
async def test_a_killed_writer_loses_nothing_that_was_acknowledged(home: str, producers: int, seed: int) -> None:
    await kill_rounds(home, producers, rounds=6, seed=seed)


@pytest.mark.torture
@pytest.mark.parametrize("seed", range(100, 135))
@pytest.mark.parametrize("producers", [1, 4, 16, 64])
async def test_thousands_of_killed_writers_lose_nothing(home: str, producers: int, seed: int) -> None:
    await kill_rounds(home, producers, rounds=15, seed=seed)
