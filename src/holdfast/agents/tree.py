"""A process and everything that comes of it: owned from the first to the last, and found again after our own death.

An agent is often a wrapper that re-executes, and its shell tools run in process groups of their own; they go on
writing after the agent is dead. So the group is not enough. We are the reaper of all our descendants (orphans come to
us, not to init), and each of them carries a mark in its environment, by which a later session of ours finds them.
"""

import asyncio
import ctypes
import os
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from functools import cache
from typing import NamedTuple

from holdfast.leaf.errors import BadInput, Denied
from holdfast.leaf.process import (
    CONVERSATION_MARK,
    RUN_MARK,
    ProcessIdentity,
    children_of,
    end,
    has_mark,
    identify,
    marked,
    works_in,
)

_PR_SET_CHILD_SUBREAPER = 36
_LIMIT = 1024 * 1024  # of a pipe's buffer in our memory; a longer line is read in pieces
_SECRETS = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL")
_ROUNDS = 50
_COMPLAINTS = 1024 * 1024  # bytes of an agent's stderr, before its file is begun anew


class Launch(NamedTuple):
    """How to start an agent. `environment` is what it gets beside what any program needs."""

    command: tuple[str, ...]
    cwd: str
    environment: Mapping[str, str]
    mark: str
    stderr: str | None = None  # the file that gets its complaints; without one they are part of its output


class Tree:
    """A running root, and whatever it started."""

    def __init__(self, process: asyncio.subprocess.Process, launch: Launch) -> None:
        self._process = process
        self._mark = launch.mark
        self._cwd = launch.cwd
        identity = identify(process.pid)
        self.identity = identity or ProcessIdentity(process.pid, 0, "")
        self._gone = asyncio.ensure_future(_death_of(process))

    @property
    def stdin(self) -> asyncio.StreamWriter:
        assert self._process.stdin is not None, "it was asked for"
        return self._process.stdin

    @property
    def stdout(self) -> asyncio.StreamReader:
        assert self._process.stdout is not None, "it was asked for"
        return self._process.stdout

    async def death(self) -> str:
        """Wait until the root is dead; says how it died."""
        return await asyncio.shield(self._gone)

    @property
    def dead(self) -> bool:
        return self._gone.done()

    @property
    def code(self) -> int | None:
        """The root's exit code; the number of a signal, negative; None while it lives."""
        return self._process.returncode

    async def end(self, patience: float = 2.0) -> None:
        """Close its input, give it a moment to leave by itself, then kill all of it, and see it dead."""
        with suppress(OSError):
            self.stdin.close()
        with suppress(TimeoutError):
            await asyncio.wait_for(self.death(), patience)
        await self.kill()

    async def kill(self) -> None:
        """Nothing of it is alive when this returns."""
        alive = self._alive()
        for _ in range(_ROUNDS):
            if not alive:
                break
            await asyncio.to_thread(_kill, alive, self.identity.pid)
            alive = self._alive()
        if alive:
            pids = ", ".join(str(process.pid) for process in alive)
            raise Denied(f"processes of {self._mark} will not die (pid {pids}); end them, and try again")
        with suppress(TimeoutError):
            await asyncio.wait_for(self.death(), 5)

    def _alive(self) -> list[ProcessIdentity]:
        """The root and all below it, what carries its mark, and orphans without one that work in its folder."""
        found = {*marked(CONVERSATION_MARK, self._mark), *_descendants(self.identity)}
        for stray in map(identify, children_of(os.getpid())):
            if stray is not None and works_in(stray.pid, self._cwd) and not has_mark(stray.pid, RUN_MARK):
                found |= {stray, *_descendants(stray)}
        return [process for process in found if process.is_alive()]


@asynccontextmanager
async def grown(launch: Launch) -> AsyncIterator[Tree]:
    """Start an agent, and leave nothing of it behind."""
    become_reaper()
    stderr = _opened(launch.stderr)
    try:
        process = await asyncio.create_subprocess_exec(
            *launch.command,
            cwd=launch.cwd,
            env={**plain_environment(), **launch.environment, CONVERSATION_MARK: launch.mark},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=stderr,
            start_new_session=True,
            limit=_LIMIT,
        )
    except FileNotFoundError:
        missing = launch.command[0] if os.path.isdir(launch.cwd) else launch.cwd
        raise BadInput(f"{missing} is not there; `holdfast agents ls` tells how to install an agent") from None
    except PermissionError:
        raise BadInput(f"{launch.command[0]} may not be run by this user") from None
    finally:
        if stderr >= 0:
            os.close(stderr)
    tree = Tree(process, launch)
    try:
        yield tree
    finally:
        await asyncio.shield(tree.kill())


def _opened(path: str | None) -> int:
    """Where complaints go: a file, of which only the end is kept when it has grown too long; else with the output."""
    if path is None:
        return asyncio.subprocess.STDOUT
    with suppress(FileNotFoundError):
        if os.path.getsize(path) > _COMPLAINTS:
            os.replace(path, f"{path}.old")
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)


def plain_environment() -> dict[str, str]:
    """Ours, without what looks like a secret: of those an agent gets what its entry in the registry names."""
    return {name: value for name, value in os.environ.items() if not _is_secret(name)}


def _is_secret(name: str) -> bool:
    return any(word in name.upper() for word in _SECRETS)


@cache
def become_reaper() -> None:
    """Orphans of our descendants become our children: none of them escapes by a double fork."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


async def _death_of(process: asyncio.subprocess.Process) -> str:
    """Learned from a handle on the process: waiting for it by its pipes can last as long as an orphan holds them."""
    try:
        handle = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return _how(await process.wait())
    loop = asyncio.get_running_loop()
    dead = asyncio.Event()
    loop.add_reader(handle, dead.set)
    try:
        await dead.wait()
    finally:
        loop.remove_reader(handle)
        os.close(handle)
    with suppress(TimeoutError):
        return _how(await asyncio.wait_for(asyncio.shield(process.wait()), 1))
    return "it is dead"


def _how(code: int) -> str:
    if code >= 0:
        return f"it exited with code {code}"
    try:
        return f"it was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"it was killed by signal {-code}"


def _descendants(root: ProcessIdentity) -> list[ProcessIdentity]:
    """The root, while it lives, and all below it."""
    if not root.is_alive():
        return []
    found, waiting = [root], [root.pid]
    while waiting:
        for child in children_of(waiting.pop()):
            identity = identify(child)
            if identity is not None:
                found.append(identity)
                waiting.append(child)
    return found


def _kill(processes: list[ProcessIdentity], root: int) -> None:
    """Stop them all before the first is killed, so that none can fork meanwhile; then see them dead, and bury them."""
    for sign in (signal.SIGSTOP, signal.SIGKILL):
        for process in processes:
            if process.is_alive():
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(process.pid, sign)
    end(processes)
    for process in processes:
        if process.pid != root:  # that one is asyncio's to bury
            with suppress(ChildProcessError):  # or its parent's, who is dead too: then it comes to us
                os.waitpid(process.pid, os.WNOHANG)
