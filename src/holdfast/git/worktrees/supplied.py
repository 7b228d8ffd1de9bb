"""Gives a worktree ignored files of the user's checkout, as copies or links: git checks out none of them.

Only paths that git ignores in the worktree are written, so nothing becomes part of a commit and no tracked file is
overwritten. Nothing is read outside of the checkout and nothing is written outside of the worktree, wherever links in
them lead. Everything can be repeated: an interrupted copy is written again.
"""

import asyncio
import os
import shutil
import stat
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from holdfast.git.process import GitFailed
from holdfast.git.worktrees.worktree import Worktree
from holdfast.leaf.errors import BadInput, Denied
from holdfast.leaf.files.contained import open_parent_folder, open_regular_file, resolve_inside

_NONE_IGNORED_CODE = 1  # git's exit code when no path is ignored
_NOT_IGNORED = "git tracks it or does not ignore it, so it would be committed"
_LINK_NOT_IGNORED = (
    "git does not ignore a link of that name, so it would be committed; a pattern that ends in / matches folders only"
)


class SuppliedFiles(NamedTuple):
    """The paths that were copied and linked, and those that were not, each with the reason."""

    copied: tuple[str, ...] = ()
    linked: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


class _Source(NamedTuple):
    """A file or link to copy: its real path, and its path in the worktree."""

    real: str
    path: str


def check_supplied_path(setting: str, path: str) -> None:
    """Refuse a path that is not below the top of the checkout."""
    parts = os.path.normpath(path).split(os.sep)
    if os.path.isabs(path) or "\0" in path or parts[0] in ("..", ".") or ".git" in parts:
        raise BadInput(f"{setting}: {path!r} is not a path below the top of the repository; give one such as .env")


async def supply_files(worktree: Worktree, checkout: str, copies: Sequence[str], links: Sequence[str]) -> SuppliedFiles:
    """Copy and link these paths of the checkout, whose top folder is `checkout`."""
    copied, linked, left_out = [], [], []
    for path in copies:
        reasons = await _copy(worktree, checkout, os.path.normpath(path))
        if reasons is None:
            copied.append(path)
        else:
            left_out.append(f"{path}: {reasons}")
    for path in links:
        reason = await _link(worktree, checkout, os.path.normpath(path))
        if reason is None:
            linked.append(path)
        else:
            left_out.append(f"{path}: {reason}")
    return SuppliedFiles(tuple(copied), tuple(linked), tuple(left_out))


async def _copy(worktree: Worktree, checkout: str, path: str) -> str | None:
    """Return why it was not, or not wholly, copied."""
    try:
        sources = list(_sources(checkout, path))
    except (Denied, OSError) as error:
        return _reason(error)
    if not sources:
        return "there is no file in it"
    try:
        ignored = await _ignored(worktree, [source.path for source in sources])
    except GitFailed as error:
        return " ".join(error.output.split())
    wanted = [source for source in sources if source.path in ignored]
    if not wanted:
        return _NOT_IGNORED
    failed = await _in_thread(worktree.path, checkout, wanted)
    kept = len(sources) - len(wanted)
    if failed:
        return f"{len(failed)} of {len(sources)} files were not copied, first {failed[0]}"
    return f"{kept} of {len(sources)} files were not copied: git tracks them or does not ignore them" if kept else None


async def _in_thread(top: str, checkout: str, sources: Sequence[_Source]) -> list[str]:
    """Copy without blocking the run. When this is cancelled, the thread has ended before it returns."""
    stopped = threading.Event()
    copying = asyncio.ensure_future(asyncio.to_thread(_copy_all, top, checkout, sources, stopped))
    try:
        return await asyncio.shield(copying)
    except asyncio.CancelledError:
        stopped.set()
        await asyncio.wait({copying})
        raise


