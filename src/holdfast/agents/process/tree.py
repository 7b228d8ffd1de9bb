"""A process and all its descendants: owned while we live, and found again after our own death.

An agent is often a wrapper that re-executes, and its shell tools run in their own process groups; these keep writing
after the agent is dead. So killing the group is not enough. We are the subreaper of all our descendants (orphans become
our children, not init's), and each carries a marker in its environment, by which a later session finds it. A process
that cleared its environment still holds the marker file open that it inherited.
"""

import asyncio
import ctypes
import os
import signal
from collections.abc import AsyncIterator, Collection, Coroutine, Iterable, Iterator
from contextlib import asynccontextmanager, suppress
from functools import cache
from itertools import chain
from typing import Any

from holdfast.agents.launch import PANE_LOST_CODE, Launch
from holdfast.agents.runtimes.base import end_container, spawn_command
from holdfast.core.redaction.redaction import Redactor
from holdfast.leaf.errors import BadInput, Denied
from holdfast.leaf.process.death import wait_for_exit
from holdfast.leaf.process.env_markers import (
    CONVERSATION_MARK,
    RUN_MARK,
    is_unmarked_orphan,
    iter_marked_processes,
    marked_processes,
)
from holdfast.leaf.process.fd_marker import iter_processes_holding, marker_fds, processes_holding
from holdfast.leaf.process.identity import (
    MAX_KILL_ROUNDS,
    ProcessIdentity,
    ProcessTable,
    ancestor_pids,
    identify,
    is_working_in,
    kill_processes,
    kill_until_none_left,
    memory_bytes,
    orphaned_zombies,
    own_identity,
    send_signal,
)
from holdfast.leaf.process.proc import pids

_PR_SET_CHILD_SUBREAPER = 36
_PIPE_BUFFER_BYTES = 1024 * 1024  # in our memory; a longer line is read in pieces
_MAX_STDERR_BYTES = 1024 * 1024  # of an agent's stderr file, before it is rotated
_REAP_ATTEMPTS, _REAP_DELAY_S = 400, 0.005

_roots: set[ProcessIdentity] = set()  # of all trees: never orphans of another tree
_unkillable: set["ProcessTree"] = set()  # some of their processes did not die, or may be alive


