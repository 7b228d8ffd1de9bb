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

from holdfast.core.config.settings import ResumePolicy, Settings
from holdfast.core.decide.chat import STARTING_KINDS, has_work_to_do
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
from holdfast.core.state import RunState
from holdfast.core.summary.limits import resumes_at
from holdfast.core.text.moment import format_countdown, format_moment, parse_moment
from holdfast.engine.commands.daily_digest import send_daily_digests
from holdfast.engine.commands.detach import start_detached
from holdfast.engine.commands.retention.rules import apply_retention
from holdfast.engine.config.of_run import run_config_for
from holdfast.engine.home import Home
from holdfast.engine.notify.notifier import Notifier, draining
from holdfast.engine.queries.chats import STARTED_FOR_MESSAGES, has_unread_message
from holdfast.engine.queries.live.wait import wait_until_free
from holdfast.engine.queries.logs import RunView, end_of_log, view_run
from holdfast.leaf.errors import HoldfastError, RunOwned, StorageFailed
from holdfast.leaf.files.exclusive import hold_file_lock
from holdfast.leaf.wall_clock import WallClock
from holdfast.store.base import Inbox, Log, Position
from holdfast.store.run import open_run

_RETRY_DELAY_S = ResumePolicy().longest_back_off
_MAX_RETRY_DELAY_S = 12 * _RETRY_DELAY_S  # for a run that is refused repeatedly

_SENDER_TIME_S = 3.0  # for the sender of a message to start a runner

_CLOCK_CHECK_S = 30.0
_LOCK_FILE = "supervisor.lock"  # in the home
_WAITING_FOR_TIME = (EndReason.QUOTA, EndReason.OUTAGE, EndReason.DAY_BUDGET)

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


async def supervise_home(
    home: Home, report: ReportRun, waits: Callable[[int | None], None], begins: Callable[[], None]
) -> None:
    """Supervise as the only process that does, until cancelled: of `watch` and all servers, one resumes runs.

    `waits` is called with the pid of the other one; `begins` when this one took over.
    """
    async with hold_file_lock(home.file(_LOCK_FILE), waits):
        begins()
        async with asyncio.TaskGroup() as group:
            group.create_task(apply_retention(home, report))
            group.create_task(supervise_runs(home, report))


async def supervise_runs(home: Home, report: ReportRun, clock: WallClock | None = None) -> None:
    """Supervise every run of the home, and each new one, until cancelled."""
    clock = clock or WallClock()
    supervised: set[str] = set()
    async with home.store.watch_runs() as watch, asyncio.TaskGroup() as group:
        group.create_task(send_daily_digests(home, clock))
        while True:
            watch.changed.clear()
            found = _list_run_ids(home, report)
            for run_id in (found or set()) - supervised:
                supervised.add(run_id)
                task = group.create_task(_supervise(home, run_id, report, clock))
                task.add_done_callback(partial(_forget, supervised, run_id))  # the run may be created again
            with suppress(TimeoutError):
                await asyncio.wait_for(watch.changed.wait(), None if found is not None else _RETRY_DELAY_S)


def _forget(supervised: set[str], run_id: str, _: object) -> None:
    supervised.discard(run_id)


def _list_run_ids(home: Home, report: ReportRun) -> set[str] | None:
    """Return the ids of all runs; None if listing fails now: the runs already supervised stay supervised."""
    try:
        return {run_id for run_id in home.run_ids() if home.has_worked_here(run_id)}
    except (OSError, StorageFailed) as error:
        report(
            home.place if home.store_url else home.runs_folder,
            f"new runs are not supervised: {_as_holdfast_error(error)}",
        )
        return None


async def _supervise(home: Home, run_id: str, report: ReportRun, clock: WallClock) -> None:
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
            supervised = await _view(home, run_id, clock, report)
            async with draining(supervised.notifier):
                if not await _resume_if_interrupted(supervised):
                    await _wait_for_start_or_message(supervised, after)
            reported, delay_s = "", _RETRY_DELAY_S
        except (HoldfastError, OSError) as error:
            if home.is_deleted(run_id):
                return
            message = f"it cannot be resumed automatically: {_as_holdfast_error(error)}"
            if message != reported:
                report(run_id, message)
            await _wait_for_restart(home, run_id, after, delay_s)
            reported, delay_s = message, min(2 * delay_s, _MAX_RETRY_DELAY_S)


def _as_holdfast_error(error: HoldfastError | OSError) -> HoldfastError:
    return error if isinstance(error, HoldfastError) else StorageFailed.from_os_error(error)


