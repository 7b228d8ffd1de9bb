"""Starts a runner without a terminal, and returns once its session has started."""

import asyncio
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Thread

from holdfast.core.decide.resume import Choice, ResumeChoice
from holdfast.core.events.session import SessionStart
from holdfast.core.log.codec import CODEC, Line, parse
from holdfast.engine.home import Home
from holdfast.engine.queries.logs import end_of_log
from holdfast.leaf.errors import HoldfastError
from holdfast.leaf.failpoints import failpoint_pair
from holdfast.leaf.files.disk import make_directories
from holdfast.leaf.process.own_program import holdfast_command
from holdfast.store.base import Batch, Position

_FAILPOINT = failpoint_pair("runner.detach")
_INSTRUCTIONS = "--instructions="
RUNNER_LOG = "runner.log"  # in the run's folder: the output of a runner without a terminal


async def start_detached(home: Home, run_id: str, *options: str) -> int:
    """Return the pid of a runner whose session has started. If it ends before that, raise with its output."""
    end = await end_of_log(home, run_id)
    path = os.path.join(home.folder(run_id), RUNNER_LOG)
    make_directories(home.folder(run_id))  # there is none on a machine that never worked on the run
    with open(path, "ab") as log:
        log_start = log.tell()
        _FAILPOINT.before()
        with _stdin_for(options) as (stdin, arguments):
            process = subprocess.Popen(  # noqa: ASYNC220 - the runner outlives this process
                holdfast_command("resume", run_id, "--quiet", *arguments),
                stdin=stdin,
                stdout=log,
                stderr=log,
                cwd="/",
                start_new_session=True,
                env=home.environment,
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
    if process.returncode == 0 or await _has_begun(home, run_id, end, process.pid):  # and ended before we saw it
        return process.pid
    with open(path, "rb") as log:
        log.seek(log_start)
        output = " ".join(log.read().decode(errors="replace").split()).removeprefix("holdfast: ")
    error = HoldfastError(output or f"the runner ended with code {process.returncode} before it began; see {path}")
    error.exit_code = process.returncode or HoldfastError.exit_code
    raise error


@contextmanager
def _stdin_for(options: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
    """A stdin for the runner, and its options. It reads instructions there: every user of a machine sees arguments."""
    instructions = next((option for option in options if option.startswith(_INSTRUCTIONS)), None)
    if instructions is None:
        yield subprocess.DEVNULL, list(options)
        return
    with open(os.memfd_create("instructions"), "w+b") as file:
        file.write(instructions.removeprefix(_INSTRUCTIONS).encode(errors="surrogateescape"))
        file.seek(0)
        yield file.fileno(), [f"{_INSTRUCTIONS}-" if option == instructions else option for option in options]


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
        if _has_start_of(batch, pid):
            return


async def _has_begun(home: Home, run_id: str, after: Position, pid: int) -> bool:
    return any([_has_start_of(batch, pid) async for batch in home.store.log(run_id).read(after)])


def _has_start_of(batch: Batch, pid: int) -> bool:
    for raw in batch.data.split(b"\n"):
        line = parse(raw)
        if isinstance(line, Line) and line.type == SessionStart.type:
            event = CODEC.event(line)
            if isinstance(event, SessionStart) and event.pid == pid:
                return True
    return False


def resume_options(choice: ResumeChoice) -> list[str]:
    """Return the same choice as command-line options for another process."""
    named = [f"--on-issue={choice.choice}"] if choice.choice not in (None, Choice.CUSTOM) else []
    return [*named, *([f"--instructions={choice.instructions}"] if choice.instructions is not None else [])]
