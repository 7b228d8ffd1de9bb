"""Which step of which run is due, by the retention settings, and doing it: in `holdfast prune`, `watch` and `serve`."""

import asyncio
from collections.abc import Callable, Iterator
from typing import NamedTuple

from holdfast.core.config.settings import RetentionSettings
from holdfast.core.end_reason import EndReason
from holdfast.core.run_status import RunStatus
from holdfast.core.state import RunState
from holdfast.core.text.moment import parse_moment
from holdfast.engine.commands.retention.steps import RetentionStep, apply_step, is_step_done
from holdfast.engine.config.config import load_config
from holdfast.engine.home import Home
from holdfast.engine.queries.logs import view_run
from holdfast.engine.queries.queued import queued_beside
from holdfast.engine.queries.runs import ListedRun, list_runs
from holdfast.leaf.clock import now as clock_now
from holdfast.leaf.errors import HoldfastError, RunOwned, StorageFailed

ROUND_S = 3600.0  # between two looks at all runs
_LOSING = frozenset({RetentionStep.ARCHIVE, RetentionStep.DELETE})  # after which a message can not be delivered
MAX_RUNS_A_ROUND = 20  # the next round continues; a run that fails does not hold up the others


class DueStep(NamedTuple):
    """A step of a run, and how long ago the run's last event was."""

    run: ListedRun
    step: RetentionStep
    age_s: float


def retention_settings(home: Home) -> RetentionSettings:
    """Return the user's settings. Those of repositories do not count."""
    return load_config(home=home).settings.retention


async def due_steps(home: Home, settings: RetentionSettings) -> list[DueStep]:
    """Return the steps that are due now, one for each run, the longest due first."""
    found = []
    for run in await list_runs(home):
        age_s = age_of(run)
        steps = list(_candidates(run, settings, age_s))
        state = (await view_run(home, run.id)).state if steps else None
        if state is not None and is_finished(state):
            if _LOSING.intersection(steps) and await queued_beside(home, run.id, state):
                steps = [step for step in steps if step not in _LOSING]
            if RetentionStep.DELETE in steps and _has_step_before(home, run.id, state, settings, steps):
                steps.remove(RetentionStep.DELETE)
            step = next((step for step in steps if not is_step_done(home, run.id, state, step)), None)
            found += [DueStep(run, step, age_s)] if step is not None else []
    return sorted(found, key=lambda due: due.age_s, reverse=True)


def _has_step_before(
    home: Home, run_id: str, state: RunState, settings: RetentionSettings, due: list[RetentionStep]
) -> bool:
    """Whether another step of an archived run is set, and its time has not come: until then, the run is not deleted."""
    before = (
        (RetentionStep.COMPRESS, settings.compress_after),
        (RetentionStep.TRANSCRIPTS, settings.transcripts_after),
    )
    return any(after_s and step not in due and not is_step_done(home, run_id, state, step) for step, after_s in before)


def age_of(run: ListedRun) -> float:
    """Return the seconds since the run's last event; 0 when that is unknown."""
    last = parse_moment(run.summary.updated or "")
    current = parse_moment(clock_now())
    return max(0.0, current - last) if last is not None and current is not None else 0.0


def is_finished(state: RunState) -> bool:
    """Whether its work ended, and ended well: a run that waits for somebody is never touched by a rule."""
    session = state.newest_session()
    return session is not None and session.ended and session.end_reason in (None, EndReason.ALL_DONE)


def _candidates(run: ListedRun, settings: RetentionSettings, age_s: float) -> Iterator[RetentionStep]:
    """The steps that its status and age allow, the most thorough first."""
    if run.status == RunStatus.DONE:
        steps: tuple[tuple[RetentionStep, float], ...] = (
            (RetentionStep.ARCHIVE, settings.archive_after),
            (RetentionStep.WORKTREES, settings.worktrees_after),
        )
    elif run.status == RunStatus.ARCHIVED:
        steps = (
            (RetentionStep.DELETE, settings.delete_after),
            (RetentionStep.TRANSCRIPTS, settings.transcripts_after),
            (RetentionStep.COMPRESS, settings.compress_after),
        )
    else:
        return
    yield from (step for step, after_s in steps if after_s and age_s >= after_s)


async def apply_retention(home: Home, report: Callable[[str, str], None]) -> None:
    """Do what is due, over and over, until cancelled. Reads the settings each time; without any, nothing is done."""
    while True:
        try:
            settings = retention_settings(home)
            due = await due_steps(home, settings) if settings != RetentionSettings() else []
        except (HoldfastError, OSError) as error:
            report(home.runs_folder, f"retention is not applied: {error}")
            due = []
        for run, step, _ in due[:MAX_RUNS_A_ROUND]:
            try:
                await apply_step(home, run.id, step)
            except RunOwned:
                continue  # another process is at it
            except (HoldfastError, OSError) as error:
                told = error if isinstance(error, HoldfastError) else StorageFailed.from_os_error(error)
                report(run.id, f"retention ({step}): {told}")
            else:
                report(run.id, f"retention: {step} done")
        await asyncio.sleep(ROUND_S)
