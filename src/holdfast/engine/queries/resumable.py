"""Which run is meant when none is named: those that can be resumed, and those that wait to be started.

Only runs that can continue are offered: they have a plan or a workflow, and their repository is where it was.
"""

import asyncio
import os
from collections.abc import Iterator
from typing import NamedTuple

from holdfast.core.end_reason import EndReason
from holdfast.core.run_status import RunStatus
from holdfast.engine.queries.logs import view_run
from holdfast.engine.queries.runs import ListedRun, list_runs
from holdfast.git.repository import find_repository
from holdfast.leaf.errors import BadInput, HoldfastError

_NOT_RESUMABLE = frozenset(
    {RunStatus.DONE, RunStatus.RUNNING, RunStatus.ARCHIVED, RunStatus.EMPTY, RunStatus.UNREADABLE}
)


class ResumableRuns(NamedTuple):
    """Runs that can continue, the one that moved last first: those of the repository at hand, and all others."""

    here: list[ListedRun]
    elsewhere: list[ListedRun]


def find_resumable_runs(home: str, folder: str) -> ResumableRuns:
    repo = _repository_dir(folder)
    runs = list(_resumable_runs(home))
    here = [run for run in runs if run.summary.repo == repo]
    return ResumableRuns(here, [run for run in runs if run not in here])


def started_runs(home: str, folder: str) -> list[ListedRun]:
    """Runs on this very repository that were begun and can be resumed."""
    return [run for run in find_resumable_runs(home, folder).here if run.status != EndReason.PLANNED]


def planned_runs(home: str, folder: str) -> list[ListedRun]:
    """Runs on this very repository that were planned and not begun."""
    return [run for run in find_resumable_runs(home, folder).here if run.status == EndReason.PLANNED]


def _resumable_runs(home: str) -> Iterator[ListedRun]:
    for run in list_runs(home):
        repo = run.summary.repo
        if run.status in _NOT_RESUMABLE or repo is None or not os.path.isdir(repo):
            continue
        if (run.summary.tasks and run.summary.sessions > 1) or _has_plan(home, run.id):
            yield run


def _has_plan(home: str, run_id: str) -> bool:
    """Asked of the log, where the catalog cannot tell: its first session may have been killed while it was made."""
    try:
        return asyncio.run(view_run(home, run_id)).state.has_plan
    except (HoldfastError, OSError):
        return False


def _repository_dir(folder: str) -> str | None:
    try:
        return asyncio.run(find_repository(folder)).common_dir
    except BadInput:
        return None
