"""Starts a runner without a terminal, and returns once its session has started."""

import asyncio
import os
import subprocess
from contextlib import suppress
from threading import Thread

from holdfast.core.decide.resume import Choice, ResumeChoice
from holdfast.core.events.session import SessionStart
from holdfast.core.log.codec import CODEC, Line, parse
from holdfast.engine.home import Home
from holdfast.engine.queries.logs import end_of_log
from holdfast.leaf.errors import HoldfastError
from holdfast.leaf.failpoints import failpoint_pair
from holdfast.leaf.process.own_program import holdfast_command
from holdfast.store.base import Position

_FAILPOINT = failpoint_pair("runner.detach")
RUNNER_LOG = "runner.log"  # in the run's folder: the output of a runner without a terminal


async def start_detached(home: Home, run_id: str, *options: str) -> int:
    """Return the pid of a runner whose session has started. If it ends before that, raise with its output."""
    end = await end_of_log(home, run_id)
    path = os.path.join(home.folder(run_id), RUNNER_LOG)
    with open(path, "ab") as log:
        log_start = log.tell()
        _FAILPOINT.before()
        process = subprocess.Popen(  # noqa: ASYNC220 - the runner outlives this process
            holdfast_command("resume", run_id, "--quiet", *options),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            start_new_session=True,
            env={**os.environ, "HOLDFAST_HOME": home.path},
        )
        _FAILPOINT.after()
    started = asyncio.ensure_future(_wait_for_session(home, run_id, end, process.pid))
    exited = asyncio.ensure_future(_exit_event(process).wait())
    await asyncio.wait({started, exited}, return_when=asyncio.FIRST_COMPLETED)
    if started.done():
        exited.cancel()
        unseen = started.exception()
        if unseen is None:
            return process.pid
        raise HoldfastError(
            f"a runner was started (pid {process.pid}), but its start could not be observed: {unseen}; "
            f"`holdfast show {run_id}` tells"
        ) from unseen
    started.cancel()
    if process.returncode == 0:  # it began and ended before we saw it: a chat may have had nothing left to do
        return process.pid
    with open(path, "rb") as log:
        log.seek(log_start)
        output = " ".join(log.read().decode(errors="replace").split()).removeprefix("holdfast: ")
    error = HoldfastError(output or f"the runner ended with code {process.returncode} before it began; see {path}")
    error.exit_code = process.returncode or HoldfastError.exit_code
    raise error


def _exit_event(process: subprocess.Popen[bytes]) -> asyncio.Event:
    """Set by a daemon thread: needs no asyncio handle, and a long-lived parent such as a dashboard keeps no zombie."""
    loop, ended = asyncio.get_running_loop(), asyncio.Event()

    def wait() -> None:
        process.wait()
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(ended.set)

    Thread(target=wait, daemon=True).start()
    return ended


async def _wait_for_session(home: Home, run_id: str, after: Position, pid: int) -> None:
    async for batch in home.store.log(run_id).follow(after):
        for raw in batch.data.split(b"\n"):
            line = parse(raw)
            if isinstance(line, Line) and line.type == SessionStart.type:
                event = CODEC.event(line)
                if isinstance(event, SessionStart) and event.pid == pid:
                    return


def resume_options(choice: ResumeChoice) -> list[str]:
    """Return the same choice as command-line options for another process."""
    named = [f"--on-issue={choice.choice}"] if choice.choice not in (None, Choice.CUSTOM) else []
    return [*named, *([f"--instructions={choice.instructions}"] if choice.instructions is not None else [])]
