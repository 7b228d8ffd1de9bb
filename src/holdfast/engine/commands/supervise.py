"""Resumes unattended runs after a crash or a reboot, by policy and with growing delays.

It does not poll: the kernel reports that a runner died (its lock is free), and that a run is created or resumed. A run
that keeps dying without progress is parked, and its last errors are reported.
"""

import asyncio
import os
from collections.abc import Callable
from contextlib import aclosing, suppress
from functools import partial
from typing import NamedTuple

from holdfast.core.config.settings import ResumePolicy
from holdfast.core.decide.chat import has_work_to_do
from holdfast.core.end_reason import EndReason
from holdfast.core.events.branch import BranchMerged
from holdfast.core.events.conversation import TurnEnded
from holdfast.core.events.session import SessionEnd, SessionStart
from holdfast.core.events.task import TaskCompleted, TaskFailed
from holdfast.core.events.work import (
    CaseSubmitted,
    CommitChanged,
    CommitRefused,
    TaskCommitted,
    ValidationFinished,
    VerdictGiven,
)
from holdfast.core.log.codec import Line, parse
from holdfast.core.run_status import RunStatus
from holdfast.engine.commands.detach import start_detached
from holdfast.engine.config.of_run import run_config_for
from holdfast.engine.home import Home
from holdfast.engine.queries.live.wait import wait_until_free
from holdfast.engine.queries.logs import end_of_log, view_run
from holdfast.leaf.errors import HoldfastError, RunOwned, StorageFailed
from holdfast.leaf.files.directories import is_missing
from holdfast.store.base import Log
from holdfast.store.run import open_run

_RETRY_DELAY_S = ResumePolicy().longest_back_off
_MAX_RETRY_DELAY_S = 12 * _RETRY_DELAY_S  # for a run that is refused repeatedly

ReportRun = Callable[[str, str], None]  # run id, message

_PROGRESS_EVENTS = frozenset(
    kind.type
    for kind in (
        BranchMerged,
        CaseSubmitted,
        CommitChanged,
        CommitRefused,
        SessionEnd,
        TaskCommitted,
        TaskCompleted,
        TaskFailed,
        TurnEnded,
        ValidationFinished,
        VerdictGiven,
    )
)


class Deaths(NamedTuple):
    """Consecutive sessions that died without progress, and the last known error of the newest."""

    times: int
    last_event: str


async def supervise_runs(home: Home, report: ReportRun) -> None:
    """Supervise every run of the home, and each new one, until cancelled."""
    supervised: set[str] = set()
    async with home.store.watch_runs() as watch, asyncio.TaskGroup() as group:
        while True:
            watch.changed.clear()
            found = _list_run_ids(home, report)
            for run_id in (found or set()) - supervised:
                supervised.add(run_id)
                task = group.create_task(_supervise(home, run_id, report))
                task.add_done_callback(partial(_forget, supervised, run_id))  # the run may be created again
            with suppress(TimeoutError):
                await asyncio.wait_for(watch.changed.wait(), None if found is not None else _RETRY_DELAY_S)


def _forget(supervised: set[str], run_id: str, _: object) -> None:
    supervised.discard(run_id)


def _list_run_ids(home: Home, report: ReportRun) -> set[str] | None:
    """Return the ids of all runs; None if listing fails now: the runs already supervised stay supervised."""
    try:
        return set(home.run_ids())
    except OSError as error:
        report(home.runs_folder, f"new runs are not supervised: {_as_holdfast_error(error)}")
        return None


async def _supervise(home: Home, run_id: str, report: ReportRun) -> None:
    """Supervise one run until it is deleted: wait until it has no owner, then decide whether to resume it.

    A failure such as a full disk or an unreadable config may be temporary: it is reported once and retried at growing
    intervals.
    """
    reported, delay_s = "", _RETRY_DELAY_S
    while True:
        after = None
        try:
            await wait_until_free(home, run_id)
            after = await end_of_log(home, run_id)
            if not await _resume_if_interrupted(home, run_id, report):
                await _wait_for_session_start(home.store.log(run_id), after)
            reported, delay_s = "", _RETRY_DELAY_S
        except (HoldfastError, OSError) as error:
            if is_missing(home.folder(run_id)):
                return
            message = f"it cannot be resumed automatically: {_as_holdfast_error(error)}"
            if message != reported:
                report(run_id, message)
            await _wait_for_restart(home, run_id, after, delay_s)
            reported, delay_s = message, min(2 * delay_s, _MAX_RETRY_DELAY_S)


def _as_holdfast_error(error: HoldfastError | OSError) -> HoldfastError:
    return error if isinstance(error, HoldfastError) else StorageFailed.from_os_error(error)


async def _resume_if_interrupted(home: Home, run_id: str, report: ReportRun) -> bool:
    """Resume a run that was interrupted. Returns False if there is nothing to resume or the run is parked."""
    view = await view_run(home, run_id)
    policy = run_config_for(home, view.state).settings.resume
    if view.status != RunStatus.INTERRUPTED or view.state.run is None or not policy.auto:
        return False
    if view.state.is_chat and not has_work_to_do(view.state):  # its user's next message resumes it
        return False
    deaths = await count_deaths(home.store.log(run_id))
    if deaths.times >= policy.deaths:
        reason = (
            f"it died {deaths.times} times without getting any further; the last that is known: {deaths.last_event}"
        )
        await _park(home, run_id, reason)
        report(run_id, f"parked: {reason}")
        return False
    await asyncio.sleep(_back_off_s(policy, deaths.times))
    try:
        pid = await start_detached(home, run_id)
    except HoldfastError as error:
        if error.exit_code != RunOwned.exit_code:
            raise
        return True  # another process resumed it first
    report(run_id, f"resumed (pid {pid})")
    return True


def _back_off_s(policy: ResumePolicy, deaths: int) -> float:
    """Return the delay before a resume: none before the first, then doubled each time."""
    return 0.0 if deaths <= 1 else min(policy.back_off * 2 ** (deaths - 2), policy.longest_back_off)


async def count_deaths(log: Log) -> Deaths:
    """Count the deaths since the last progress. Reads from the log's end, and no more than necessary."""
    count, last = 0, ""
    async for batch in log.read_backwards():
        for raw in reversed(batch.data.split(b"\n")):
            line = parse(raw)
            if not isinstance(line, Line):
                continue
            last = last or line.type
            if line.type in _PROGRESS_EVENTS:
                return Deaths(max(count, 1), last)
            count += line.type == SessionStart.type
    return Deaths(count, last)


async def _park(home: Home, run_id: str, reason: str) -> None:
    async with open_run(home.store, run_id) as run:
        await run.begin_session(
            SessionStart(command="watch", pid=os.getpid()), SessionEnd(reason=EndReason.PARKED, summary=reason)
        )


async def _wait_for_restart(home: Home, run_id: str, after: int | None, timeout_s: float) -> None:
    """Return when the run is resumed or the timeout expires; only the timeout applies if its log cannot be followed."""
    with suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            try:
                if after is not None:
                    await _wait_for_session_start(home.store.log(run_id), after)
                    return
            except (HoldfastError, OSError):
                pass
            await asyncio.Event().wait()


async def _wait_for_session_start(log: Log, after: int) -> None:
    async with aclosing(log.follow(after)) as batches:  # type: ignore[type-var]
        async for batch in batches:
            lines = (parse(raw) for raw in batch.data.split(b"\n"))
            if any(isinstance(line, Line) and line.type == SessionStart.type for line in lines):
                return
