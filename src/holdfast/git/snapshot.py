"""Saves the whole state of a worktree (staged, unstaged and untracked files, not ignored ones) as a commit.

The worktree does not change: everything is added to a copy of its index, which knows the unchanged files, so a
snapshot costs about as much as `git status`. The snapshot of a clean worktree is HEAD. Otherwise the commit's tree
holds the files, its first parent is HEAD, and its second parent, if something was staged, holds the index. Nested
repositories are listed, because their uncommitted files are not in the snapshot.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from holdfast.git.last_capture import observe, recall, remember
from holdfast.git.locks import INDEX_COPY
from holdfast.git.missing_objects import missing_index_paths
from holdfast.git.process import Git, GitFailed, GitKilled
from holdfast.git.repository import OBJECT_ID, Repository, commit_of
from holdfast.git.worktree_admin import commondir_of, entries_of, is_readable, read_pointer
from holdfast.git.worktrees.worktree import Status, Worktree, status_of
from holdfast.leaf.errors import Denied

SNAPSHOT_IDENTITY = {
    "GIT_AUTHOR_NAME": "Holdfast",
    "GIT_AUTHOR_EMAIL": "snapshot@holdfast.localhost",
    "GIT_COMMITTER_NAME": "Holdfast",
    "GIT_COMMITTER_EMAIL": "snapshot@holdfast.localhost",  # only snapshots have it: tells one from a merge
}
_SYMREF_PREFIX = "ref: refs/"
_GITLINK_MODE = "160000"  # the mode of an entry that is another repository's commit
_CURRENT_STATE_MESSAGE = "Current state"
_ADD_OPTIONS = ("-c", "advice.addEmbeddedRepo=false", "-c", "core.safecrlf=false")


class WorktreeSnapshot(NamedTuple):
    """A saved state, and what it lacks.

    `left_out` are repositories inside the worktree: at most the id of their current commit is saved. `nested` are
    those that are not submodules: not even that id is saved. Of `unreadable_folders` nothing is saved.
    """

    oid: str
    head: str | None
    is_clean: bool
    left_out: tuple[str, ...] = ()
    unreadable_folders: tuple[str, ...] = ()
    nested: tuple[str, ...] = ()
    tree: str | None = None  # None when it is HEAD's


async def take_snapshot(worktree: Worktree, ref: str, message: str, within: str | None = None) -> WorktreeSnapshot:
    """Save the worktree's state under a ref, creating or moving it; with `within`, only the files of that tree."""
    snapshot = (
        await capture(worktree, message) if within is None else await _capture_tree_files(worktree, message, within)
    )
    await worktree.repository.set_ref(ref, snapshot.oid)
    return snapshot


async def capture(worktree: Worktree, message: str) -> WorktreeSnapshot:
    """Save the worktree's state as a commit without a ref. Returns the last one again when nothing changed since."""
    git_dir = worktree.must_be_ours()
    status = await status_of(worktree)
    seen = observe(worktree, status)
    last = recall(worktree, seen)
    if last is not None and last.commit is not None and await worktree.repository.commit_of(last.commit) is not None:
        unreadable = status.unreadable_folders
        return WorktreeSnapshot(last.commit, status.head, False, unreadable_folders=unreadable, tree=last.tree)
    remember(worktree, seen)
    if status.is_clean and status.head is not None:
        return WorktreeSnapshot(status.head, status.head, is_clean=True, unreadable_folders=status.unreadable_folders)
    with _copy_index(git_dir) as index:
        environment = {"GIT_INDEX_FILE": index, **SNAPSHOT_IDENTITY}
        staged = await _commit_staged(worktree.git, status, environment)
        oid, tree = await _commit_index_copy(worktree.git, status, staged, message, environment)
    remember(worktree, seen._replace(commit=oid, tree=tree) if seen is not None else None)
    return WorktreeSnapshot(
        oid,
        status.head,
        tree=tree,
        is_clean=False,
        left_out=tuple(status.foreign_paths),
        unreadable_folders=status.unreadable_folders,
        nested=tuple(_nested_repositories(status)),
    )


