"""Holds one run on this machine, as a child of a worker: waits until the run is free, then runs one session of it.

It tells its worker on stdout that it is alive, and at the end what came of it. The first line of stdin has its options.
A `drain` there ends the session cleanly; the end of stdin means that the worker is dead, and does the same. It never
reports a session as ended that lost its lease: another machine has the run then.
"""

import asyncio
import os
import sys
from contextlib import suppress
from typing import NoReturn

import msgspec

from holdfast.core.decide.analysis import Analysis
from holdfast.core.decide.resume import ResumeChoice, given_choice
from holdfast.core.end_reason import EndReason
from holdfast.core.events import Event
from holdfast.core.events.session import RunResumed, SessionEnd
from holdfast.core.log.codec import CODEC, Line, parse
from holdfast.core.messages.schema import MessageKind
from holdfast.core.run_status import RunStatus
from holdfast.core.summary.limits import resumes_at
from holdfast.engine.commands.cluster.engine_address import SEEN_OPTION, option_value
from holdfast.engine.commands.cluster.hold import kill_session_processes, silence_s
from holdfast.engine.commands.cluster.session_report import ReportKind, SessionReport
from holdfast.engine.commands.cluster.setbacks import set_back
from holdfast.engine.commands.supervise import count_deaths, park_run
from holdfast.engine.config.of_run import on_issue_setting, run_config_for
from holdfast.engine.home import Home
from holdfast.engine.queries.logs import end_of_log, view_run
from holdfast.engine.session.session import SessionHandle, SessionOptions, run_session
from holdfast.leaf.errors import (
    BadInput,
    DecisionNeeded,
    HoldfastError,
    NoSuchRun,
    NothingToDo,
    PositionMismatch,
    RunFenced,
    RunOwned,
)
from holdfast.store.base import Position

BEAT_S = 1.0
_BEATS = 8  # at least, in the time after which a silent session is killed
LOST_EXIT_S = 2.0  # after its agents are dead, a session that lost its lease has so long to end
ORPHAN_EXIT_S = 8.0  # so long to end cleanly after the worker died; meanwhile it renews its lease
_WAKING_REASONS = (EndReason.IDLE, EndReason.WAITING, EndReason.ALL_DONE)  # as `WAKING_STATUSES`
_CONTINUING_KINDS = (MessageKind.USER, MessageKind.CHANGE, MessageKind.ANSWER)
_WAITING_FOR_TIME = (EndReason.QUOTA, EndReason.OUTAGE, EndReason.DAY_BUDGET)


async def hold(home: Home, run_id: str, options: list[str], handle: SessionHandle) -> SessionReport:
    """Run one session of the run, after its owner has ended."""
    while True:
        try:
            return await _run_once(home, run_id, options, handle)
        except RunOwned as error:
            send_report(SessionReport(ReportKind.WAITING, detail=str(error)))
            if handle.reason is not None:
                return SessionReport(ReportKind.DRAINED)
            await _wait_until_released(home, run_id, handle)
        except PositionMismatch:  # the run was stopped, or had another owner, since we looked
            continue
        except RunFenced as error:
            return SessionReport(ReportKind.FENCED, detail=str(error))
        except (NothingToDo, NoSuchRun) as error:
            return SessionReport(ReportKind.ENDED, reason="nothing_to_do", detail=str(error))
        except DecisionNeeded as error:
            return SessionReport(ReportKind.ENDED, reason=EndReason.WAITING, detail=str(error))
        except BadInput as error:
            return await set_back(home, run_id, ReportKind.REFUSED, str(error))
        except HoldfastError as error:
            return await set_back(home, run_id, ReportKind.FAILED, str(error))


