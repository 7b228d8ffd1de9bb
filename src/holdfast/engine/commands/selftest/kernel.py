"""Checks what we need of the kernel: locks that die with their owner, file watches, process identity, process trees."""

import asyncio
import fcntl
import os
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress

from holdfast.agents.launch import Launch
from holdfast.agents.process.tree import ProcessTree, spawn
from holdfast.engine.commands.selftest.base import SelftestFinding, fails, holds
from holdfast.engine.commands.selftest.child import child_process, read_line
from holdfast.engine.commands.selftest.folder import marker_environment
from holdfast.leaf.errors import HoldfastError
from holdfast.leaf.files.watch import Watcher
from holdfast.leaf.ids import new_run_id
from holdfast.leaf.process.env_markers import CONVERSATION_MARK, marked_processes
from holdfast.leaf.process.identity import ProcessIdentity, identify, kill_processes

# A shell in its own process session whose parent is gone: what remains of an agent when only its group is killed. It
# remains the shell that wrote the line: during an exec a process shows no marker.
_STRAY_COMMAND = "(setsid sh -c 'echo $$; sleep 600; :' &); exec sleep 600"


def check_lock(folder: str, *, lock: Callable[[int, int], None] = fcntl.flock) -> SelftestFinding:
    """Check that a lock has one owner at a time, and no dead one."""
    path = os.path.join(folder, "locked")
    alone = "two resumes could move one run: set HOLDFAST_HOME to a local disk"
    with open(path, "wb") as file, child_process("hold", path) as owner:
        if read_line(owner) != "held":
            return fails("flock was refused to a process", alone)
        if _try_lock(lock, file.fileno()):
            return fails("two processes held one lock at once", alone)
        owner.kill()
        owner.wait()
        if not _try_lock(lock, file.fileno()):
            return fails("a lock outlived its owner", "no run could be resumed: set HOLDFAST_HOME to a local disk")
    return holds("refused while it is held, free when its owner is killed")


def _try_lock(lock: Callable[[int, int], None], fd: int) -> bool:
    with suppress(BlockingIOError):
        lock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


def _append(path: str) -> None:
    with open(path, "ab") as file:
        file.write(b"x")


def check_file_watch(folder: str, *, change: Callable[[str], None] = _append, timeout: float = 5.0) -> SelftestFinding:
    """Check that the kernel reports a file's change."""
    path = os.path.join(folder, "watched")
    _append(path)

    async def is_told() -> bool:
        async with Watcher().changes(path) as changed:
            change(path)
            with suppress(TimeoutError):
                await asyncio.wait_for(changed.wait(), timeout)
            return changed.is_set()

    if not asyncio.run(is_told()):
        return fails(
            f"a change was not reported within {timeout:g} s",
            "followers of a run would see nothing, and messages would wait: set HOLDFAST_HOME to a local disk",
        )
    return holds("a change was reported")


def check_process_identity(
    folder: str,
    *,
    identify_process: Callable[[int], ProcessIdentity | None] = identify,
    find: Callable[[str, str], list[ProcessIdentity]] = marked_processes,
) -> SelftestFinding:
    """Check that a process is distinguished from a later one with its pid, and found by its inherited environment."""
    path = os.path.join(folder, "owned")
    _append(path)
    with child_process("hold", path) as other:
        read_line(other)
        seen = identify_process(other.pid)
        found = find("PATH", os.environ.get("PATH", ""))
        other.kill()
        other.wait()
    if seen is None or identify_process(other.pid) == seen:
        return fails(
            "a live process could not be distinguished from a dead one in /proc",
            "the owner of a run could not be determined: mount /proc, and let this user see its own processes there",
        )
    if seen not in found:
        return fails(
            "a process was not found by its environment in /proc",
            "agents that survived a crash would not be found: let this user read its own /proc/PID/environ",
        )
    return holds("distinguished by start time and boot id, found by their marker")


def check_tree_kill(
    folder: str,
    *,
    spawn_tree: Callable[[Launch], AbstractAsyncContextManager[ProcessTree]] = spawn,
    timeout: float = 10.0,
) -> SelftestFinding:
    """Check that killing an agent kills all its descendants."""
    name = new_run_id("selftest")
    launch = Launch(("sh", "-c", _STRAY_COMMAND), folder, marker_environment(folder), name)

    async def left() -> list[ProcessIdentity]:
        async with spawn_tree(launch) as tree:
            async with asyncio.timeout(timeout):
                await tree.stdout.readline()
            with suppress(HoldfastError):
                await tree.kill()
            return marked_processes(CONVERSATION_MARK, name)

    alive = asyncio.run(left())
    if alive:
        kill_processes(alive)
        return fails(
            "a process that left its agent's process session was not killed",
            "agents could continue writing after their run considers them dead: use a sandbox or a container",
        )
    return holds("a process that left its agent's process session was killed too")
