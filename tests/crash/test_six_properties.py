"""The six properties that recovery rests on, each shown on the log or the deaths of a real run."""

import random

import pytest

from holdfast.core import chain
from holdfast.core.analysis import analyze
from holdfast.core.deciding import Action, decide
from holdfast.core.events.session import SessionStart
from holdfast.core.fold import Fold
from holdfast.core.settings import Settings
from holdfast.core.state import RunState
from holdfast.core.workflow import Workflow
from holdfast.engine.service import verify_run
from holdfast.engine.terms import terms_of
from holdfast.store.files import FileStore
from holdfast.store.folding import fold_log
from holdfast.store.run import open_run
from tests.support.doom.checks import Done
from tests.support.doom.suite import Theatres
from tests.support.logs import whole
from tests.support.places import RUN, log_file

_LOOP = terms_of(Settings(workflow="loop"), {})


def decisions(state: RunState) -> list[Action]:
    workflow: Workflow = _LOOP.workflow
    return decide(state, workflow, _LOOP.bounds)


def folded(*pieces: bytes) -> RunState:
    fold = Fold()
    for piece in pieces:
        fold.feed(piece)
    return fold.state


def ends_of_lines(log: bytes) -> list[int]:
    return [place + 1 for place, byte in enumerate(log) if byte == ord("\n")]


def ends_of_calls(log: bytes) -> list[int]:
    return [0, *(end for end in ends_of_lines(log) if not chain.more_to_come(log[end - chain.TAIL : end]))]


async def test_prefix_continuation(theatres: Theatres, home: str) -> None:
    """Whatever part of a log there is, a session opens on it and goes on, and the whole is in order."""
    log = (await theatres("loop").undisturbed()).log
    store = FileStore(home)
    for end in random.Random(1).sample(range(1, len(log)), 60):
        run_id = f"{RUN}-{end}"
        await store.create(run_id)
        with open(log_file(home, run_id), "wb") as file:
            file.write(log[:end])
        async with open_run(store, run_id) as run:
            await run.begin(SessionStart(command="resume"))
        kept = await whole(store, run_id)
        assert kept.startswith(log[: max(place for place in ends_of_calls(log) if place <= end)])
        assert (await verify_run(home, run_id)).whole


async def test_effects_exactly_once(theatres: Theatres) -> None:
    """Killed before and after each effect of a run, it is in the world once, and once in the log."""
    theatre = theatres("solo")
    passed = [doom for doom in (await theatre.undisturbed()).passes if doom.startswith("effect.")]
    assert len(passed) > 10
    for doom in passed:
        assert (await theatre.survives(doom)).struck == 1


async def test_fork_determinism(theatres: Theatres) -> None:
    """The same beginning of a log leads to the same state and the same decisions, however it was read."""
    log = (await theatres("loop").undisturbed()).log
    dice = random.Random(2)
    for end in ends_of_lines(log):
        cut = dice.choice([place for place in (0, *ends_of_lines(log)) if place <= end])
        at_once, in_two = folded(log[:end]), folded(log[:cut], log[cut:end])
        assert at_once == in_two
        assert decisions(at_once) == decisions(in_two)


@pytest.mark.parametrize("doom", ["journal.append.after:60", "effect.merge.after:1", "snapshot.save.torn:1"])
async def test_checkpoint_validity(theatres: Theatres, doom: str) -> None:
    """Every checkpoint that a killed run leaves names a commit of its branch."""
    theatre = theatres("loop")
    place = theatre.place()
    place.begin(doom)
    (await Done.look(place)).must_have_valid_checkpoints()
    place.remove()


@pytest.mark.parametrize("side", ["before", "torn", "after"])
async def test_consume_once(theatres: Theatres, side: str) -> None:
    """Whoever dies while a message is put or taken in, it is consumed once, or was never put."""
    theatre = theatres("again")
    await theatre.survives(f"inbox.append.{side}:1")


async def test_recovery_determinism(theatres: Theatres) -> None:
    """From what a death left, the same is decided each time: by the whole log, by a snapshot, after one more death."""
    theatre = theatres("loop")
    for doom in ("journal.append.after:50", "effect.commit.before:1"):
        place = theatre.place()
        place.begin(doom)
        store = FileStore(place.home)
        state = folded(await whole(store, place.run_id))
        known = (await fold_log(store.log(place.run_id), await store.snapshot(place.run_id))).fold.state
        assert (analyze(known).decision, decisions(known)) == (analyze(state).decision, decisions(state))
        place.resume("journal.append.before:1", "again")
        again = folded(await whole(store, place.run_id))
        assert (analyze(again).decision, decisions(again)) == (analyze(state).decision, decisions(state))
        place.remove()
