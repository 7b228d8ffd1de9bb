"""Finds which files an agent changed by comparing its worktree, so that changes by a shell count too."""

import asyncio
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import NamedTuple

from holdfast.git.process import GitFailed
from holdfast.git.snapshot import changed_files
from holdfast.git.worktrees.worktree import Worktree, status_of
from holdfast.leaf.errors import Denied

Signature = tuple[int, ...] | None  # of a file, detects a change without reading it; None if it does not exist


class WorktreeState(NamedTuple):
    """A worktree at one moment: its commit, and the files that differ from it."""

    head: str | None
    files: dict[str, Signature]


class ToolUse(NamedTuple):
    """The tool call after which the worktree is compared. `input` is the tool's."""

    tool: str
    input: object = None


class EditWatch:
    """Compares worktrees during turns, after each tool call and at the end; never twice at once.

    Changes that Holdfast makes itself, between turns, are not reported.
    """

    def __init__(
        self, worktree_of: Callable[[str], Worktree], on_change: Callable[[str, list[str], ToolUse | None], None]
    ) -> None:
        """`worktree_of` finds the worktree of a conversation; `on_change` receives the files that changed in it."""
        self._worktree_of = worktree_of
        self._on_change = on_change
        self._last_state: dict[str, WorktreeState] = {}
        self._waiting: set[str] = set()
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def begin(self, conversation_id: str) -> None:
        """Call this before a prompt is sent."""
        async with self._locks[conversation_id]:
            self._last_state.pop(conversation_id, None)
            with suppress(GitFailed, Denied, OSError):  # a worktree that cannot be read is not watched
                self._last_state[conversation_id] = await read_worktree_state(self._worktree_of(conversation_id))

    async def check(self, conversation_id: str, tool_use: ToolUse | None = None) -> None:
        """Report what changed since the last comparison.

        A caller that waits for another comparison shares its result.
        """
        if conversation_id in self._waiting:
            return
        self._waiting.add(conversation_id)
        async with self._locks[conversation_id]:
            self._waiting.discard(conversation_id)
            before = self._last_state.get(conversation_id)
            if before is None:
                return
            with suppress(GitFailed, Denied, OSError):
                tree = self._worktree_of(conversation_id)
                now = self._last_state[conversation_id] = await read_worktree_state(tree)
                there = _signatures(tree, before.files)
                paths = changed_between(before, now, there, await _committed_files(tree, before.head, now.head))
                if paths:
                    self._on_change(conversation_id, paths, tool_use)

    async def end(self, conversation_id: str) -> None:
        """Call this when a turn is over. Later changes are not the agent's."""
        await self.check(conversation_id)
        async with self._locks[conversation_id]:
            self._last_state.pop(conversation_id, None)


async def read_worktree_state(worktree: Worktree) -> WorktreeState:
    status = await status_of(worktree)
    return WorktreeState(status.head, _signatures(worktree, (change.path for change in status.changes)))


def changed_between(
    before: WorktreeState, now: WorktreeState, on_disk: Mapping[str, Signature], committed: Iterable[str] = ()
) -> list[str]:
    """Return the files that changed between two comparisons.

    `there` are the files that differed before, as they are on disk now: one that was only committed since, or is
    ignored now, is unchanged. `committed` are the files in which the two commits differ.
    """
    since = {*now.files, *committed} - before.files.keys()
    return sorted(since | {path for path, signature in before.files.items() if on_disk[path] != signature})


async def _committed_files(worktree: Worktree, before: str | None, now: str | None) -> list[str]:
    if before is None or now is None or before == now:
        return []
    return await changed_files(worktree.repository, before, now)


def _signatures(worktree: Worktree, paths: Iterable[str]) -> dict[str, Signature]:
    return {path: _signature(os.path.join(worktree.path, path)) for path in paths}


def _signature(path: str) -> Signature:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return (status.st_mode, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
