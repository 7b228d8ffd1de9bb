"""Whole runs on a disk that is really full: a small file system, which is given room again, and the run goes on.

    unshare --mount python -m tests.support.crash_suite.small_disk FOLDER SCENARIO PAGES… [--noted=WHICH/OF]

It needs the right to mount.

For each number of free pages: home, repository, worktrees and what agents remember are all on that file system, so
journal, inbox, git, agents and their tools meet its end, each in its turn. Numbers that are enough for the whole run
are the last that are tried. Ends with 77 and says why where the machine does not allow it.
"""

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Collection, Mapping
from itertools import takewhile
from typing import Any

from holdfast.core.conversation.states import REFUSED
from holdfast.core.events.conversation import ToolReturned, TurnEnded
from tests.support.crash_suite.judge import Done, attempts_in, different
from tests.support.crash_suite.leftover_processes import strays_of
from tests.support.crash_suite.private_mounts import NOT_POSSIBLE, arguments
from tests.support.crash_suite.resumable_trials import hold
from tests.support.crash_suite.scenarios import SCENARIOS
from tests.support.crash_suite.suite import FailpointSuite
from tests.support.crash_suite.trial import Trial, must_be_civil, play
from tests.support.crash_suite.trial_log import Shard, Way
from tests.support.crash_suite.trial_place import Place
from tests.support.crash_suite.warm_programs import Ended, nursery

PAGE = 4096
_ROOM = 64 * 1024 * 1024
_EVENT_LINE = re.compile(r"\d\d:\d\d:\d\d |holdfast: HOLDFAST_CRASH is on")  # what went wrong for a task is always told
_FULL = ("No space left", "Out of diskspace", "unable to write", "could not write", "parked")


class SmallDisk:
    """A file system in memory, whose size can be set while it is used."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        _command("mount", "-t", "tmpfs", "-o", f"size={_ROOM}", "small", folder)

    def used(self) -> int:
        found = os.statvfs(self.folder)
        return (found.f_blocks - found.f_bfree) * found.f_frsize

    def leave(self, free: int) -> None:
        self._resize(self.used() + free * PAGE)

    def make_room(self) -> None:
        self._resize(_ROOM)

    def _resize(self, size: int) -> None:
        _command("mount", "-o", f"remount,size={size}", self.folder)


def _command(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)


async def filled(disk: SmallDisk, suite: FailpointSuite, free: int) -> Ended:
    """One run with so many pages free; then with room, until it is done."""
    await suite.undisturbed()
    place = suite.place()
    disk.leave(free)
    try:
        ended = place.begin()
    finally:
        disk.make_room()
    must_be_one_line(ended)
    must_be_alone(place)
    play(place, may_fail=True)  # whether it may is told by its log
    await must_end_well(suite, place)
    place.remove()
    return ended


async def must_end_well(suite: FailpointSuite, place: Place) -> None:
    """As the undisturbed run did; or soundly, when agents could not do their part for want of room."""
    done = await Done.look(place)
    done.must_be_sound()
    expected, end = (await suite.undisturbed()).end, done.end()
    must_not_have_lost_attempts(end, expected, done.tasks_of(who_met_the_end(done)))
    if any(event.stop_reason == REFUSED for event in done.of(TurnEnded)):
        assert end["user's"] == expected["user's"]
    else:
        done.must_hold()
        wrong = different(but_for_iterations(end), but_for_iterations(expected))
        assert not wrong, wrong


def who_met_the_end(done: Done) -> set[str]:
    """The conversations in which a call failed, as a report for which there was no room, or a prompt."""
    failed = {event.conversation for event in done.of(ToolReturned) if event.status == "failed"}
    return failed | {event.conversation for event in done.of(TurnEnded) if event.stop_reason == REFUSED}


def must_not_have_lost_attempts(
    end: Mapping[str, Any], expected: Mapping[str, Any], excused: Collection[str | None]
) -> None:
    """An agent whose report found no room is told so; if it does not report again, that costs its task an iteration.

    No other task has more, and none that came to the same end has fewer.
    """
    attempts, usual = attempts_in(end), attempts_in(expected)
    alike = [name for name in usual if name in attempts and end["tasks"][name][:2] == expected["tasks"][name][:2]]
    wrong = {
        name: (attempts[name], usual[name])
        for name in alike
        if attempts[name] < usual[name] or (attempts[name] > usual[name] and name not in excused)
    }
    assert not wrong, f"attempts that nothing explains: {wrong}"


def but_for_iterations(end: dict[str, Any]) -> dict[str, Any]:
    """They are looked at for themselves."""
    return {**end, "tasks": {name: found[:-1] for name, found in end["tasks"].items()}}


def must_be_one_line(ended: Ended) -> None:
    """Whatever went wrong, beside what is told of tasks: how it ended, and that a test is at work."""
    must_be_civil(ended)
    assert len([line for line in ended.err.splitlines() if not _EVENT_LINE.match(line)]) == 1, ended.err
    assert ended.code in (0, 1, 6), ended  # what could not be taken back waits for whoever settles it


def must_be_alone(place: Place) -> None:
    for run in place.runs():
        left = strays_of(place.home, run)
        assert not left, f"a process is left: {left}"


async def main(folder: str, scenario: str, pages: list[int], noted: Shard | None) -> int:
    try:
        disk = SmallDisk(folder)
    except (OSError, subprocess.CalledProcessError) as error:
        sys.stderr.write(f"no file system can be mounted here: {error}\n")
        return NOT_POSSIBLE
    enough = False

    async def trial(free: str) -> Trial:
        nonlocal enough
        ended = await filled(disk, suite, int(free))
        enough = ended.code in SCENARIOS[scenario].ends and not is_for_want_of_room(ended)
        return Trial([ended], struck=1)

    with nursery(folder) as warm:
        suite = FailpointSuite(folder, SCENARIOS[scenario], warm)
        wanted = takewhile(lambda _: not enough, ((str(free),) for free in pages))
        problems = await hold(trial, scenario, wanted, noted)
    sys.stderr.write("\n".join(problems))
    return min(len(problems), 1)


def is_for_want_of_room(ended: Ended) -> bool:
    return any(words in ended.err for words in _FULL)


if __name__ == "__main__":
    given = arguments(Way.DISK_FULL, "folder", "scenario")
    sys.exit(asyncio.run(main(given.folder, given.scenario, given.numbers, given.noted)))