async def _run_once(home: Home, run_id: str, options: list[str], handle: SessionHandle) -> SessionReport:
    seen, end = option_value(options, SEEN_OPTION), await end_of_log(home, run_id)
    view = await view_run(home, run_id)
    policy = run_config_for(home, view.state).settings.resume
    if view.status == RunStatus.INTERRUPTED and view.holder is None:
        deaths = await count_deaths(home.store.log(run_id))
        if deaths.times >= policy.deaths:
            reason = f"it died {deaths.times} times without progress, the last time after {deaths.last_event}"
            await park_run(home, run_id, reason)
            return SessionReport(ReportKind.ENDED, reason=EndReason.PARKED, detail=reason)
    since = await _session_events_since(home, run_id, int(seen), end) if seen is not None else []
    if any(isinstance(event, SessionEnd) and event.reason == EndReason.STOPPED for event in since):
        return SessionReport(ReportKind.ENDED, reason=EndReason.STOPPED, detail="it was stopped after it was submitted")
    was_resumed = any(isinstance(event, RunResumed) for event in since)  # by an attempt that died: a choice counts once
    options = [] if was_resumed else options
    on_issue, words = option_value(options, "--on-issue"), option_value(options, "--instructions")

    def choose(analysis: Analysis) -> ResumeChoice | None:
        default = on_issue_setting(home, view.state)
        return given_choice(analysis.decision, on_issue=on_issue, instructions=words, default=default)

    how = SessionOptions(lift_limits="--now" in options, expect=end)
    ended = await run_session(home, run_id, choose, handle=handle, options=how)
    if handle.reason is None and ended.reason in _WAKING_REASONS and await _has_unread_message(home, run_id):
        return await _run_once(home, run_id, [f"{SEEN_OPTION}={await end_of_log(home, run_id)}"], handle)
    if handle.reason is not None and ended.reason == EndReason.INTERRUPTED:  # not by a person, whose stop is an end
        return SessionReport(ReportKind.DRAINED, reason=ended.reason)
    moment = None
    if ended.reason in _WAITING_FOR_TIME:
        moment = resumes_at((await view_run(home, run_id)).state)
    return SessionReport(ReportKind.ENDED, reason=ended.reason, detail=ended.detail, resumes_at=moment)


async def _session_events_since(home: Home, run_id: str, seen: Position, end: Position) -> list[Event]:
    found = []
    async for batch in home.store.log(run_id).read(seen):
        for raw in batch.data[: max(end - batch.start, 0)].split(b"\n"):
            line = parse(raw)
            if isinstance(line, Line) and line.type in (RunResumed.type, SessionEnd.type):
                found.append(CODEC.event(line))
    return [event for event in found if event is not None]


async def _has_unread_message(home: Home, run_id: str) -> bool:
    """Whether something came while the session ended. Its sender saw an owner, and so did not wake the run."""
    state = (await view_run(home, run_id)).state
    messages = [entry.message async for entry in home.store.inbox(run_id).read(state.inbox_cursor)]
    return any(message is not None and message.kind in _CONTINUING_KINDS for message in messages)


async def _wait_until_released(home: Home, run_id: str, handle: SessionHandle) -> None:
    released = asyncio.ensure_future(home.store.wait_until_released(run_id))
    while not released.done() and handle.reason is None:
        await asyncio.wait({released}, timeout=BEAT_S)
    released.cancel()


def send_report(report: SessionReport) -> None:
    with suppress(OSError):  # the worker is dead: the end of stdin says so
        os.write(1, msgspec.json.encode(report) + b"\n")


async def send_heartbeat(home: Home) -> None:
    interval_s = min(BEAT_S, silence_s(home) / _BEATS)
    while True:
        send_report(SessionReport(ReportKind.BEAT))
        await asyncio.sleep(interval_s)


async def _listen(handle: SessionHandle, folder: str) -> None:
    """End the session cleanly when the worker asks for it, or is dead."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while await reader.readline():
        handle.stop(EndReason.INTERRUPTED)
    handle.stop(EndReason.INTERRUPTED)
    await asyncio.sleep(ORPHAN_EXIT_S)
    await asyncio.to_thread(kill_session_processes, folder)
    os._exit(RunFenced.exit_code)


async def _exit_when_lost(handle: SessionHandle, folder: str) -> None:
    """A session that lost its lease must not linger, whatever it waits for."""
    await handle.lost.wait()
    await asyncio.sleep(LOST_EXIT_S)
    send_report(SessionReport(ReportKind.FENCED, detail="the lease was lost"))
    await asyncio.to_thread(kill_session_processes, folder)
    os._exit(RunFenced.exit_code)


async def _main(run_id: str, options: list[str]) -> None:
    home, handle = Home(), SessionHandle()
    folder = home.folder(run_id)
    tasks = [
        asyncio.create_task(task)
        for task in (send_heartbeat(home), _listen(handle, folder), _exit_when_lost(handle, folder))
    ]
    report = await hold(home, run_id, options, handle)
    for task in tasks:
        task.cancel()
    send_report(report)


def main() -> NoReturn:
    run_id = sys.argv[1]  # a worker of an older version passes more
    with open(0, "rb", buffering=0, closefd=False) as stdin:
        line = stdin.readline()
    if not line.endswith(b"\n"):  # the worker died before it had said what to do
        os._exit(RunFenced.exit_code)
    options = msgspec.json.decode(line, type=list[str])
    asyncio.run(_main(run_id, options))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