def _copy_all(top: str, checkout: str, sources: Sequence[_Source], stopped: threading.Event) -> list[str]:
    """Return the files that could not be copied, each with the reason."""
    failed = []
    for source in sources:
        if stopped.is_set():
            break
        try:
            _copy_file(os.path.realpath(top), os.path.realpath(checkout), source)
        except (Denied, OSError) as error:
            failed.append(f"{source.path}: {_reason(error)}")
    return failed


def _copy_file(top: str, checkout: str, source: _Source) -> None:
    with (
        open_parent_folder(checkout, source.real) as (source_folder, source_name),
        open_parent_folder(top, os.path.join(top, source.path), make=True) as (folder, name),
    ):
        if stat.S_ISLNK(os.lstat(source_name, dir_fd=source_folder).st_mode):
            target = os.readlink(source_name, dir_fd=source_folder)
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=folder)
            os.symlink(target, name, dir_fd=folder)
            return
        with open(open_regular_file(source_folder, source_name, source.path, os.O_RDONLY), "rb") as original:
            mode = stat.S_IMODE(os.fstat(original.fileno()).st_mode)
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=folder)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            with open(os.open(name, flags, 0o600, dir_fd=folder), "wb") as copy:
                shutil.copyfileobj(original, copy)
                os.fchmod(copy.fileno(), mode)


def _sources(checkout: str, path: str) -> Iterator[_Source]:
    """Yield the files of a path, and the links that stay in the checkout wherever it is."""
    real = resolve_inside(checkout, path)
    if not os.path.isdir(real):
        os.lstat(real)  # raises when it does not exist
        yield _Source(real, path)
        return
    for folder, folders, names in os.walk(real):
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        folders[:] = [name for name in folders if name != ".git" and name not in links]
        for name in (*links, *names):
            source = os.path.join(folder, name)
            target = os.path.join(path, os.path.relpath(source, real))
            if not os.path.islink(source) or _stays_inside(target, os.readlink(source)):
                yield _Source(source, target)


def _stays_inside(path: str, target: str) -> bool:
    """Whether a link at this path of a checkout leads to another path of the same checkout."""
    if os.path.isabs(target):
        return False
    return os.path.normpath(os.path.join(os.path.dirname(path), target)).split(os.sep)[0] != ".."


async def _link(worktree: Worktree, checkout: str, path: str) -> str | None:
    """Return why it was not linked."""
    top = os.path.realpath(worktree.path)
    try:
        target = resolve_inside(checkout, path)
        os.lstat(target)
        if await _is_tracked(worktree, path):
            return "git tracks it"
        if path not in await _ignored(worktree, [path]):  # asked before: a link that a kill leaves would be committed
            return _LINK_NOT_IGNORED
        with open_parent_folder(top, os.path.join(top, path), make=True) as (folder, name):
            if not _make_link(target, name, folder):
                return "the worktree has a file or folder of that name"
    except GitFailed as error:
        return " ".join(error.output.split())
    except (Denied, OSError) as error:
        return _reason(error)
    return None


def _make_link(target: str, name: str, folder: int) -> bool:
    """Replace an earlier link; False when something else is there."""
    with suppress(FileNotFoundError):
        if not stat.S_ISLNK(os.lstat(name, dir_fd=folder).st_mode):
            return False
        os.unlink(name, dir_fd=folder)
    os.symlink(target, name, dir_fd=folder)
    return True


async def _is_tracked(worktree: Worktree, path: str) -> bool:
    listed = await worktree.git.query("--literal-pathspecs", "ls-files", "-z", "--", path)
    return bool(listed.stdout)


async def _ignored(worktree: Worktree, paths: Sequence[str]) -> set[str]:
    """Those that git ignores in the worktree. It never ignores a tracked file."""
    stdin = b"".join(os.fsencode(path) + b"\0" for path in paths)
    answer = await worktree.git.run("check-ignore", "-z", "--stdin", stdin=stdin)
    if answer.code > _NONE_IGNORED_CODE:
        raise GitFailed("check-ignore", answer.code, answer.stderr)
    return set(answer.fields())


def _reason(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "it does not exist in your checkout"
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)
