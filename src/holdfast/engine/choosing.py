"""Which run is meant when none is named: those that can be resumed, and those that wait to be started."""

import asyncio

from holdfast.engine.listing import ListedRun, list_runs
from holdfast.git.repository import find_repository
from holdfast.leaf.errors import BadInput

_NOT_TO_RESUME = frozenset({"done", "running", "archived", "empty", "unreadable"})
PLANNED = "planned"


def resumable(home: str, folder: str) -> list[ListedRun]:
    """Runs that can go on, the one that moved last first; those of the repository at hand, when it has any."""
    runs = [run for run in list_runs(home) if run.status not in _NOT_TO_RESUME]
    repo = _repository(folder)
    return [run for run in runs if run.summary.repo == repo] or runs


def left_behind(home: str, folder: str) -> list[ListedRun]:
    """Runs on this very repository that were begun and can be resumed."""
    repo = _repository(folder)
    return [
        run
        for run in list_runs(home)
        if run.summary.repo == repo and run.status not in _NOT_TO_RESUME and run.status != PLANNED
    ]


def prepared(home: str, folder: str) -> list[ListedRun]:
    """Runs on this very repository that were planned and not begun."""
    repo = _repository(folder)
    return [run for run in list_runs(home) if run.summary.repo == repo and run.status == PLANNED]


def _repository(folder: str) -> str | None:
    try:
        return asyncio.run(find_repository(folder)).common_dir
    except BadInput:
        return None
