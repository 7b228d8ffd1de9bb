"""One shell command: in the worktree, with a time limit, a cap on its output, and nothing of it left afterwards.

The shell leads a process group that is killed at the end, whether it ended by itself or not. What left the group
is found by a mark in its environment. When we die, the kernel kills the shell; the mark tells the next sitting what
the shell left.
"""

import asyncio
import ctypes
import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from holdfast.leaf.process import end, marked

SESSION_MARK = "HOLDFAST_BUILTIN_SESSION"
_CALL_MARK = "HOLDFAST_BUILTIN_CALL"
_CHUNK = 65_536
_PR_SET_PDEATHSIG = 1
_GRACE = 1.0  # seconds for the pipe to close after the group is dead


@dataclass(frozen=True, slots=True)
class Ran:
    output: str
    code: int | None  # None: the time was up
    cut: int = 0  # bytes left out of the middle


class Tail:
    """The first and the last bytes of a stream, in bounded memory."""

    def __init__(self, cap: int) -> None:
        self._half = cap // 2
        self._head = bytearray()
        self._tail = bytearray()
        self.dropped = 0

    def add(self, data: bytes) -> None:
        room = self._half - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        self._tail += data
        excess = len(self._tail) - self._half
        if excess > 0:
            del self._tail[:excess]
            self.dropped += excess

    def text(self) -> str:
        head, tail = (bytes(part).decode("utf-8", "replace") for part in (self._head, self._tail))
        return f"{head}\n[… {self.dropped} bytes left out …]\n{tail}" if self.dropped else head + tail


@dataclass(frozen=True, slots=True)
class Shell:
    folder: str
    environment: Mapping[str, str]
    session: str
    output_cap: int = 30_000

    async def run(self, command: str, call: str, seconds: float) -> Ran:
        environment = {**self.environment, SESSION_MARK: self.session, _CALL_MARK: f"{self.session}/{call}"}
        process = await asyncio.create_subprocess_exec(
            "bash",
            "-c",
            command,
            cwd=self.folder,
            env=environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_die_with_parent,
        )
        output = Tail(self.output_cap)
        assert process.stdout is not None
        reading = asyncio.create_task(_drain(process.stdout, output))
        try:
            async with asyncio.timeout(seconds):
                await process.wait()
            code = process.returncode
        except TimeoutError:
            code = None
        finally:
            await _end(process, environment[_CALL_MARK], reading)
        return Ran(output.text(), code, output.dropped)


def end_what_is_left(session: str) -> int:
    """Kill what an earlier sitting's commands left running. Returns how many there were."""
    left = marked(SESSION_MARK, session)
    end(left)
    return len(left)


async def _drain(stream: asyncio.StreamReader, into: Tail) -> None:
    while data := await stream.read(_CHUNK):
        into.add(data)


async def _end(process: asyncio.subprocess.Process, mark: str, reading: "asyncio.Task[None]") -> None:
    """Synchronous up to the kill: a second cancellation cannot leave the command running."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    end(marked(_CALL_MARK, mark))
    try:
        await asyncio.wait({reading}, timeout=_GRACE)
    finally:
        reading.cancel()
    with suppress(TimeoutError):
        async with asyncio.timeout(_GRACE):
            await process.wait()


_LIBC = ctypes.CDLL(None, use_errno=True)


def _die_with_parent() -> None:
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
