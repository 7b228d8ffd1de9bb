"""Senders and owner killed for real, at any moment: each message whose `put` returned is consumed exactly once."""

import random
from contextlib import ExitStack

import pytest

from holdfast.core.events.inbox import InboxConsumed
from holdfast.store.files.store import FileStore
from holdfast.store.run import open_run
from tests.support.children import put_for_ever, take_in_for_ever
from tests.support.events import START, events_in
from tests.support.logs import assert_whole, folded, whole
from tests.support.processes import child
from tests.support.run_files import RUN, content, inbox_file, torn_pieces


def kill_senders(home: str, names: list[str], dice: random.Random) -> list[str]:
    """Let so many send at once, and kill them one after the other. What they were told is taken, by id."""
    acknowledged = []
    with ExitStack() as running:
        senders = [running.enter_context(child(put_for_ever, home, name, dice.randrange(2**32))) for name in names]
        dice.shuffle(senders)
        for sender in senders:
            heard = sender.hear_some(dice.choice((1, 2, 8)))
            sender.kill()
            acknowledged += heard + sender.hear_all()
    return acknowledged


async def kill_rounds(home: str, senders: int, rounds: int, seed: int) -> None:
    dice = random.Random(seed)
    store = FileStore(home)
    await store.create(RUN)
    acknowledged: list[str] = []
    for turn in range(rounds):
        with child(take_in_for_ever, home) as owner:
            assert owner.hear() == "opening"
            acknowledged += kill_senders(home, [f"{turn}.{index}" for index in range(senders)], dice)
            owner.kill()
        acknowledged += kill_senders(home, [f"{turn}.{index}.unowned" for index in range(2)], dice)
    async with open_run(store, RUN) as run:
        await run.begin_session(START)
        await run.consume_inbox()
        assert await run.consume_inbox() == []
        data = await whole(store, RUN)
        assert run.state == folded(data)
    assert_whole(data)
    consumed = [event.message for event in events_in(data) if isinstance(event, InboxConsumed)]
    assert len(set(consumed)) == len(consumed), "consumed once"
    assert set(acknowledged) <= set(consumed), "none lost"
    assert not any(b"\n" in piece for piece in torn_pieces(inbox_file(home)).values()), "only torn ends were set aside"
    assert content(inbox_file(home)).count(b"\n") >= len(consumed)


@pytest.mark.parametrize("seed", range(3))
async def test_every_acknowledged_message_is_consumed_once(home: str, seed: int) -> None:
    await kill_rounds(home, senders=4, rounds=2, seed=seed)


@pytest.mark.torture
@pytest.mark.parametrize("seed", range(100, 120))
async def test_every_acknowledged_message_is_consumed_once_at_length(home: str, seed: int) -> None:
    await kill_rounds(home, senders=12, rounds=10, seed=seed)