class _Supervised(NamedTuple):
    """A run without an owner."""

    home: Home
    run_id: str
    view: RunView
    settings: Settings
    notifier: Notifier
    clock: WallClock
    report: ReportRun


async def _view(home: Home, run_id: str, clock: WallClock, report: ReportRun) -> _Supervised:
    view = await view_run(home, run_id)
    settings = run_config_for(home, view.state).settings
    notifier = Notifier(home, run_id, settings.notify, clock)
    return _Supervised(home, run_id, view, settings, notifier, clock, report)


async def _resume_if_interrupted(run: _Supervised) -> bool:
    """Resume a run that was interrupted. Returns False if there is nothing to resume or the run is parked."""
    home, run_id, policy, state = run.home, run.run_id, run.settings.resume, run.view.state
    if state.run is None or state.run.remote is not None or not policy.auto:  # workers continue a cluster run
        return False
    if run.view.status in _WAITING_FOR_TIME:
        await _wait_for_its_time(home, run_id, state, run.clock, run.report)
        return await _start(home, run_id, run.report)
    is_waiting = state.is_chat and not has_work_to_do(state)  # its user's next message resumes it
    if (run.view.status != RunStatus.INTERRUPTED or is_waiting) and not await _has_unread_message(run):
        return False
    deaths = await count_deaths(home.store.log(run_id))
    if deaths.times >= policy.deaths:
        reason = (
            f"it died {deaths.times} times without getting any further; the last that is known: {deaths.last_event}"
        )
        await run.notifier.begin()
        await park_run(home, run_id, reason)
        run.report(run_id, f"parked: {reason}")
        return False
    await asyncio.sleep(_back_off_s(policy, deaths.times))
    return await _start(home, run_id, run.report)


async def _has_unread_message(run: _Supervised) -> bool:
    """Whether a chat has a message for which no runner was started: its sender died before that."""
    return _starts_for_messages(run) and await has_unread_message(run.home, run.view)


def _starts_for_messages(run: _Supervised) -> bool:
    return run.view.state.is_chat and run.settings.resume.auto and run.view.status in STARTED_FOR_MESSAGES


async def _wait_for_start_or_message(run: _Supervised, after: Position) -> None:
    """Wait until somebody starts the run, or it is a chat that gets a message.

    The sender of a message starts a runner for it, and has some time for that.
    """
    started = asyncio.ensure_future(_wait_for_session_start(run.home.store.log(run.run_id), after))
    waits = {started}
    if _starts_for_messages(run):
        inbox = run.home.store.inbox(run.run_id)
        waits.add(asyncio.ensure_future(_wait_for_message(inbox, run.view.state.inbox_cursor)))
    try:
        done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        if started not in done:
            done |= (await asyncio.wait({started}, timeout=_SENDER_TIME_S))[0]
        for task in done:
            task.result()
    finally:
        for task in waits:
            task.cancel()


async def _wait_for_message(inbox: Inbox, after: Position) -> None:
    async with aclosing(inbox.follow(after)) as entries:  # type: ignore[type-var]
        async for entry in entries:
            if entry.message is not None and entry.message.kind in STARTING_KINDS:
                return


async def _wait_for_its_time(home: Home, run_id: str, state: RunState, clock: WallClock, report: ReportRun) -> None:
    """Wait for the reset of a limit, or for the next day, by the wall clock, or until somebody resumes the run earlier.

    The clock is read again and again: it may be set, and the machine suspended.
    """
    until = parse_moment(resumes_at(state)) or 0.0
    after = await end_of_log(home, run_id)
    left = until - clock.now()
    if left > 0:
        what = "its provider" if state.limits else "the budget of the next day"
        report(run_id, f"waits for {what} until {format_moment(until)} (in {format_countdown(left)})")
    resumed = asyncio.ensure_future(_wait_for_session_start(home.store.log(run_id), after))
    try:
        while (left := until - clock.now()) > 0 and not resumed.done():
            pause = asyncio.ensure_future(clock.sleep(min(left, _CLOCK_CHECK_S)))
            try:
                await asyncio.wait({pause, resumed}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                pause.cancel()
        if resumed.done():
            resumed.result()
    finally:
        resumed.cancel()


async def _start(home: Home, run_id: str, report: ReportRun) -> bool:
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


async def park_run(home: Home, run_id: str, reason: str) -> None:
    """Record that the run is not resumed by itself any more."""
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
