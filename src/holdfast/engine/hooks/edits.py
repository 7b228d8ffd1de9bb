"""Which files an agent changed: found by looking at its worktree, so that a shell's changes count as an editor's do."""

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

Signature = tuple[int, ...] | None  # of a file, by which a change shows without reading it; None when it is not there


class Look(NamedTuple):
    """A worktree at one moment: its commit, and the files that differ from it."""

    head: str | None
    files: dict[str, Signature]


class ToolUse(NamedTuple):
    """The tool call after which somebody looked. `input` is as the tool got it."""

    tool: str
    input: object = None


class EditWatch:
    """Looks at worktrees while turns last, after each tool call and at their end; never twice at once.

    Changes that Holdfast makes itself, between turns, are not told.
    """

    def __init__(
        self, tree_of: Callable[[str], Worktree], found: Callable[[str, list[str], ToolUse | None], None]
    ) -> None:
        """`tree_of` finds the worktree of a conversation; `found` is told which files changed in it."""
        self._tree_of = tree_of
        self._found = found
        self._last: dict[str, Look] = {}
        self._waiting: set[str] = set()
        self._looking: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def begin(self, conversation: str) -> None:
        """Before a prompt is sent."""
        async with self._looking[conversation]:
            self._last.pop(conversation, None)
            with suppress(GitFailed, Denied, OSError):  # a worktree that cannot be looked at is not watched
                self._last[conversation] = await look_at(self._tree_of(conversation))

    async def look(self, conversation: str, after: ToolUse | None = None) -> None:
        """Tell what changed since the last look. One that waits for another look sees what this one would."""
        if conversation in self._waiting:
            return
        self._waiting.add(conversation)
        async with self._looking[conversation]:
            self._waiting.discard(conversation)
            before = self._last.get(conversation)
            if before is None:
                return
            with suppress(GitFailed, Denied, OSError):
                tree = self._tree_of(conversation)
                now = self._last[conversation] = await look_at(tree)
                there = _signatures(tree, before.files)
                paths = changed_between(before, now, there, await _committed(tree, before.head, now.head))
                if paths:
                    self._found(conversation, paths, after)

    async def end(self, conversation: str) -> None:
        """When a turn is over. What changes after it is not the agent's doing."""
        await self.look(conversation)
        async with self._looking[conversation]:
            self._last.pop(conversation, None)


async def look_at(tree: Worktree) -> Look:
    status = await status_of(tree)
    return Look(status.head, _signatures(tree, (change.path for change in status.changes)))


def changed_between(
    before: Look, now: Look, there: Mapping[str, Signature], committed: Iterable[str] = ()
) -> list[str]:
    """The files that changed from one look to the next.

    `there` are the files that were changed before, as they are on the disk now: one that was only committed since, or
    is ignored now, is the same. `committed` are the files in which the two commits differ.
    """
    since = {*now.files, *committed} - before.files.keys()
    return sorted(since | {path for path, signature in before.files.items() if there[path] != signature})


async def _committed(tree: Worktree, before: str | None, now: str | None) -> list[str]:
    if before is None or now is None or before == now:
        return []
    return await changed_files(tree.repository, before, now)


def _signatures(tree: Worktree, paths: Iterable[str]) -> dict[str, Signature]:
    return {path: _signature(os.path.join(tree.path, path)) for path in paths}


def _signature(path: str) -> Signature:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return (status.st_mode, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
