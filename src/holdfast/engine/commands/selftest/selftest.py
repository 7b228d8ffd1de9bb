"""Runs all checks in turn on the file systems that a run would use."""

import asyncio
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from typing import NamedTuple

from holdfast.engine.commands.selftest import disk, kernel
from holdfast.engine.commands.selftest import file_system as ground
from holdfast.engine.commands.selftest import runs as working
from holdfast.engine.commands.selftest.base import SelftestFinding, SelftestVerdict, doubt, fails
from holdfast.engine.commands.selftest.calibrate import Deadline, measure_costs, time_limit
from holdfast.engine.commands.selftest.deadline import OutOfTime, deadline_at
from holdfast.engine.commands.selftest.folder import temporary_folder
from holdfast.git.repository import find_repository
from holdfast.leaf.errors import HoldfastError

_QUICK_SYNCS = 10
_RESUME_CHECK = "resume"  # the end-to-end check


class SelftestResult(NamedTuple):
    """One check: its name, where it ran, and what it found."""

    name: str
    place: str
    finding: SelftestFinding

    @property
    def has_failed(self) -> bool:
        return self.finding.verdict is SelftestVerdict.FAILS

    @property
    def is_unproven(self) -> bool:
        """Return whether doubt counts as failure: a killed run that resumes is what the selftest must prove."""
        return self.name == _RESUME_CHECK and self.finding.verdict is SelftestVerdict.DOUBT


ReportProgress = Callable[[str], None]
NamedCheck = tuple[str, Callable[[], SelftestFinding]]


def run_selftest(
    parent: str, repository: str | None, *, quick: bool, report: ReportProgress, seconds: float | None = None
) -> Iterator[SelftestResult]:
    """Yield what each check finds, as it is found. `report` is called at each step. Leaves nothing behind.

    Blocks, and runs event loops of its own: a caller with an event loop uses a thread.

    All checks together have `seconds`, by default what this machine needs. What is not done by then is in doubt.
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
    """Return the repository that contains the folder; None if there is none."""
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
    """Run the checks in turn until the deadline."""
    for name, check in checks:
        report(name)
        yield SelftestResult(name, place, _run_check(check, deadline))


def _run_check(check: Callable[[], SelftestFinding], deadline: Deadline) -> SelftestFinding:
    """A check that raises fails; one that does not finish in time is in doubt."""
    try:
        with deadline_at(deadline.moment):
            return check()
    except OutOfTime:
        return doubt(f"it did not finish: all checks together had {deadline.seconds:.0f} s", deadline.advice)
    except (HoldfastError, OSError) as error:
        return fails(f"it could not be run: {error}", "make it work here, or set HOLDFAST_HOME elsewhere")