async def _capture_tree_files(worktree: Worktree, message: str, tree: str) -> WorktreeSnapshot:
    """Save the current content of the files in a tree. Other files are ignored."""
    with _copy_index(worktree.must_be_ours()) as index:
        env = {"GIT_INDEX_FILE": index, **SNAPSHOT_IDENTITY}
        await worktree.git.execute("read-tree", "--reset", tree, extra_env=env)
        await worktree.git.execute(*_ADD_OPTIONS, "add", "--update", "--sparse", "--", ":/", extra_env=env)
        head = str(await worktree.head_commit())
        current_tree = (await worktree.git.execute("write-tree", extra_env=env)).text
        oid = (await worktree.git.execute("commit-tree", f"-p{head}", "-m", message, current_tree, extra_env=env)).text
    return WorktreeSnapshot(oid, head, is_clean=False, tree=current_tree)


async def _commit_index_copy(
    git: Git, status: Status, staged: str | None, message: str, environment: dict[str, str]
) -> tuple[str, str]:
    """Return the commit and its tree."""
    await git.execute(
        *_ADD_OPTIONS, "add", "--all", "--sparse", "--", ":/", *excluded_pathspecs(status), extra_env=environment
    )
    tree = (await git.execute("write-tree", extra_env=environment)).text
    parents = [f"-p{parent}" for parent in (status.head, staged) if parent is not None]
    return (await git.execute("commit-tree", *parents, "-m", message, tree, extra_env=environment)).text, tree


def excluded_pathspecs(status: Status) -> list[str]:
    """Return pathspecs that exclude files of a killed write and nested repositories from every `git add` of ours.

    Git would turn a nested repository into a submodule, or fail.
    """
    return [f":(exclude,top,literal){path}" for path in (*status.half_written, *_nested_repositories(status))]


def _nested_repositories(status: Status) -> list[str]:
    return [change.path for change in status.changes if change.status == "??" and change.is_foreign]


async def _commit_staged(git: Git, status: Status, environment: dict[str, str]) -> str | None:
    """Commit what is staged; None when nothing is, or the index has conflicts."""
    if not any(change.is_staged for change in status.changes) or status.unmerged_paths:
        return None
    tree = (await git.execute("write-tree", extra_env=environment)).text
    parents = [f"-p{status.head}"] if status.head is not None else []
    return (await git.execute("commit-tree", *parents, "-m", "What was staged", tree, extra_env=environment)).text


async def restore_snapshot(worktree: Worktree, oid: str) -> None:
    """Restore the files and the index from a snapshot. The branch does not move.

    Overwrites the current files: the caller has saved them.
    """
    await worktree.must_be_on_branch()
    parents = await _parents_of_snapshot(worktree.git, oid)
    await worktree.git.execute("read-tree", "--reset", "-u", f"{oid}^{{tree}}")
    if parents:
        await _write_outside_sparse_checkout(worktree, parents[0], oid)
    await worktree.git.execute("clean", "-d", "--force", "--quiet")
    await worktree.git.execute("read-tree", "--reset", _index_tree(parents))
    await worktree.git.run("update-index", "--refresh", "-q")


async def _parents_of_snapshot(git: Git, oid: str) -> list[str]:
    """Return HEAD at the time of the snapshot, and the commit of what was staged; none for another kind of commit."""
    answer = await git.query("show", "--no-patch", "--no-show-signature", "--format=%ce %P", oid)
    email, *parents = answer.text.split(" ")
    return parents if email == SNAPSHOT_IDENTITY["GIT_COMMITTER_EMAIL"] else []


def _index_tree(parents: list[str]) -> str:
    """Return the tree of the index: HEAD's when nothing was staged."""
    return f"{parents[1] if parents[1:] else 'HEAD'}^{{tree}}"


async def _write_outside_sparse_checkout(worktree: Worktree, head: str, oid: str) -> None:
    """Write the snapshot's files that lie outside of a sparse checkout, which git does not check out."""
    if (await worktree.git.run("config", "--type=bool", "core.sparseCheckout")).text == "true":
        changed = ("diff-tree", "-r", "-z", "--name-only", "--no-renames", "--diff-filter=d", head, oid)
        paths = (await worktree.git.query(*changed)).stdout
        write = ("checkout-index", "--force", "--ignore-skip-worktree-bits", "-z", "--stdin")
        await worktree.git.execute(*write, stdin=paths)


