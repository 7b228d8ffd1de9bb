"""Whole runs whose machine loses its power: all is killed at a point, and what was not synced by then is gone.

    unshare --mount python -m tests.support.crash_suite.power_cut FOLDER SCENARIO WHICH OF [--noted=WHICH/OF]  (root)

Home, repository, worktrees and what agents remember are on an ext4 that is shut down without a flush and mounted again.
Of the points that the runner passes undisturbed, one of so many parts is tried. Some runs were killed before: their
power goes as soon as the session that comes back has written down what it found; where trials are noted, also anywhere
in it. Ends with 77 and says why where the machine does not allow it.
"""

import asyncio
import random
import re
import sys
from collections.abc import Collection, Iterable
from functools import partial, reduce
from operator import or_

from holdfast.core.events import Event
from holdfast.core.events.conversation import TurnInterrupted
from holdfast.leaf.files.sync import sync_file_systems
from holdfast.store.files.store import FileStore
from tests.support.crash_suite.judge import Done, Work, but_for, different
from tests.support.crash_suite.private_mounts import arguments
from tests.support.crash_suite.resumable_trials import hold, shared_out
from tests.support.crash_suite.scenarios import SCENARIOS, TRUSTFUL
from tests.support.crash_suite.suite import FailpointSuite, NotReached, Undisturbed, one_of_each
from tests.support.crash_suite.trial import Trial, play
from tests.support.crash_suite.trial_log import Failpoints, Shard, Way
from tests.support.crash_suite.warm_programs import KILLED, nursery
from tests.support.events import events_in
from tests.support.logs import whole
from tests.support.real_power_cut import Machine, NotPossible, switched_on
from tests.support.wait import until

_ALSO_KILLED_BEFORE = ("solo", "loop")
_KILLED_BEFORE, _CUTS_THEN = 5, 2  # deaths of each of these, and power cuts in the session after each
_ALSO_AS_FOUND = ("waves", "trusting")


async def end(machine: Machine) -> None:
    """When nobody has a file open there any more: the killed are gone in a moment, and what we have read is closed."""
    await until(lambda: is_off(machine))


def is_off(machine: Machine) -> bool:
    try:
        machine.power_off()
    except NotPossible:
        return False
    return True


async def survives_the_night(machine: Machine, suite: FailpointSuite, *failpoints: str) -> Trial:
    """The power goes at the last of these; at those before it the runner is killed, and the machine goes on."""
    place = suite.place()
    await sync_file_systems(machine.mounted)  # what was there before the run began is not what is looked at
    for number, failpoint in enumerate([*failpoints[:-1], f"{failpoints[-1]}:everyone"]):
        ended = (place.resume if place.runs() else place.begin)(failpoint, f"before-{number}")
        if ended.code != KILLED:
            place.remove()
            raise NotReached(f"the runner did not come by at {failpoint}: {ended}")
    machine.cut_power()
    await end(machine)
    machine.power_on()
    known_then = turns_cut_off(events_in(await whole(FileStore(place.home), place.run_id)) if place.runs() else [])
    trial = play(place)
    done = await Done.look(place)
    done.must_be_sound()
    place.git("fsck", "--strict", "--no-dangling", "--no-progress")
    told = f"the power went at {failpoints}, it ends otherwise\n{trial}"
    must_end_as(done, await suite.undisturbed(), known_then, told)
    place.remove()
    trial.struck = len(failpoints)
    return trial


def turns_cut_off(events: Iterable[Event]) -> dict[str, str]:
    """The conversation of each."""
    return {event.turn: event.conversation for event in events if isinstance(event, TurnInterrupted)}


def must_end_as(done: Done, known: Undisturbed, known_then: Collection[str], told: str) -> None:
    """What an agent wrote in a turn that the power cut off may be gone: what it then makes of its task is its own.

    No attempt is lost, and whatever is of other tasks is as it should be; so is what was written in turns of which it
    was `known_then` that something else had cut them off.
    """
    turns = turns_cut_off(done.events)
    cut_off = done.tasks_of(conversation_id for turn, conversation_id in turns.items() if turn not in known_then)
    if not cut_off:
        done.must_hold()
    own = done.work()
    work = reduce(or_, (of.get(task or "", Work()) for task in cut_off for of in (own, known.work)), Work())
    wrong = different(but_for(done.end(), cut_off, work), but_for(known.end, cut_off, work))
    assert not wrong, f"{told}\n{wrong}"


def on_the_way_back(suite: FailpointSuite, known: Undisturbed) -> list[Failpoints]:
    """A seeded sample: the runner is killed, and the power goes in the session that comes back."""
    dice = random.Random(7)
    firsts = dice.sample(one_of_each(known.of_runner, dice), _KILLED_BEFORE)
    return [
        (first, then)
        for first in firsts
        for then in dice.sample(one_of_each(suite.of_runner_after(first), dice), _CUTS_THEN)
    ]


def as_found(suite: FailpointSuite, known: Undisturbed) -> list[Failpoints]:
    """The runner is killed with something done that it has not written down; the power goes when the next one has."""
    firsts = [failpoint for failpoint in known.of_runner if re.fullmatch(r"(effect\..*|prompt)\.after:1", failpoint)]
    return [(first, last_word(suite.of_runner_after(first))) for first in firsts]


def last_word(passed: list[str]) -> str:
    """What a session has written down last before it does anything."""
    acts = (index for index, failpoint in enumerate(passed) if re.match(r"effect\.(?!settle)|agent\.spawn", failpoint))
    return [failpoint for failpoint in passed[: next(acts, None)] if failpoint.startswith("journal.append.after:")][-1]


async def main(folder: str, scenario: str, which: int, of: int, noted: Shard | None) -> int:
    machine = switched_on(folder)
    with nursery(folder) as warm:
        suite = FailpointSuite(machine.mounted, {**SCENARIOS, **TRUSTFUL}[scenario], warm)
        known = await suite.undisturbed()
        wanted = [*shared_out(((failpoint,) for failpoint in known.of_runner), which, of)]
        if noted is not None and scenario in _ALSO_KILLED_BEFORE:
            wanted += shared_out(on_the_way_back(suite, known), noted.which, noted.of)
        if scenario in _ALSO_AS_FOUND:
            wanted += shared_out(as_found(suite, known), *((noted.which, noted.of) if noted is not None else (0, 1)))
        problems = await hold(partial(survives_the_night, machine, suite), scenario, wanted, noted)
        await end(machine)
    sys.stderr.write("\n".join(problems))
    return min(len(problems), 1)


if __name__ == "__main__":
    given = arguments(Way.POWER_CUT, "folder", "scenario")
    _which, _of = given.numbers
    sys.exit(asyncio.run(main(given.folder, given.scenario, _which, _of, given.noted)))
