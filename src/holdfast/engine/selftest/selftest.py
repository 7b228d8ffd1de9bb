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
from holdfast.engine.selftest.base import SelftestFinding, SelftestVerdict, doubt, fails
from holdfast.engine.selftest.calibrate import Deadline, measure_costs, time_limit
from holdfast.engine.selftest.deadline import OutOfTime, deadline_at
from holdfast.engine.selftest.folder import temporary_folder
from holdfast.git.repository import find_repository
from holdfast.leaf.errors import HoldfastError

_QUICK_SYNCS = 10  # syncs
_RESUME_CHECK = "resume"  # the check that all the others are for


class SelftestResult(NamedTuple):
    """One check: what it is called, where it was made, and what it found."""

    name: str
    place: str
    finding: SelftestFinding

    @property
    def has_failed(self) -> bool:
        return self.finding.verdict is SelftestVerdict.FAILS

    @property
    def is_unproven(self) -> bool:
        """In doubt, where doubt is not good enough: whether a run that is killed comes back is the whole question."""
        return self.name == _RESUME_CHECK and self.finding.verdict is SelftestVerdict.DOUBT


ReportProgress = Callable[[str], None]
NamedCheck = tuple[str, Callable[[], SelftestFinding]]


def run_selftest(
    parent: str, repository: str | None, *, quick: bool, report: ReportProgress, seconds: float | None = None
) -> Iterator[SelftestResult]:
    """What each check finds, as it is found. `report` is called with each step. Leaves nothing behind.

    All of them together have so many `seconds`, by default what this machine needs: what is not done by then is in
    doubt.
    """
    with ExitStack() as stack:
        folder = stack.enter_context(temporary_folder(parent))
        if seconds is None:
            report("how fast this machine is")
            seconds = time_limit(measure_costs(folder))
        end = Deadline.after(seconds)
        apart = repository is not None and os.stat(repository).st_dev != os.stat(folder).st_dev
        repositories = stack.enter_context(temporary_folder(repository)) if apart and repository is not None else folder
        trial = working.ResumeTrial(folder, repositories, report=report, last_start=end.moment - seconds / 2)
        yield from run_checks(parent, [*_disk_checks(folder, quick=quick), *_kernel_checks(folder)], report, end)
        if apart and repository is not None:
            yield from run_checks(repository, _disk_checks(repositories, quick=quick), report, end)
        both: list[NamedCheck] = [
            ("git", partial(working.check_git, folder, repositories)),
            (
                _RESUME_CHECK,
                partial(working.check_resume, trial, working.QUICK_KILL_ROUNDS if quick else working.KILL_ROUNDS),
            ),
        ]
        yield from run_checks(parent, both, report, end)


def repository_at(folder: str) -> str | None:
    """Where the repository that one stands in keeps its own; None where there is none."""
    try:
        return asyncio.run(find_repository(folder)).common_dir
    except HoldfastError:
        return None


def _disk_checks(folder: str, *, quick: bool) -> list[NamedCheck]:
    syncing = partial(disk.check_sync, folder, count=_QUICK_SYNCS) if quick else partial(disk.check_sync, folder)
    return [
        ("file system", partial(ground.check_file_system, folder)),
        ("room", partial(ground.check_free_space, folder)),
        ("fdatasync", syncing),
        ("kill -9", partial(disk.check_killed_writer, folder, rounds=1 if quick else 3)),
        ("rename", partial(disk.check_rename, folder)),
        ("append", partial(disk.check_append, folder)),
    ]


def _kernel_checks(folder: str) -> list[NamedCheck]:
    return [
        ("flock", partial(kernel.check_lock, folder)),
        ("inotify", partial(kernel.check_file_watch, folder)),
        ("processes", partial(kernel.check_process_identity, folder)),
        ("tree kill", partial(kernel.check_tree_kill, folder)),
        ("clock", partial(ground.check_clock, folder)),
    ]


def run_checks(
    place: str, checks: Sequence[NamedCheck], report: ReportProgress, deadline: Deadline
) -> Iterator[SelftestResult]:
    """One after the other, until the `end`."""
    for name, check in checks:
        report(name)
        yield SelftestResult(name, place, _run_check(check, deadline))


def _run_check(check: Callable[[], SelftestFinding], deadline: Deadline) -> SelftestFinding:
    """A check that cannot be made does not hold; of one that does not come to its end nothing is known."""
    try:
        with deadline_at(deadline.moment):
            return check()
    except OutOfTime:
        return doubt(f"it did not come to its end: all checks together had {deadline.seconds:.0f} s", deadline.advice)
    except (HoldfastError, OSError) as error:
        return fails(f"it could not be tried: {error}", "make it work here, or set HOLDFAST_HOME elsewhere")
