"""One shell command: in the worktree, with a time limit, a cap on its output, and nothing of it left afterwards.

The shell leads a process group that is killed at the end, whether it ended by itself or not. What left the group
is found by a mark in its environment. When we die, the kernel kills the shell; the mark tells the next sitting what
the shell left.
"""

import asyncio
import ctypes
import os
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from holdfast.leaf.failpoints import around
from holdfast.leaf.process.env_markers import CALL_MARK, SESSION_MARK, each_marked
from holdfast.leaf.process.identity import end_all
from holdfast.leaf.text.tail import Tail

_CRASH = around("builtin.shell")
_CHUNK = 65_536
_PR_SET_PDEATHSIG = 1
_GRACE = 5.0  # seconds for the kernel to end what was killed


@dataclass(frozen=True, slots=True)
class Ran:
    output: str
    code: int | None  # None: the time was up
    cut: int = 0  # bytes left out of the middle


@dataclass(frozen=True, slots=True)
class Shell:
    folder: str
    environment: Mapping[str, str]
    session: str
    output_cap: int = 30_000

    async def run(self, command: str, call: str, seconds: float) -> Ran:
        mark = f"{self.session}/{call}"
        _CRASH.before()
        process = subprocess.Popen(  # noqa: ASYNC220 - asyncio's own waits for the pipe, which an orphan may hold
            ["bash", "-c", command],
            cwd=self.folder,
            env={**self.environment, SESSION_MARK: self.session, CALL_MARK: mark},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            close_fds=False,  # what we were given to hold, all that we start holds too
            preexec_fn=_die_with_parent,  # noqa: PLW1509 - one call into the kernel, which takes no lock
        )
        output = Tail(self.output_cap)
        in_time = False
        try:
            _CRASH.after()
            async with asyncio.timeout(seconds):
                await _until_dead(process, output)
            in_time = True
        except TimeoutError:
            pass
        finally:
            _end(process, mark, output)
        return Ran(output.text(), process.returncode if in_time else None, output.dropped)


async def _until_dead(process: "subprocess.Popen[bytes]", output: Tail) -> None:
    """Until the shell itself is dead: its pipe may be held by what it left behind. It is not reaped here."""
    loop = asyncio.get_running_loop()
    assert process.stdout is not None
    pipe = process.stdout.fileno()
    os.set_blocking(pipe, False)
    dead: asyncio.Future[None] = loop.create_future()
    handle = os.pidfd_open(process.pid)

    def died() -> None:
        loop.remove_reader(handle)
        if not dead.done():
            dead.set_result(None)

    def readable() -> None:
        if _drained(pipe, output):
            loop.remove_reader(pipe)

    loop.add_reader(handle, died)
    loop.add_reader(pipe, readable)
    try:
        await dead
    finally:
        loop.remove_reader(handle)
        loop.remove_reader(pipe)
        os.close(handle)


def _drained(pipe: int, output: Tail) -> bool:
    """Take one chunk; True at the end of the stream."""
    try:
        data = os.read(pipe, _CHUNK)
    except BlockingIOError:
        return False
    output.add(data)
    return not data


def _end(process: "subprocess.Popen[bytes]", mark: str, output: Tail) -> None:
    """Without giving way, so that a second cancellation cannot leave the command running.

    The shell is not reaped before its group is killed: until then no other process can have its number.
    """
    os.killpg(process.pid, signal.SIGKILL)
    end_all(lambda: each_marked(CALL_MARK, mark))
    with suppress(subprocess.TimeoutExpired):
        process.wait(_GRACE)
    assert process.stdout is not None
    with process.stdout, suppress(BlockingIOError):
        os.set_blocking(process.stdout.fileno(), False)
        while data := os.read(process.stdout.fileno(), _CHUNK):
            output.add(data)


def end_what_is_left(session: str) -> None:
    """Kill what an earlier sitting's commands left running."""
    end_all(lambda: each_marked(SESSION_MARK, session))


_LIBC = ctypes.CDLL(None, use_errno=True)


def _die_with_parent() -> None:
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
