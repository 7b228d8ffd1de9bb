"""What runs changed, for somebody who looks again and again: the list of files first, one file's patch on demand.

The repositories are kept, because they remember their last capture: while a worktree does not change, asking for its
changes writes nothing.
"""

import asyncio
import os
import re
from collections import OrderedDict
from typing import Any, NamedTuple, TypeVar

import msgspec

from holdfast.engine.home import Home
from holdfast.engine.queries.diff import confined_repository, find_ends
from holdfast.engine.queries.logs import RunView
from holdfast.git.repository import Repository
from holdfast.git.snapshot import diff
from holdfast.leaf.errors import BadInput

MAX_PATCH_BYTES = 2 * 1024 * 1024
_MAX_KEPT = 24  # runs, and lists of files
_OBJECT_ID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
T = TypeVar("T")


class ChangedBlob(msgspec.Struct, frozen=True):
    """A file's added and deleted lines, None for a binary file. `blob` is the id of its content; None when deleted.

    `path` has escapes for bytes that are not UTF-8.
    """

    path: str
    added: int | None
    removed: int | None
    blob: str | None


class ChangeList(NamedTuple):
    """`old` and `new` are commits: what is between them never changes. `is_worktree`: with what is not committed."""

    old: str
    new: str
    files: list[ChangedBlob]
    is_worktree: bool


class Patch(NamedTuple):
    data: bytes
    is_truncated: bool


class _FileList(NamedTuple):
    files: list[ChangedBlob]
    names: dict[str, bytes]  # by path


class RunChanges:
    """Keeps the repositories and the lists that were asked for last."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._repositories: OrderedDict[str, Repository] = OrderedDict()
        self._lists: OrderedDict[tuple[str, str, str], _FileList] = OrderedDict()
        self._capturing = asyncio.Lock()  # two captures of one worktree at once would both write

    async def list_files(self, view: RunView, task_id: str | None = None) -> ChangeList:
        """Return the files that a run, or one task, changed since it began."""
        if view.state.run is not None and view.state.run.remote is not None:
            self._repositories.pop(view.run_id, None)  # opening it fetches what another machine pushed
        repository = await self._repository(view)
        async with self._capturing:
            ends = await find_ends(self._home, repository, view, task_id)
        found = await self._list(view.run_id, repository, ends.old, ends.new)
        return ChangeList(ends.old, ends.new, found.files, ends.is_worktree)

    async def file_patch(self, view: RunView, old: str, new: str, path: str) -> Patch:
        """Return the change of one file between two commits of the run's repository."""
        for name in (old, new):
            if _OBJECT_ID.fullmatch(name) is None:
                raise BadInput(f"{name!r} is not the id of a commit; take `old` and `new` of the list of files")
        repository = await self._repository(view)
        for name in (old, new):
            if await repository.commit_of(name) is None:
                raise BadInput(f"there is no commit {name} any more; get the list of files again")
        known = (await self._list(view.run_id, repository, old, new)).names.get(path)
        if known is None:
            raise BadInput(f"{path!r} did not change between these commits")
        patch = await diff(repository, old, new, "--no-renames", paths=(f":(top,literal){os.fsdecode(known)}",))
        if len(patch) <= MAX_PATCH_BYTES:
            return Patch(patch, is_truncated=False)
        return Patch(patch[: patch.rfind(b"\n", 0, MAX_PATCH_BYTES) + 1], is_truncated=True)

    async def _list(self, run_id: str, repository: Repository, old: str, new: str) -> _FileList:
        key = (run_id, old, new)
        found = self._lists.get(key)
        if found is None:
            found = self._lists[key] = await _changed_blobs(repository, old, new)
        _keep_newest(self._lists, key)
        return found

    async def _repository(self, view: RunView) -> Repository:
        found = self._repositories.get(view.run_id)
        if found is None:
            found = self._repositories[view.run_id] = await confined_repository(self._home, view)
        _keep_newest(self._repositories, view.run_id)
        return found


def _keep_newest(kept: OrderedDict[T, Any], key: T) -> None:
    kept.move_to_end(key)
    while len(kept) > _MAX_KEPT:
        kept.popitem(last=False)


async def _changed_blobs(repository: Repository, old: str, new: str) -> _FileList:
    """Git prints a `:`-field and a path for each file, then its counts and path in one field."""
    output = await diff(repository, old, new, "--raw", "--numstat", "--no-renames", "--no-abbrev", "-z")
    fields = iter(output.split(b"\0"))
    blobs: dict[bytes, str] = {}
    found = _FileList([], {})
    for field in fields:
        if field.startswith(b":"):
            blobs[next(fields)] = field.split(b" ")[3].decode()
        elif field:
            added, removed, name = field.split(b"\t", 2)
            path, blob = name.decode(errors="backslashreplace"), blobs.get(name, "")
            found.names[path] = name
            found.files.append(ChangedBlob(path, _count(added), _count(removed), blob if blob.strip("0") else None))
    return found


def _count(text: bytes) -> int | None:
    return int(text) if text != b"-" else None