class ProcessTree:
    """A running root process and everything it started."""

    def __init__(self, process: asyncio.subprocess.Process, launch: Launch) -> None:
        self._process = process
        self._launch = launch
        self._mark = launch.mark
        self._cwd = launch.cwd
        identity = identify(process.pid)
        self.identity = identity or ProcessIdentity(process.pid, 0, "")
        self._start_time = (identity or own_identity()).start_time  # no process of the tree is older
        self._exit = asyncio.ensure_future(self._wait_for_root(process))
        self._seen: set[ProcessIdentity] = set()
        self._exit.add_done_callback(self._remember)  # so that processes that exit later are reaped too
        self._is_ended = False
        self._stderr_task: asyncio.Task[None] | None = None
        if process.stderr is not None and launch.stderr is not None:
            self._stderr_task = asyncio.ensure_future(_save_stderr(process.stderr, launch.stderr))
        _roots.add(self.identity)

    @property
    def stdin(self) -> asyncio.StreamWriter:
        assert self._process.stdin is not None, "it was created as a pipe"
        return self._process.stdin

    @property
    def stdout(self) -> asyncio.StreamReader:
        assert self._process.stdout is not None, "it was created as a pipe"
        return self._process.stdout

    async def _wait_for_root(self, process: asyncio.subprocess.Process) -> str:
        description = await _wait_for_exit(process)
        is_pane_lost = self._launch.runtime.kind == "tmux" and process.returncode == PANE_LOST_CODE
        return "its tmux pane was lost" if is_pane_lost else description

    async def wait_for_exit(self) -> str:
        """Wait until the root is dead. Returns a description of its exit."""
        return await asyncio.shield(self._exit)

    @property
    def is_dead(self) -> bool:
        return self._exit.done()

    @property
    def exit_code(self) -> int | None:
        """Return the root's exit code, or a negative signal number; None while it lives."""
        return self._process.returncode

    def memory_bytes(self) -> int:
        """Return the memory of all processes together; shared memory counts once."""
        return sum(memory_bytes(process.pid) for process in self._find_alive(ProcessTable(self._start_time)))

    async def end(self, wait_s: float = 2.0) -> None:
        """Close its stdin, wait a moment for it to exit, then kill all processes and wait until they are dead."""
        self._find_alive(ProcessTable(self._start_time))  # remembers processes that exit meanwhile, to reap them
        self._exit.remove_done_callback(self._remember)  # all are searched again when it has exited
        with suppress(OSError):
            self.stdin.close()
        with suppress(TimeoutError):
            await asyncio.wait_for(self.wait_for_exit(), wait_s)
        await self.kill()

    async def kill(self) -> None:
        """Kill all processes; none is alive when this returns. Raises `Denied` otherwise: no other may take its place.

        Also raises when that cannot be checked, for example when the container engine does not answer.
        """
        if self._is_ended:
            return
        try:
            await self._kill_all()
        except BaseException:
            _unkillable.add(self)
            raise
        _unkillable.discard(self)
        self._is_ended = True

    async def _kill_all(self) -> None:
        self._exit.remove_done_callback(self._remember)  # from here on, all processes are searched repeatedly
        alive = await self._find_survivors()
        for _ in range(MAX_KILL_ROUNDS):
            if not alive:
                break
            stubborn = await asyncio.to_thread(_stop_and_kill, alive)
            alive = stubborn or await self._find_survivors()
            if stubborn:
                break
        if alive := alive or await asyncio.to_thread(kill_until_none_left, self._find_marked):
            found = ", ".join(str(process.pid) for process in alive)
            raise Denied(f"processes of {self._mark} could not be killed (pid {found}); kill them, and try again")
        with suppress(TimeoutError):
            await asyncio.wait_for(self.wait_for_exit(), 5)
        await asyncio.to_thread(end_container, self._launch)
        _reap(self._seen - {self.identity})  # asyncio reaps the root
        if self._stderr_task is not None:
            await asyncio.wait({self._stderr_task}, timeout=1)
            self._stderr_task.cancel()
        _roots.discard(self.identity)

    def has_mark(self, mark: str) -> bool:
        """True for this mark, or a part of it: a terminal of an agent."""
        return self._mark == mark or self._mark.startswith(f"{mark}/")

    def _remember(self, _: object) -> None:
        self._find_alive(ProcessTable(self._start_time))

    async def _find_survivors(self) -> list[ProcessIdentity]:
        """Return the processes that are alive; if there are none, those that still hold the marker file open."""
        table = ProcessTable(self._start_time)
        if alive := self._find_alive(table):
            return alive
        candidates = table.pids_since(self._start_time)
        holders = _without_ancestors(
            await asyncio.to_thread(processes_holding, self._launch.fd_marker, self._mark, candidates)
        )
        found = _alive_descendants(holders, ProcessTable(self._start_time)) if holders else set()
        self._seen |= found
        return list(found)

    def _find_marked(self) -> Iterator[ProcessIdentity]:
        """Yield marked processes one by one: a process that forks and exits constantly is missed by a full scan."""
        return chain(
            iter_marked_processes(CONVERSATION_MARK, self._mark, pids(self._start_time)),
            iter_processes_holding(self._launch.fd_marker, self._mark, pids(self._start_time)),
        )

    def _find_alive(self, table: ProcessTable) -> list[ProcessIdentity]:
        """Return the root and its descendants, marked processes, and unmarked orphans in its folder."""
        candidates = table.pids_since(self._start_time)
        roots = {self.identity, *_without_ancestors(marked_processes(CONVERSATION_MARK, self._mark, candidates))}
        roots.update(orphan for orphan in table.children_of(own_identity()) if self._is_own_orphan(orphan))
        found = _alive_descendants(roots, table)
        self._seen |= found
        return list(found)

    def _is_own_orphan(self, orphan: ProcessIdentity) -> bool:
        """True for a child of ours that only this tree can have left: it has no mark, and works in its folder."""
        return (
            orphan not in _roots
            and is_working_in(orphan.pid, self._cwd)
            and is_unmarked_orphan((RUN_MARK, CONVERSATION_MARK), orphan.pid)
        )


async def kill_survivors(mark: str) -> None:
    """Kill what survived the end of earlier trees with this mark; raises `Denied` again if something will not die."""
    for tree in [tree for tree in _unkillable if tree.has_mark(mark)]:
        await finish_uncancelled(tree.kill())


@asynccontextmanager
async def spawn(launch: Launch) -> AsyncIterator[ProcessTree]:
    """Start an agent, and kill all its processes at the end, even when we are cancelled while it starts.

    Never starts it while a process of an earlier agent with the same mark is alive.
    """
    await kill_survivors(launch.mark)
    become_reaper()
    trees: list[ProcessTree] = []

    async def start() -> None:
        trees.append(ProcessTree(await _start_process(launch), launch))

    try:
        await finish_uncancelled(start())
        yield trees[0]
    finally:
        for tree in trees:
            await finish_uncancelled(tree.kill())


