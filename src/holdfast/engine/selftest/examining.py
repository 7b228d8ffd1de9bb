"""All checks, one after the other, on the file systems that a run would use."""

import asyncio
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from typing import NamedTuple

from holdfast.engine.selftest import disk, ground, kernel, working
from holdfast.engine.selftest.base import Finding, Verdict, doubt, fails
from holdfast.engine.selftest.deadline import WHOLE, OutOfTime, until
from holdfast.engine.selftest.place import temporary
from holdfast.git.repository import find_repository
from holdfast.leaf.errors import HoldfastError

_QUICK = 10  # syncs


class Checked(NamedTuple):
    """One check: what it is called, where it was made, and what it found."""

    name: str
    place: str
    finding: Finding

    @property
    def holds(self) -> bool:
        return self.finding.verdict is not Verdict.FAILS


Tell = Callable[[str], None]
Check = tuple[str, Callable[[], Finding]]


def examine(home: str, repository: str | None, *, quick: bool, tell: Tell, seconds: float = WHOLE) -> Iterator[Checked]:
    """What each check finds, as it is found. `tell` hears what is being done. Leaves nothing behind.

    All of them together have so many `seconds`: what is not done by then is in doubt.
    """
    end = time.monotonic() + seconds
    with ExitStack() as stack:
        folder = stack.enter_context(temporary(home))
        apart = repository is not None and os.stat(repository).st_dev != os.stat(folder).st_dev
        repositories = stack.enter_context(temporary(repository)) if apart and repository is not None else folder
        trial = working.Trial(folder, repositories, tell=tell)
        yield from made(home, [*_disk(folder, quick=quick), *_kernel(folder)], tell, end)
        if apart and repository is not None:
            yield from made(repository, _disk(repositories, quick=quick), tell, end)
        both: list[Check] = [
            ("git", partial(working.using_git, folder, repositories)),
            ("resume", partial(working.resuming, trial, working.QUICK if quick else working.ROUNDS)),
        ]
        yield from made(home, both, tell, end)


def repository_at(folder: str) -> str | None:
    """Where the repository that one stands in keeps its own; None where there is none."""
    try:
        return asyncio.run(find_repository(folder)).common_dir
    except HoldfastError:
        return None


def _disk(folder: str, *, quick: bool) -> list[Check]:
    syncing = partial(disk.syncing, folder, count=_QUICK) if quick else partial(disk.syncing, folder)
    return [
        ("file system", partial(ground.file_system, folder)),
        ("room", partial(ground.room, folder)),
        ("fdatasync", syncing),
        ("kill -9", partial(disk.killed_writer, folder, rounds=1 if quick else 3)),
        ("rename", partial(disk.renaming, folder)),
        ("append", partial(disk.appending, folder)),
    ]


def _kernel(folder: str) -> list[Check]:
    return [
        ("flock", partial(kernel.locking, folder)),
        ("inotify", partial(kernel.telling, folder)),
        ("processes", partial(kernel.identity, folder)),
        ("tree kill", partial(kernel.burying, folder)),
        ("clock", partial(ground.clock, folder)),
    ]


def made(place: str, checks: Sequence[Check], tell: Tell, end: float) -> Iterator[Checked]:
    """One after the other, until the `end`, by the monotonic clock."""
    for name, check in checks:
        tell(name)
        yield Checked(name, place, _found(check, end))


def _found(check: Callable[[], Finding], end: float) -> Finding:
    """A check that cannot be made does not hold; of one that does not come to its end nothing is known."""
    try:
        with until(end):
            return check()
    except OutOfTime:
        return doubt("there was not time enough to see it", "try again when this machine, or its disk, is less busy")
    except (HoldfastError, OSError) as error:
        return fails(f"it could not be tried: {error}", "make it work here, or set HOLDFAST_HOME elsewhere")
