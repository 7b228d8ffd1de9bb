"""All checks, one after the other, on the file systems that a run would use."""

import asyncio
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from typing import NamedTuple

from holdfast.engine.selftest import disk, kernel
from holdfast.engine.selftest import file_system as ground
from holdfast.engine.selftest import runs as working
from holdfast.engine.selftest.base import Finding, Verdict, doubt, fails
from holdfast.engine.selftest.calibrate import Deadline, measure, time_limit
from holdfast.engine.selftest.deadline import OutOfTime, until
from holdfast.engine.selftest.folder import temporary
from holdfast.git.repository import find_repository
from holdfast.leaf.errors import HoldfastError

_QUICK = 10  # syncs
_RESUME = "resume"  # the check that all the others are for


class Checked(NamedTuple):
    """One check: what it is called, where it was made, and what it found."""

    name: str
    place: str
    finding: Finding

    @property
    def fails(self) -> bool:
        return self.finding.verdict is Verdict.FAILS

    @property
    def is_unproven(self) -> bool:
        """In doubt, where doubt is not good enough: whether a run that is killed comes back is the whole question."""
        return self.name == _RESUME and self.finding.verdict is Verdict.DOUBT


Tell = Callable[[str], None]
Check = tuple[str, Callable[[], Finding]]


def examine(
    home: str, repository: str | None, *, quick: bool, tell: Tell, seconds: float | None = None
) -> Iterator[Checked]:
    """What each check finds, as it is found. `tell` hears what is being done. Leaves nothing behind.

    All of them together have so many `seconds`, by default what this machine needs: what is not done by then is in
    doubt.
    """
    with ExitStack() as stack:
        folder = stack.enter_context(temporary(home))
        if seconds is None:
            tell("how fast this machine is")
            seconds = time_limit(measure(folder))
        end = Deadline.after(seconds)
        apart = repository is not None and os.stat(repository).st_dev != os.stat(folder).st_dev
        repositories = stack.enter_context(temporary(repository)) if apart and repository is not None else folder
        trial = working.Trial(folder, repositories, tell=tell, enough=end.moment - seconds / 2)
        yield from made(home, [*_disk(folder, quick=quick), *_kernel(folder)], tell, end)
        if apart and repository is not None:
            yield from made(repository, _disk(repositories, quick=quick), tell, end)
        both: list[Check] = [
            ("git", partial(working.using_git, folder, repositories)),
            (_RESUME, partial(working.resuming, trial, working.QUICK if quick else working.ROUNDS)),
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


def made(place: str, checks: Sequence[Check], tell: Tell, end: Deadline) -> Iterator[Checked]:
    """One after the other, until the `end`."""
    for name, check in checks:
        tell(name)
        yield Checked(name, place, _found(check, end))


def _found(check: Callable[[], Finding], end: Deadline) -> Finding:
    """A check that cannot be made does not hold; of one that does not come to its end nothing is known."""
    try:
        with until(end.moment):
            return check()
    except OutOfTime:
        return doubt(f"it did not come to its end: all checks together had {end.seconds:.0f} s", end.advice)
    except (HoldfastError, OSError) as error:
        return fails(f"it could not be tried: {error}", "make it work here, or set HOLDFAST_HOME elsewhere")
