"""What is asked of the kernel: locks that die with their owner, word of a change, who a process is, its whole tree."""

import asyncio
import fcntl
import os
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress

from holdfast.agents.launch import Launch
from holdfast.agents.process.tree import Tree, grown
from holdfast.engine.selftest.base import Finding, fails, holds
from holdfast.engine.selftest.child import child, told
from holdfast.engine.selftest.folder import mark
from holdfast.leaf.errors import HoldfastError
from holdfast.leaf.ids import new_run_id
from holdfast.leaf.process.env_markers import CONVERSATION_MARK, marked
from holdfast.leaf.process.identity import ProcessIdentity, end, identify
from holdfast.store.files.watch import Watcher

# A shell in a session of its own, whose parent is gone: what is left of an agent when only its group is killed.
# It stays the shell that spoke: a process that is just becoming another program shows nobody's mark.
_STRAY = "(setsid sh -c 'echo $$; sleep 600; :' &); exec sleep 600"


def locking(folder: str, *, lock: Callable[[int, int], None] = fcntl.flock) -> Finding:
    """One owner at a time, and none that is dead."""
    path = os.path.join(folder, "locked")
    alone = "two resumes could move one run: set HOLDFAST_HOME to a local disk"
    with open(path, "wb") as file, child("hold", path) as owner:
        if told(owner) != "held":
            return fails("flock was refused to a process", alone)
        if _taken(lock, file.fileno()):
            return fails("two processes held one lock at once", alone)
        owner.kill()
        owner.wait()
        if not _taken(lock, file.fileno()):
            return fails("a lock outlived its owner", "no run could be resumed: set HOLDFAST_HOME to a local disk")
    return holds("refused while it is held, free when its owner is killed")


def _taken(lock: Callable[[int, int], None], fd: int) -> bool:
    with suppress(BlockingIOError):
        lock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


def _append(path: str) -> None:
    with open(path, "ab") as file:
        file.write(b"x")


def telling(folder: str, *, change: Callable[[str], None] = _append, patience: float = 5.0) -> Finding:
    """A change of a file, told by the kernel."""
    path = os.path.join(folder, "watched")
    _append(path)

    async def is_told() -> bool:
        async with Watcher().changes(path) as changed:
            change(path)
            with suppress(TimeoutError):
                await asyncio.wait_for(changed.wait(), patience)
            return changed.is_set()

    if not asyncio.run(is_told()):
        return fails(
            f"a change was not told within {patience:g} s",
            "who follows a run would see nothing, and messages would wait: set HOLDFAST_HOME to a local disk",
        )
    return holds("a change was told")


def identity(
    folder: str,
    *,
    who: Callable[[int], ProcessIdentity | None] = identify,
    find: Callable[[str, str], list[ProcessIdentity]] = marked,
) -> Finding:
    """A process can be told from a later one with its number, and found by what it inherited."""
    path = os.path.join(folder, "owned")
    _append(path)
    with child("hold", path) as other:
        told(other)
        seen = who(other.pid)
        found = find("PATH", os.environ.get("PATH", ""))
        other.kill()
        other.wait()
    if seen is None or who(other.pid) == seen:
        return fails(
            "a process could not be told from a dead one by /proc",
            "nobody could say whether an owner lives: mount /proc, and let this user see its own processes there",
        )
    if seen not in found:
        return fails(
            "a process was not found by its environment in /proc",
            "agents that outlived a crash would not be found: let this user read its own /proc/PID/environ",
        )
    return holds("told apart by start and boot, found by their mark")


def burying(
    folder: str, *, grow: Callable[[Launch], AbstractAsyncContextManager[Tree]] = grown, patience: float = 10.0
) -> Finding:
    """An agent is dead when all that came of it is."""
    name = new_run_id("selftest")
    launch = Launch(("sh", "-c", _STRAY), folder, mark(folder), name)

    async def left() -> list[ProcessIdentity]:
        async with grow(launch) as tree:
            async with asyncio.timeout(patience):
                await tree.stdout.readline()
            with suppress(HoldfastError):
                await tree.kill()
            return marked(CONVERSATION_MARK, name)

    alive = asyncio.run(left())
    if alive:
        end(alive)
        return fails(
            "a process that had left its agent's session was not killed with it",
            "agents could go on writing when their run thinks them dead: use a sandbox or a container",
        )
    return holds("what had left its agent's session was killed with it")
