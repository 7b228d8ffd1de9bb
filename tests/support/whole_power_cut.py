"""Whole runs whose machine loses its power: all is killed at a point, and what was not synced by then is gone.

    unshare --mount python -m tests.support.whole_power_cut FOLDER SCENARIO EVERY FIRST      needs root

Home, repository, worktrees and what agents remember are on an ext4 that is shut down without a flush and mounted again.
Of the points that the undisturbed run passes, every so-many-th is tried, from the given one on. Ends with 77 and says
why where the machine does not allow it.
"""

import asyncio
import sys
import traceback

from holdfast.core.events.conversation import TurnInterrupted
from holdfast.leaf.syncing import sync_file_systems
from tests.support.doom.checks import Done
from tests.support.doom.nursery import nursery
from tests.support.doom.scenarios import SCENARIOS
from tests.support.doom.suite import Theatre
from tests.support.doom.trial import play
from tests.support.real_power_cut import NOT_POSSIBLE, Machine, NotPossible
from tests.support.waiting import until


async def end(machine: Machine) -> None:
    """When nobody has a file open there any more: the killed are gone in a moment, and what we have read is closed."""
    await until(lambda: is_off(machine))


def is_off(machine: Machine) -> bool:
    try:
        machine.power_off()
    except NotPossible:
        return False
    return True


async def survives_the_night(machine: Machine, theatre: Theatre, doom: str) -> None:
    place = theatre.place()
    await sync_file_systems(machine.mounted)  # what was there before the run began is not what is looked at
    place.begin(f"{doom}:everyone")
    machine.cut_power()
    await end(machine)
    machine.power_on()
    trial = play(place)
    done = await Done.look(place)
    done.must_be_sound()
    place.git("fsck", "--strict", "--no-dangling", "--no-progress")
    if not done.of(TurnInterrupted):  # what an agent wrote and nobody had committed may be gone
        await theatre.must_end_alike(place, f"the power went at {doom}, it ends otherwise\n{trial}")
    place.remove()


async def main(folder: str, scenario: str, every: int, first: int) -> int:
    machine = Machine(folder)
    machine.power_on()
    problems = 0
    with nursery(folder) as warm:
        theatre = Theatre(machine.mounted, SCENARIOS[scenario], warm)
        passes = (await theatre.undisturbed()).passes
        for doom in passes[first::every]:
            try:
                await survives_the_night(machine, theatre, doom)
            except AssertionError as error:
                problems += 1
                sys.stderr.write(f"{doom}: {''.join(traceback.format_exception(error))}\n")
        await end(machine)
    return min(problems, 1)


if __name__ == "__main__":
    try:
        sys.exit(asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))))
    except NotPossible as reason:
        sys.stderr.write(str(reason))
        sys.exit(NOT_POSSIBLE)