async def snapshot_head(repository: Repository, oid: str) -> str:
    """Return HEAD of the worktree at the time of a snapshot."""
    parents = await _parents_of_snapshot(repository.git, oid)
    return parents[0] if parents else oid


async def flatten_snapshot(repository: Repository, oid: str) -> str:
    """Return a snapshot as one commit on its HEAD, without the parent for staged files; any other commit unchanged."""
    parents = await _parents_of_snapshot(repository.git, oid)
    if not parents[1:]:
        return oid
    show = ("show", "--no-patch", "--no-show-signature", "--format=%cI%n%T%n%B", oid)
    time, tree, *message = (await repository.git.query(*show)).lines
    env = {**SNAPSHOT_IDENTITY, "GIT_AUTHOR_DATE": time, "GIT_COMMITTER_DATE": time}
    options = (f"-p{parents[0]}", f"-m{chr(10).join(message)}")
    return (await repository.git.execute("commit-tree", *options, tree, extra_env=env)).text


async def is_restored(worktree: Worktree, oid: str) -> bool:
    """True when files and index match the snapshot."""
    return await _matches(worktree, await capture(worktree, _CURRENT_STATE_MESSAGE), oid)


async def is_fully_saved(worktree: Worktree, oid: str) -> bool:
    """True when files and index match the snapshot, and nothing in the worktree is outside of snapshots."""
    current = await capture(worktree, _CURRENT_STATE_MESSAGE)
    return not current.left_out and not current.unreadable_folders and await _matches(worktree, current, oid)


async def _matches(worktree: Worktree, snapshot: WorktreeSnapshot, oid: str) -> bool:
    indexes = [_index_tree(await _parents_of_snapshot(worktree.git, commit)) for commit in (snapshot.oid, oid)]
    trees = (await worktree.git.query("rev-parse", f"{snapshot.oid}^{{tree}}", f"{oid}^{{tree}}", *indexes)).lines
    return trees[0] == trees[1] and trees[2] == trees[3]


async def save(worktree: Worktree, ref: str, message: str) -> str | None:
    """Save a worktree's state before it is overwritten. Returns the ref; None when its branch has everything.

    Does not overwrite an earlier save under that ref. Raises `Denied` when something cannot be saved.
    """
    snapshot = await capture(worktree, message)
    if snapshot.left_out:
        raise Denied(
            f"cannot save {worktree.path}: it contains repositories with uncommitted work "
            f"({', '.join(snapshot.left_out)}); move them away, or commit and push them, and try again"
        )
    if snapshot.unreadable_folders:
        raise Denied(
            f"cannot save {worktree.path}: it contains unreadable folders "
            f"({', '.join(snapshot.unreadable_folders)}); make them readable, or move them away, and try again"
        )
    return await worktree.repository.save_ref(ref, snapshot.oid) if await is_only_here(worktree, snapshot.oid) else None


async def save_autostash(worktree: Worktree, ref: str) -> str | None:
    """Save what a merge or rebase in progress has stashed. Returns the ref, if there was something."""
    return await _save_autostash_in(worktree.must_be_ours(), worktree.repository, ref)


async def _save_autostash_in(git_dir: str, repository: Repository, ref: str) -> str | None:
    saved = None
    for name in ("MERGE_AUTOSTASH", "rebase-merge/autostash", "rebase-apply/autostash"):
        stash = read_pointer(os.path.join(git_dir, name), allow_relative=True)
        if stash is not None and OBJECT_ID.fullmatch(stash) and await repository.commit_of(stash) is not None:
            saved = await repository.save_ref(ref, stash)
    return saved


async def save_deleted(worktree: Worktree, ref: str, last_snapshot: str | None) -> str | None:
    """Save what is left of a worktree whose folder was deleted. Returns the ref; None when its branch has everything.

    That is its last snapshot, and what its entry in the repository still has: HEAD, the index and an autostash.
    """
    saved = None
    if last_snapshot is not None and await is_only_here(worktree, last_snapshot):
        saved = await worktree.repository.save_ref(ref, last_snapshot)
    for entry in entries_of(worktree.repository.common_dir, worktree.path):
        saved = await _save_autostash_in(entry, worktree.repository, ref) or saved
        git = Git(entry, env_markers={**worktree.repository.env_markers, "GIT_DIR": entry})
        head = await _head_of(worktree.repository, git)
        oid = await _commit_index(git, head) if head is not None else None
        if oid is not None and await is_only_here(worktree, oid):
            saved = await worktree.repository.save_ref(ref, oid)
    return saved


