"""Runs one shell command in the worktree, with a time limit and bounded output, and leaves no process behind.

The shell leads a process group that is killed at the end, even if the shell exited by itself. A process that left the
group is found by a marker in its environment. If this process dies, the kernel kills the shell; by the marker, the next
session finds what the shell left.
"""

import asyncio
import ctypes
import os
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from holdfast.leaf.failpoints import failpoint_pair
from holdfast.leaf.process.env_markers import CALL_MARK, SESSION_MARK, iter_marked_processes
from holdfast.leaf.process.identity import kill_until_none_left
from holdfast.leaf.text.tail import BoundedOutput

_FAILPOINT = failpoint_pair("builtin.shell")
_CHUNK_BYTES = 65_536
_PR_SET_PDEATHSIG = 1
_KILL_WAIT_S = 5.0  # for killed processes to exit


@dataclass(frozen=True, slots=True)
class ShellResult:
    output: str
    exit_code: int | None  # None: the time limit was reached
    cut_chars: int = 0  # bytes left out of the middle


@dataclass(frozen=True, slots=True)
class Shell:
    folder: str
    environment: Mapping[str, str]
    session_id: str
    max_output_chars: int = 30_000

    async def run(self, command: str, call_id: str, timeout_s: float) -> ShellResult:
        mark = f"{self.session_id}/{call_id}"
        _FAILPOINT.before()
        process = subprocess.Popen(  # noqa: ASYNC220 - asyncio's own waits for the pipe, which an orphan may hold
            ["bash", "-c", command],
            cwd=self.folder,
            env={**self.environment, SESSION_MARK: self.session_id, CALL_MARK: mark},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            close_fds=False,  # our children inherit the marker files too
            preexec_fn=_die_with_parent,  # noqa: PLW1509 - a single system call without locks
        )
        output = BoundedOutput(self.max_output_chars)
        in_time = False
        try:
            _FAILPOINT.after()
            async with asyncio.timeout(timeout_s):
                await _wait_until_dead(process, output)
            in_time = True
        except TimeoutError:
            pass
        finally:
            _kill_command(process, mark, output)
        return ShellResult(output.text(), process.returncode if in_time else None, output.dropped_bytes)


async def _wait_until_dead(process: "subprocess.Popen[bytes]", output: BoundedOutput) -> None:
    """Wait until the shell is dead, without reaping it: a process that it left may hold its pipe open."""
    loop = asyncio.get_running_loop()
    assert process.stdout is not None
    pipe = process.stdout.fileno()
    os.set_blocking(pipe, False)
    exited: asyncio.Future[None] = loop.create_future()
    handle = os.pidfd_open(process.pid)

    def died() -> None:
        loop.remove_reader(handle)
        if not exited.done():
            exited.set_result(None)

    def readable() -> None:
        if _drain_chunk(pipe, output):
            loop.remove_reader(pipe)

    loop.add_reader(handle, died)
    loop.add_reader(pipe, readable)
    try:
        await exited
    finally:
        loop.remove_reader(handle)
        loop.remove_reader(pipe)
        os.close(handle)


def _drain_chunk(pipe: int, output: BoundedOutput) -> bool:
    """Read one chunk; returns True at the end of the stream."""
    try:
        data = os.read(pipe, _CHUNK_BYTES)
    except BlockingIOError:
        return False
    output.add(data)
    return not data


def _kill_command(process: "subprocess.Popen[bytes]", mark: str, output: BoundedOutput) -> None:
    """Kill the command without awaiting, so that a second cancellation cannot leave it running.

    The shell is not reaped before its group is killed: until then no other process can get its pid.
    """
    os.killpg(process.pid, signal.SIGKILL)
    kill_until_none_left(lambda: iter_marked_processes(CALL_MARK, mark))
    with suppress(subprocess.TimeoutExpired):
        process.wait(_KILL_WAIT_S)
    assert process.stdout is not None
    with process.stdout, suppress(BlockingIOError):
        os.set_blocking(process.stdout.fileno(), False)
        while data := os.read(process.stdout.fileno(), _CHUNK_BYTES):
            output.add(data)


def kill_leftovers(session_id: str) -> None:
    """Kill processes that commands of an earlier session left running."""
    kill_until_none_left(lambda: iter_marked_processes(SESSION_MARK, session_id))


_LIBC = ctypes.CDLL(None, use_errno=True)


def _die_with_parent() -> None:
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
