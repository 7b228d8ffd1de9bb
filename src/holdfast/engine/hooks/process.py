"""Runs one user command: input as JSON, bounded in time, and found again after a crash.

A call is not an effect with an intent and a probe, because nothing can tell whether a user's command was run. So a
crash never causes a second call; docs/hooks.md says what that means for each hook.
"""

import asyncio
import os
import shutil
import signal
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

import msgspec

from holdfast.core.text.cut import cut
from holdfast.engine.checks.validators import CheckPlace, run_in_place
from holdfast.leaf.errors import HoldfastError
from holdfast.leaf.failpoints import failpoint_pair
from holdfast.leaf.process.env_markers import RUN_MARK
from holdfast.leaf.process.environment import absolute_path
from holdfast.leaf.text.tail import BoundedOutput
from holdfast.workflows.validators import CheckCommand

_FAILPOINT = failpoint_pair("hook.run")
HOOK_TIMEOUT_S = 60.0
_MAX_OUTPUT_BYTES = 16 * 1024  # bytes of its output; the rest is dropped


MAX_REASON_CHARS = 500  # characters of its output that the log keeps


class HookResult(NamedTuple):
    """How a hook ended. `problem` is set if it could not be run or did not finish."""

    exit_code: int | None
    output: str = ""
    problem: str | None = None

    @property
    def summary(self) -> str:
        """Return the output as far as the log keeps it."""
        return cut(self.output, MAX_REASON_CHARS) or f"it exited with code {self.exit_code}"


def hook_input(hook: str, run_id: str | None, task: str | None, conversation: str | None, **about: object) -> bytes:
    """Return a hook's stdin: these fields for any hook, and its own."""
    subject = {"hook": hook, "run": run_id, "task": task, "conversation": conversation}
    return msgspec.json.encode({**subject, **about})


async def run_hook(
    command: Sequence[str],
    cwd: str,
    payload: bytes,
    *,
    run_id: str | None,
    timeout_s: float = HOOK_TIMEOUT_S,
    untrusted: str | None = None,
) -> HookResult:
    """Run a hook. With a `run_id`, the next session of that run kills it after a crash; without one it may outlive us.

    No program in the folder `untrusted` is started.
    """
    if untrusted is not None and _lies_in(untrusted, command[0], cwd):
        return HookResult(
            None,
            problem="cannot be run: the program is in a folder that a confined agent can write to; "
            "install it outside of the repository, and name it by its absolute path",
        )
    _FAILPOINT.before()
    ended = await _run_process(command, cwd, payload, run_id, timeout_s)
    _FAILPOINT.after()
    return ended


async def called_in_runtime(command: Sequence[str], place: CheckPlace, stdin: bytes) -> HookResult:
    """Run it in the runtime of a confined agent, like checks there: without secrets."""
    _FAILPOINT.before()
    try:
        ended = await run_in_place(CheckCommand(command[0], tuple(command), limit=HOOK_TIMEOUT_S), place, stdin)
    except HoldfastError as error:
        return HookResult(None, problem=f"cannot be run: {error}")
    _FAILPOINT.after()
    if ended.how is None:
        return HookResult(None, problem=f"did not answer within {HOOK_TIMEOUT_S:g} s")
    return HookResult(ended.code, " ".join(ended.output.split()))


def _lies_in(folder: str, program: str, cwd: str) -> bool:
    """True if the program lies in the folder, also through a link."""
    found = os.path.join(cwd, program) if os.sep in program else shutil.which(program, path=_search_path())
    if found is None:
        return False
    inside = os.path.realpath(folder)
    return any(os.path.commonpath((inside, path)) == inside for path in (os.path.realpath(found), _parent_of(found)))


def _parent_of(path: str) -> str:
    return os.path.realpath(os.path.dirname(path))


def _search_path() -> str:
    return absolute_path(os.environ.get("PATH", os.defpath))


async def _run_process(
    command: Sequence[str], cwd: str, payload: bytes, run_id: str | None, timeout_s: float
) -> HookResult:
    mark = {RUN_MARK: run_id} if run_id is not None else {}
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            cwd=cwd,
            env={**os.environ, **mark, "PATH": _search_path()},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        return HookResult(None, problem=f"cannot be run: {error.strerror}")
    except ValueError as error:  # a NUL in it
        return HookResult(None, problem=f"cannot be run: {error}")
    output = BoundedOutput(_MAX_OUTPUT_BYTES)
    try:
        async with asyncio.timeout(timeout_s):
            await asyncio.gather(_write_input(process, payload), _read_output(process, output))
            await process.wait()
    except TimeoutError:
        return HookResult(None, problem=f"did not answer within {timeout_s:g} s")
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    return HookResult(process.returncode, " ".join(output.text().split()))


async def _write_input(process: asyncio.subprocess.Process, payload: bytes) -> None:
    assert process.stdin is not None
    with suppress(BrokenPipeError, ConnectionResetError):  # it does not read its input
        process.stdin.write(payload)
        await process.stdin.drain()
    process.stdin.close()


async def _read_output(process: asyncio.subprocess.Process, output: BoundedOutput) -> None:
    assert process.stdout is not None
    while piece := await process.stdout.read(64 * 1024):
        output.add(piece)