async def _start_process(launch: Launch) -> asyncio.subprocess.Process:
    spawn = await asyncio.to_thread(spawn_command, launch)
    try:
        with marker_fds(launch.fd_marker, launch.mark) as marker:
            return await asyncio.create_subprocess_exec(
                *spawn.command,
                cwd=launch.cwd,
                env=spawn.environment,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT if launch.stderr is None else asyncio.subprocess.PIPE,
                start_new_session=True,
                pass_fds=(*marker, *spawn.inherited_fds),
                limit=_PIPE_BUFFER_BYTES,
            )
    except FileNotFoundError:
        missing = launch.command[0] if os.path.isdir(launch.cwd) else launch.cwd
        raise BadInput(f"{missing} was not found; to see how to install an agent, run: holdfast agents ls") from None
    except PermissionError:
        raise BadInput(f"no permission to run {launch.command[0]}; make it executable for this user") from None
    except (OSError, ValueError) as error:
        raise BadInput(f"cannot start {launch.command[0]!r} in {launch.cwd}: {error}") from None
    finally:
        for file in spawn.inherited_fds:
            os.close(file)


async def finish_uncancelled(work: Coroutine[Any, Any, object]) -> None:
    """Wait until the work is done, even when we are cancelled; raise the cancellation afterwards."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    task.result()
    if cancelled is not None:
        raise cancelled


async def _save_stderr(stderr: asyncio.StreamReader, path: str) -> None:
    """Copy stderr to a file, without secrets. A file that is too long is renamed to `.old`."""
    redactor, rest = Redactor.from_environment(os.environ), ""
    try:
        while piece := await stderr.read(64 * 1024):
            text = rest + piece.decode(errors="surrogateescape")
            end = redactor.safe_length(text)
            rest = text[end:]
            _append(path, redactor.redact_text(text[:end]))
    finally:
        _append(path, redactor.redact_text(rest))


def _append(path: str, text: str) -> None:
    data = text.encode(errors="surrogateescape")
    if not data:
        return
    with suppress(OSError):  # a full disk must not stop the agent
        with suppress(FileNotFoundError):
            if os.path.getsize(path) + len(data) > _MAX_STDERR_BYTES:
                os.replace(path, f"{path}.old")
        with open(path, "ab", opener=_open_private) as file:
            file.write(data)


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


@cache
def become_reaper() -> None:
    """Become the subreaper: orphans of our descendants become our children, so none escapes by a double fork."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


async def _wait_for_exit(process: asyncio.subprocess.Process) -> str:
    """Wait on a pidfd: asyncio waits for the pipes too, which an orphan may hold open for long."""
    await wait_for_exit(process.pid)
    for _ in range(_REAP_ATTEMPTS):  # the exit code appears once asyncio has reaped it, without a notification
        if process.returncode is not None:
            return _describe_exit(process.returncode)
        await asyncio.sleep(_REAP_DELAY_S)
    return "it is dead"


def _describe_exit(code: int) -> str:
    if code >= 0:
        return f"it exited with code {code}"
    try:
        return f"it was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"it was killed by signal {-code}"


def _without_ancestors(processes: Iterable[ProcessIdentity]) -> list[ProcessIdentity]:
    """Never kill our ancestors: an agent of the same conversation may have started us, with its markers."""
    ancestors = ancestor_pids()
    return [process for process in processes if process.pid not in ancestors]


def _alive_descendants(roots: Iterable[ProcessIdentity], table: ProcessTable) -> set[ProcessIdentity]:
    """Return the roots and descendants that are alive, including descendants of those that died meanwhile."""
    return {process for process in {*roots, *table.descendants(*roots)} if process.is_alive()}


def _stop_and_kill(processes: list[ProcessIdentity]) -> list[ProcessIdentity]:
    """Stop all before killing the first, so that none can fork meanwhile. Returns those that do not die."""
    for process in processes:
        send_signal(process, signal.SIGSTOP)
    return kill_processes(processes)


def _reap(processes: Collection[ProcessIdentity]) -> None:
    """Reap orphans that became our children: these, and any that exited unseen."""
    for pid in orphaned_zombies(processes):
        with suppress(ChildProcessError):  # already reaped
            os.waitpid(pid, os.WNOHANG)
