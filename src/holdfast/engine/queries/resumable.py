"""The runs that a command without a run's name can mean: those that can be resumed, and those that can be started.

Only runs that can continue are offered: they have a plan or a workflow, and their repository is where it was.
"""

import os
from collections.abc import AsyncIterator
from typing import NamedTuple

from holdfast.core.end_reason import EndReason
from holdfast.core.run_status import RunStatus
from holdfast.engine.home import Home
from holdfast.engine.queries.logs import view_run
from holdfast.engine.queries.runs import ListedRun, list_runs
from holdfast.git.repository import find_repository
from holdfast.leaf.errors import BadInput, HoldfastError

_NOT_RESUMABLE = frozenset(
    {RunStatus.DONE, RunStatus.RUNNING, RunStatus.ARCHIVED, RunStatus.EMPTY, RunStatus.UNREADABLE}
)


class ResumableRuns(NamedTuple):
    """Runs that can continue, the most recently active first: those of the repository at hand, and all others."""

    here: list[ListedRun]
    elsewhere: list[ListedRun]


async def find_resumable_runs(home: Home, folder: str) -> ResumableRuns:
    repo = await _repository_dir(folder)
    runs = [run async for run in _resumable_runs(home)]
    here = [run for run in runs if run.summary.repo == repo]
    return ResumableRuns(here, [run for run in runs if run not in here])


async def runs_here(home: Home, folder: str) -> list[ListedRun] | None:
    """Return all runs of this repository, the most recently created first; None outside of a repository."""
    repo = await _repository_dir(folder)
    if repo is None:
        return None
    runs = await list_runs(home, repo)
    return sorted(runs, key=lambda run: run.summary.created or "", reverse=True)


async def started_runs(home: Home, folder: str) -> list[ListedRun]:
    """Return the runs on this repository that were started and can be resumed."""
    return [run for run in await _resumable_runs_here(home, folder) if run.status != EndReason.PLANNED]


async def planned_runs(home: Home, folder: str) -> list[ListedRun]:
    """Return the runs on this repository that were planned and not started."""
    return [run for run in await _resumable_runs_here(home, folder) if run.status == EndReason.PLANNED]


async def _resumable_runs_here(home: Home, folder: str) -> list[ListedRun]:
    repo = await _repository_dir(folder)
    return [run async for run in _resumable_runs(home, repo)] if repo is not None else []


async def _resumable_runs(home: Home, repository: str | None = None) -> AsyncIterator[ListedRun]:
    for run in await list_runs(home, repository):
        repo = run.summary.repo
        if run.status in _NOT_RESUMABLE or repo is None or not os.path.isdir(repo):
            continue
        if (run.summary.tasks and run.summary.sessions > 1) or await _has_plan(home, run.id):
            yield run


async def _has_plan(home: Home, run_id: str) -> bool:
    """Read from the log, because the catalog cannot tell: the first session may have been killed during planning."""
    try:
        return (await view_run(home, run_id)).state.has_plan
    except (HoldfastError, OSError):
        return False


async def _repository_dir(folder: str) -> str | None:
    try:
        return (await find_repository(folder)).common_dir
    except BadInput:
        return None
