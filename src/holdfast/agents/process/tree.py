"""A process and everything that comes of it: owned from the first to the last, and found again after our own death.

An agent is often a wrapper that re-executes, and its shell tools run in process groups of their own; they go on
writing after the agent is dead. So the group is not enough. We are the reaper of all our descendants (orphans come to
us, not to init), and each of them carries a mark in its environment, by which a later session of ours finds them. Who
sheds its environment still holds a file open that it was given: its tether.
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

from holdfast.agents.launch import PANE_LOST, Launch
from holdfast.agents.runtimes.base import end_unseen, spawned
from holdfast.core.redaction.redaction import Redactor
from holdfast.leaf.errors import BadInput, Denied
from holdfast.leaf.process.death import death_of
from holdfast.leaf.process.env_markers import CONVERSATION_MARK, RUN_MARK, each_marked, is_orphan_without, marked
from holdfast.leaf.process.fd_marker import each_holding, holding, tethered
from holdfast.leaf.process.identity import (
    ROUNDS,
    Families,
    ProcessIdentity,
    end,
    end_all,
    identify,
    lineage,
    memory_of,
    myself,
    orphaned_zombies,
    send,
    works_in,
)
from holdfast.leaf.process.proc import pids

_PR_SET_CHILD_SUBREAPER = 36
_LIMIT = 1024 * 1024  # of a pipe's buffer in our memory; a longer line is read in pieces
_COMPLAINTS = 1024 * 1024  # bytes of an agent's stderr, before its file is begun anew
_BURIAL_LOOKS, _BURIAL_PAUSE = 400, 0.005

_roots: set[ProcessIdentity] = set()  # of all trees: whatever they carry, none is another's stray
_undead: set["Tree"] = set()  # something of them would not die, or may not be dead


class Tree:
    """A running root, and whatever it started."""

    def __init__(self, process: asyncio.subprocess.Process, launch: Launch) -> None:
        self._process = process
        self._launch = launch
        self._mark = launch.mark
        self._cwd = launch.cwd
        identity = identify(process.pid)
        self.identity = identity or ProcessIdentity(process.pid, 0, "")
        self._start = (identity or myself()).start_time  # nobody of it is older
        self._gone = asyncio.ensure_future(self._ended(process))
        self._seen: set[ProcessIdentity] = set()
        self._gone.add_done_callback(self._remember)  # what ends by itself from now on is buried all the same
        self._over = False
        self._complaints: asyncio.Task[None] | None = None
        if process.stderr is not None and launch.stderr is not None:
            self._complaints = asyncio.ensure_future(_kept(process.stderr, launch.stderr))
        _roots.add(self.identity)

    @property
    def stdin(self) -> asyncio.StreamWriter:
        assert self._process.stdin is not None, "it was asked for"
        return self._process.stdin

    @property
    def stdout(self) -> asyncio.StreamReader:
        assert self._process.stdout is not None, "it was asked for"
        return self._process.stdout

    async def _ended(self, process: asyncio.subprocess.Process) -> str:
        how = await _death_of(process)
        lost = self._launch.runtime.kind == "tmux" and process.returncode == PANE_LOST
        return "its tmux pane was lost" if lost else how

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

    def memory(self) -> int:
        """Bytes of memory that all of it holds together; what several share is counted once."""
        return sum(memory_of(process.pid) for process in self._alive(Families()))

    async def end(self, patience: float = 2.0) -> None:
        """Close its input, give it a moment to leave by itself, then kill all of it, and see it dead."""
        self._alive(Families())  # what ends by itself meanwhile is remembered, and buried
        with suppress(OSError):
            self.stdin.close()
        with suppress(TimeoutError):
            await asyncio.wait_for(self.death(), patience)
        await self.kill()

    async def kill(self) -> None:
        """Nothing of it is alive when this returns. `Denied` while something is: then nobody may take its place.

        Nor when it could not be told, as when its container's engine does not answer.
        """
        if self._over:
            return
        try:
            await self._ended_for_good()
        except BaseException:
            _undead.add(self)
            raise
        _undead.discard(self)
        self._over = True

    async def _ended_for_good(self) -> None:
        self._gone.remove_done_callback(self._remember)  # all of it is looked for now, and again when some are dead
        alive = await self._left()
        for _ in range(ROUNDS):
            if not alive:
                break
            stubborn = await asyncio.to_thread(_kill, alive)
            alive = stubborn or await self._left()
            if stubborn:
                break
        if alive := alive or await asyncio.to_thread(end_all, self._traced):
            named = ", ".join(str(process.pid) for process in alive)
            raise Denied(f"processes of {self._mark} will not die (pid {named}); end them, and try again")
        with suppress(TimeoutError):
            await asyncio.wait_for(self.death(), 5)
        await asyncio.to_thread(end_unseen, self._launch)
        _bury(self._seen - {self.identity})  # the root is asyncio's to bury
        if self._complaints is not None:
            await asyncio.wait({self._complaints}, timeout=1)
            self._complaints.cancel()
        _roots.discard(self.identity)

    def is_of(self, mark: str) -> bool:
        """By its own mark, or as a part of what has this one: a terminal of an agent."""
        return self._mark == mark or self._mark.startswith(f"{mark}/")

    def _remember(self, _: object) -> None:
        self._alive(Families())

    async def _left(self) -> list[ProcessIdentity]:
        """What is alive; when nothing is known to be, also whoever shed all else and still holds the tether."""
        families = Families()
        if alive := self._alive(families):
            return alive
        young = families.since(self._start)
        holders = _without_lineage(await asyncio.to_thread(holding, self._launch.tether, self._mark, young))
        found = _alive_among(holders, Families()) if holders else set()
        self._seen |= found
        return list(found)

    def _traced(self) -> Iterator[ProcessIdentity]:
        """For who is another process every moment, and not alive any more when all were looked at."""
        return chain(
            each_marked(CONVERSATION_MARK, self._mark, pids(self._start)),
            each_holding(self._launch.tether, self._mark, pids(self._start)),
        )

    def _alive(self, families: Families) -> list[ProcessIdentity]:
        """The root and all below it, what carries its mark, and orphans without one that work in its folder."""
        young = families.since(self._start)
        roots = {self.identity, *_without_lineage(marked(CONVERSATION_MARK, self._mark, young))}
        roots.update(stray for stray in families.children_of(myself()) if self._is_mine(stray))
        found = _alive_among(roots, families)
        self._seen |= found
        return list(found)

    def _is_mine(self, stray: ProcessIdentity) -> bool:
        """True of a child of ours that nobody else can have left: it has no mark, and stands in this tree's folder."""
        return (
            stray not in _roots
            and works_in(stray.pid, self._cwd)
            and is_orphan_without((RUN_MARK, CONVERSATION_MARK), stray.pid)
        )