async def _head_of(repository: Repository, git: Git) -> str | None:
    """Return HEAD of an entry without a folder; None when it is half written or damaged, or its branch is missing."""
    head, common = read_pointer(os.path.join(git.folder, "HEAD"), allow_relative=True), commondir_of(git.folder)
    if head is None or common != os.path.realpath(repository.common_dir):
        return None
    if not (head.startswith(_SYMREF_PREFIX) or OBJECT_ID.fullmatch(head)):
        return None
    try:
        commit = await commit_of(git, "HEAD")
    except GitFailed as error:
        if isinstance(error, GitKilled) or not error.is_damage:
            raise
        return None
    ref = os.path.join(repository.common_dir, head.removeprefix("ref: "))
    return await commit_of(git, "HEAD") if commit is None and is_readable(ref) else commit


async def is_only_here(worktree: Worktree, commit: str) -> bool:
    """True when the repository has the commit, and the worktree's branch does not contain it."""
    repository = worktree.repository
    tip = await repository.commit_of(f"refs/heads/{worktree.branch}")
    if tip == commit or await repository.commit_of(commit) is None:
        return False
    return tip is None or not await repository.is_ancestor(commit, tip)


async def _commit_index(git: Git, head: str) -> str:
    """Commit an index without a folder; returns HEAD when nothing else is staged, or no tree can be written."""
    if not is_readable(os.path.join(git.folder, "index")):
        return head
    staged = await git.try_execute("write-tree")
    if staged.code and await _is_index_complete(git):
        raise GitFailed("write-tree", staged.code, staged.stderr)
    if staged.code or staged.text == (await git.query("rev-parse", f"{head}^{{tree}}")).text:
        return head
    message = "Staged files of a worktree whose folder was deleted"
    return (await git.execute("commit-tree", f"-p{head}", "-m", message, staged.text, extra_env=SNAPSHOT_IDENTITY)).text


async def _is_index_complete(git: Git) -> bool:
    """True when the index is readable, has no conflicts and all its objects: then only the disk can have failed."""
    try:
        return not (await git.query("ls-files", "--unmerged")).stdout and not await missing_index_paths(git)
    except GitKilled:
        raise
    except GitFailed:
        return False


async def unregistered_repositories(repository: Repository, base: str, tree: str) -> list[str]:
    """Return nested repositories that were added since `base` without being registered as submodules.

    The tree holds only the id of their commit, not their files.
    """
    fields = await repository.raw_diff(base, tree)
    links = [path for info, path in zip(fields[::2], fields[1::2], strict=False) if info.split(" ")[1] == _GITLINK_MODE]
    if not links:
        return []
    config = ("config", "--blob", f"{tree}:.gitmodules", "--null", "--get-regexp", r"^submodule\..*\.path$")
    registered = {field.partition("\n")[2].rstrip("/") for field in (await repository.git.run(*config)).fields()}
    return [path for path in links if path not in registered]


async def diff(repository: Repository, old: str, new: str, *options: str, paths: tuple[str, ...] = ()) -> bytes:
    """Return the diff between two snapshots or commits, independent of the user's diff settings."""
    plain_options = (
        "--no-ext-diff",
        "--no-textconv",
        "--no-color",
        "--no-relative",
        "--src-prefix=a/",
        "--dst-prefix=b/",
    )
    answer = await repository.git.query("diff", *plain_options, *options, "--end-of-options", old, new, "--", *paths)
    return answer.stdout


async def changed_files(repository: Repository, old: str, new: str) -> list[str]:
    """Return the paths that differ between two commits or trees."""
    return (await repository.raw_diff(old, new))[1::2]


@contextmanager
def _copy_index(git_dir: str) -> Iterator[str]:
    """Copy the index with its mtime: git takes a file that is older than its index for unchanged."""
    with tempfile.TemporaryDirectory(prefix=INDEX_COPY, dir=git_dir) as folder:
        copy = os.path.join(folder, "index")
        original = os.path.join(git_dir, "index")
        if os.path.exists(original):
            shutil.copy2(original, copy)
        yield copy
