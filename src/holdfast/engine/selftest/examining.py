"""All checks, one after the other, on the file systems that a run would use."""

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import NamedTuple

from holdfast.engine.selftest import disk, ground, kernel, working
from holdfast.engine.selftest.base import Finding, Verdict, fails
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
_Check = tuple[str, Callable[[], Finding]]


def examine(home: str, repository: str | None, *, quick: bool, tell: Tell) -> Iterator[Checked]:
    """What each check finds, as it is found. `tell` hears what is being done. Leaves nothing behind."""
    with ExitStack() as stack:
        folder = stack.enter_context(temporary(home))
        apart = repository is not None and os.stat(repository).st_dev != os.stat(folder).st_dev
        repositories = stack.enter_context(temporary(repository)) if apart and repository is not None else folder
        trial = working.Trial(folder, repositories, tell=tell)
        yield from _made(home, [*_disk(folder, quick=quick), *_kernel(folder)], tell)
        if apart and repository is not None:
            yield from _made(repository, _disk(repositories, quick=quick), tell)
        both: list[_Check] = [
            ("git", partial(working.using_git, folder, repositories)),
            ("resume", partial(working.resuming, trial, working.QUICK if quick else working.ROUNDS)),
        ]
        yield from _made(home, both, tell)


def repository_at(folder: str) -> str | None:
    """Where the repository that one stands in keeps its own; None where there is none."""
    try:
        return asyncio.run(find_repository(folder)).common_dir
    except HoldfastError:
        return None


def _disk(folder: str, *, quick: bool) -> list[_Check]:
    syncing = partial(disk.syncing, folder, count=_QUICK) if quick else partial(disk.syncing, folder)
    return [
        ("file system", partial(ground.file_system, folder)),
        ("room", partial(ground.room, folder)),
        ("fdatasync", syncing),
        ("kill -9", partial(disk.killed_writer, folder, rounds=1 if quick else 3)),
        ("rename", partial(disk.renaming, folder)),
        ("append", partial(disk.appending, folder)),
    ]


def _kernel(folder: str) -> list[_Check]:
    return [
        ("flock", partial(kernel.locking, folder)),
        ("inotify", partial(kernel.telling, folder)),
        ("processes", partial(kernel.identity, folder)),
        ("tree kill", partial(kernel.burying, folder)),
        ("clock", partial(ground.clock, folder)),
    ]


def _made(place: str, checks: list[_Check], tell: Tell) -> Iterator[Checked]:
    for name, check in checks:
        tell(name)
        yield Checked(name, place, _found(check))


def _found(check: Callable[[], Finding]) -> Finding:
    """A check that cannot be made does not hold."""
    try:
        return check()
    except (HoldfastError, OSError) as error:
        return fails(f"it could not be tried: {error}", "make it work here, or set HOLDFAST_HOME elsewhere")
