"""Calling a command of the user's: told what it is about as JSON, bounded in time, and found again after a crash.

A call is no effect with an intent and a probe: nobody can ask the world whether a command of somebody's was run. So it
is never made again for that we died; what follows from that for each hook is in docs/running.md.
"""

import asyncio
import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from holdfast.leaf.crashing import around
from holdfast.leaf.marks import RUN_MARK
from holdfast.leaf.tail import Tail

_CRASH = around("hook.run")
PATIENCE = 60.0  # seconds
_SAID = 16 * 1024  # bytes of what it says; what is more is left out


class Called(NamedTuple):
    """How it ended. `problem` when it could not be run, or not to its end."""

    code: int | None
    said: str = ""
    problem: str | None = None


async def called(
    command: Sequence[str], cwd: str, told: bytes, *, run_id: str | None, patience: float = PATIENCE
) -> Called:
    """With a `run_id`, whoever goes on with that run after a crash ends it; without one it may outlive us."""
    _CRASH.before()
    ended = await _called(command, cwd, told, run_id, patience)
    _CRASH.after()
    return ended


async def _called(command: Sequence[str], cwd: str, told: bytes, run_id: str | None, patience: float) -> Called:
    mark = {RUN_MARK: run_id} if run_id is not None else {}
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            cwd=cwd,
            env={**os.environ, **mark},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        return Called(None, problem=f"cannot be run: {error.strerror}")
    except ValueError as error:  # a NUL in it
        return Called(None, problem=f"cannot be run: {error}")
    said = Tail(_SAID)
    try:
        async with asyncio.timeout(patience):
            await asyncio.gather(_tell(process, told), _hear(process, said))
            await process.wait()
    except TimeoutError:
        return Called(None, problem=f"did not answer within {patience:g} s")
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    return Called(process.returncode, " ".join(said.text().split()))


async def _tell(process: asyncio.subprocess.Process, told: bytes) -> None:
    assert process.stdin is not None
    with suppress(BrokenPipeError, ConnectionResetError):  # it does not want to know
        process.stdin.write(told)
        await process.stdin.drain()
    process.stdin.close()


async def _hear(process: asyncio.subprocess.Process, said: Tail) -> None:
    assert process.stdout is not None
    while piece := await process.stdout.read(64 * 1024):
        said.add(piece)