async def see_dead(mark: str) -> None:
    """What would not die with earlier trees of this mark is dead now; else `Denied`, as it was then."""
    for tree in [tree for tree in _undead if tree.is_of(mark)]:
        await seen_through(tree.kill())


@asynccontextmanager
async def grown(launch: Launch) -> AsyncIterator[Tree]:
    """Start an agent, and leave nothing of it behind: not even when we are cancelled while it starts.

    Not beside what an earlier one of the same mark left alive.
    """
    await see_dead(launch.mark)
    become_reaper()
    trees: list[Tree] = []

    async def start() -> None:
        trees.append(Tree(await _started(launch), launch))

    try:
        await seen_through(start())
        yield trees[0]
    finally:
        for tree in trees:
            await seen_through(tree.kill())


async def _started(launch: Launch) -> asyncio.subprocess.Process:
    spawn = await asyncio.to_thread(spawned, launch)
    try:
        with tethered(launch.tether, launch.mark) as held:
            return await asyncio.create_subprocess_exec(
                *spawn.command,
                cwd=launch.cwd,
                env=spawn.environment,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT if launch.stderr is None else asyncio.subprocess.PIPE,
                start_new_session=True,
                pass_fds=(*held, *spawn.files),
                limit=_LIMIT,
            )
    except FileNotFoundError:
        missing = launch.command[0] if os.path.isdir(launch.cwd) else launch.cwd
        raise BadInput(f"{missing} is not there; `holdfast agents ls` tells how to install an agent") from None
    except PermissionError:
        raise BadInput(f"{launch.command[0]} may not be run by this user") from None
    except (OSError, ValueError) as error:
        raise BadInput(f"{launch.command[0]!r} cannot be started in {launch.cwd}: {error}") from None
    finally:
        for file in spawn.files:
            os.close(file)


async def seen_through(work: Coroutine[Any, Any, object]) -> None:
    """Wait for it to the end, however often we are cancelled meanwhile; only then are we."""
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


async def _kept(complaints: asyncio.StreamReader, path: str) -> None:
    """Drain them into a file, without secrets. Of one that has grown too long the end is kept, beside the new one."""
    redactor, held = Redactor.of(os.environ), ""
    try:
        while piece := await complaints.read(64 * 1024):
            text = held + piece.decode(errors="surrogateescape")
            end = redactor.cut(text)
            held = text[end:]
            _append(path, redactor.text(text[:end]))
    finally:
        _append(path, redactor.text(held))


def _append(path: str, text: str) -> None:
    data = text.encode(errors="surrogateescape")
    if not data:
        return
    with suppress(OSError):  # a full disk must not stop the agent
        with suppress(FileNotFoundError):
            if os.path.getsize(path) + len(data) > _COMPLAINTS:
                os.replace(path, f"{path}.old")
        with open(path, "ab", opener=_private) as file:
            file.write(data)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


@cache
def become_reaper() -> None:
    """Orphans of our descendants become our children: none of them escapes by a double fork."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


async def _death_of(process: asyncio.subprocess.Process) -> str:
    """Learned from a handle on the process: waiting for it by its pipes can last as long as an orphan holds them."""
    await death_of(process.pid)
    for _ in range(_BURIAL_LOOKS):  # its code is there once asyncio has buried it, and no event tells of that
        if process.returncode is not None:
            return _how(process.returncode)
        await asyncio.sleep(_BURIAL_PAUSE)
    return "it is dead"


def _how(code: int) -> str:
    if code >= 0:
        return f"it exited with code {code}"
    try:
        return f"it was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"it was killed by signal {-code}"


def _without_lineage(processes: Iterable[ProcessIdentity]) -> list[ProcessIdentity]:
    """We may have been started by an agent of the same conversation, and then have its mark and its tether."""
    spared = lineage()
    return [process for process in processes if process.pid not in spared]


def _alive_among(roots: Iterable[ProcessIdentity], families: Families) -> set[ProcessIdentity]:
    """Those of them that live, and of all that came of them; what came of one that died since is there too."""
    return {process for process in {*roots, *families.below(*roots)} if process.is_alive()}


def _kill(processes: list[ProcessIdentity]) -> list[ProcessIdentity]:
    """Stop them all before the first is killed, so that none can fork meanwhile. Returns those that will not die."""
    for process in processes:
        send(process, signal.SIGSTOP)
    return end(processes)


def _bury(processes: Collection[ProcessIdentity]) -> None:
    """Orphans that came to us have nobody else to wait for them: these, and any that ended unseen."""
    for pid in orphaned_zombies(processes):
        with suppress(ChildProcessError):  # somebody was faster
            os.waitpid(pid, os.WNOHANG)
