"""The whole state of a worktree — staged, unstaged, untracked, not ignored — as a commit under our own refs.

The worktree is not disturbed: a copy of its index takes in everything, so git's knowledge of what is unchanged
makes it about as cheap as `git status`. A clean worktree needs no commit: its snapshot is HEAD. Otherwise the
commit's tree is the files as they are, its first parent is HEAD, and where something was staged its second parent
holds the index. Repositories inside the worktree are named, for what they hold beyond their own commits is not in it.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from holdfast.git.locks import INDEX_COPY
from holdfast.git.missing_objects import lost_of_index
from holdfast.git.process import Git, GitFailed, GitKilled
from holdfast.git.repository import OBJECT, Repository, commit_of
from holdfast.git.worktree_admin import can_be_read, commondir_of, entries_of, pointed_at
from holdfast.git.worktrees.worktree import Status, Worktree, status_of
from holdfast.leaf.errors import Denied

PLUMBING = {
    "GIT_AUTHOR_NAME": "Holdfast",
    "GIT_AUTHOR_EMAIL": "snapshot@holdfast.localhost",
    "GIT_COMMITTER_NAME": "Holdfast",
    "GIT_COMMITTER_EMAIL": "snapshot@holdfast.localhost",  # of no other commit: it tells a snapshot from a merge
}
_ON_BRANCH = "ref: refs/"
_GITLINK = "160000"  # the mode of an entry that is another repository's commit
_NOW = "As it is now"
_ADDING = ("-c", "advice.addEmbeddedRepo=false", "-c", "core.safecrlf=false")


class Snapshot(NamedTuple):
    """`left_out` are repositories inside the worktree, of which no more than the commit they are at is saved.

    `nested` are those of them that are no submodules: not even that commit is. `unseen` are folders that git could
    not look into, of which nothing is.
    """

    oid: str
    head: str | None
    clean: bool
    left_out: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()
    nested: tuple[str, ...] = ()


async def take_snapshot(worktree: Worktree, ref: str, message: str, within: str | None = None) -> Snapshot:
    """Save the worktree's state under a ref, which is made or moved; of the files of the tree `within` alone."""
    snapshot = await capture(worktree, message) if within is None else await _capture_of(worktree, message, within)
    await worktree.repository.set_ref(ref, snapshot.oid)
    return snapshot


async def capture(worktree: Worktree, message: str) -> Snapshot:
    """The worktree's state as a commit that no ref holds yet."""
    git_dir = worktree.must_be_ours()
    status = await status_of(worktree)
    if status.clean and status.head is not None:
        return Snapshot(status.head, status.head, clean=True, unseen=status.unseen)
    with _copy_of_index(git_dir) as index:
        using = {"GIT_INDEX_FILE": index, **PLUMBING}
        staged = await _staged(worktree.git, status, using)
        oid = await _committed(worktree.git, status, staged, message, using)
    return Snapshot(
        oid,
        status.head,
        clean=False,
        left_out=tuple(status.foreign),
        unseen=status.unseen,
        nested=tuple(_nested(status)),
    )


async def _capture_of(worktree: Worktree, message: str, tree: str) -> Snapshot:
    """How the files of a tree are now: changed or deleted since. Others are not looked at."""
    with _copy_of_index(worktree.must_be_ours()) as index:
        using = {"GIT_INDEX_FILE": index, **PLUMBING}
        await worktree.git.do("read-tree", "--reset", tree, more=using)
        await worktree.git.do(*_ADDING, "add", "--update", "--sparse", "--", ":/", more=using)
        head = (await worktree.git.ask("rev-parse", "HEAD")).text
        now = (await worktree.git.do("write-tree", more=using)).text
        oid = (await worktree.git.do("commit-tree", f"-p{head}", "-m", message, now, more=using)).text
    return Snapshot(oid, head, clean=False)


async def _committed(git: Git, status: Status, staged: str | None, message: str, using: dict[str, str]) -> str:
    await git.do(*_ADDING, "add", "--all", "--sparse", "--", ":/", *excluded(status), more=using)
    tree = (await git.do("write-tree", more=using)).text
    parents = [f"-p{parent}" for parent in (status.head, staged) if parent is not None]
    return (await git.do("commit-tree", *parents, "-m", message, tree, more=using)).text


def excluded(status: Status) -> list[str]:
    """What no `git add` of ours takes, as pathspecs: files that a killed write left, and nested repositories.

    These are no submodules: git would make them such, or fail at them.
    """
    return [f":(exclude,top,literal){path}" for path in (*status.half_written, *_nested(status))]


def _nested(status: Status) -> list[str]:
    return [change.path for change in status.changes if change.status == "??" and change.foreign]


async def _staged(git: Git, status: Status, using: dict[str, str]) -> str | None:
    """A commit of what was staged; None when nothing was, or a conflict is still in the index."""
    if not any(change.staged for change in status.changes) or status.unmerged:
        return None
    tree = (await git.do("write-tree", more=using)).text
    parents = [f"-p{status.head}"] if status.head is not None else []
    return (await git.do("commit-tree", *parents, "-m", "What was staged", tree, more=using)).text


async def restore_snapshot(worktree: Worktree, oid: str) -> None:
    """Bring the files, and what was staged, back to a snapshot.

    What stands there now must have been saved before: this overwrites it. The branch stays where it is.
    """
    await worktree.must_be_on_branch()
    parents = await _parents_of_snapshot(worktree.git, oid)
    await worktree.git.do("read-tree", "--reset", "-u", f"{oid}^{{tree}}")
    if parents:
        await _write_outside_the_sparse_checkout(worktree, parents[0], oid)
    await worktree.git.do("clean", "-d", "--force", "--quiet")
    await worktree.git.do("read-tree", "--reset", _index_of(parents))
    await worktree.git.run("update-index", "--refresh", "-q")


async def _parents_of_snapshot(git: Git, oid: str) -> list[str]:
    """The commit it was taken at, and what was staged; none when it is another kind of commit."""
    answer = await git.ask("show", "--no-patch", "--no-show-signature", "--format=%ce %P", oid)
    email, *parents = answer.text.split(" ")
    return parents if email == PLUMBING["GIT_COMMITTER_EMAIL"] else []


def _index_of(parents: list[str]) -> str:
    """The tree of what was staged: HEAD's when nothing was."""
    return f"{parents[1] if parents[1:] else 'HEAD'}^{{tree}}"


async def _write_outside_the_sparse_checkout(worktree: Worktree, head: str, oid: str) -> None:
    """A sparse checkout holds back all that lies outside of it: also what the snapshot had found there."""
    if (await worktree.git.run("config", "--type=bool", "core.sparseCheckout")).text == "true":
        names = ("diff-tree", "-r", "-z", "--name-only", "--no-renames", "--diff-filter=d", head, oid)
        found = (await worktree.git.ask(*names)).out
        writing = ("checkout-index", "--force", "--ignore-skip-worktree-bits", "-z", "--stdin")
        await worktree.git.do(*writing, given=found)


async def taken_at(repository: Repository, oid: str) -> str:
    """The commit that a worktree was at when a snapshot was taken of it."""
    parents = await _parents_of_snapshot(repository.git, oid)
    return parents[0] if parents else oid


async def flattened(repository: Repository, oid: str) -> str:
    """A snapshot as one commit on its HEAD, without what was staged; any other commit as it is."""
    parents = await _parents_of_snapshot(repository.git, oid)
    if not parents[1:]:
        return oid
    form = ("show", "--no-patch", "--no-show-signature", "--format=%cI%n%T%n%B", oid)
    when, tree, *text = (await repository.git.ask(*form)).lines
    using = {**PLUMBING, "GIT_AUTHOR_DATE": when, "GIT_COMMITTER_DATE": when}
    return (await repository.git.do("commit-tree", f"-p{parents[0]}", f"-m{chr(10).join(text)}", tree, more=using)).text


async def is_restored(worktree: Worktree, oid: str) -> bool:
    """True when the files, and what is staged, are those of the snapshot."""
    return await _is_as(worktree, await capture(worktree, _NOW), oid)


async def is_all_in(worktree: Worktree, oid: str) -> bool:
    """The same; and there is nothing that no snapshot has."""
    now = await capture(worktree, _NOW)
    return not now.left_out and not now.unseen and await _is_as(worktree, now, oid)


async def _is_as(worktree: Worktree, snapshot: Snapshot, oid: str) -> bool:
    now = snapshot.oid
    indexes = [_index_of(await _parents_of_snapshot(worktree.git, each)) for each in (now, oid)]
    trees = (await worktree.git.ask("rev-parse", f"{now}^{{tree}}", f"{oid}^{{tree}}", *indexes)).lines
    return trees[0] == trees[1] and trees[2] == trees[3]


async def save(worktree: Worktree, ref: str, message: str) -> str | None:
    """Before something forceful: the ref under which a worktree's state was saved; None when its branch has it all.

    What was saved under that ref before is not overwritten. `Denied` when something in it cannot be saved.
    """
    snapshot = await capture(worktree, message)
    if snapshot.left_out:
        raise Denied(
            f"{worktree.path} holds repositories of its own with work in them ({', '.join(snapshot.left_out)}), "
            "which cannot be saved with it; move them away, or commit and push them, and try again"
        )
    if snapshot.unseen:
        raise Denied(
            f"{worktree.path} holds folders that cannot be read ({', '.join(snapshot.unseen)}), and so not be saved; "
            "let them be read, or move them away, and try again"
        )
    return await worktree.repository.keep(ref, snapshot.oid) if await is_nowhere_else(worktree, snapshot.oid) else None


async def save_autostash(worktree: Worktree, ref: str) -> str | None:
    """What a merge or a rebase that is under way has put aside."""
    return await _save_autostash_in(worktree.must_be_ours(), worktree.repository, ref)


async def _save_autostash_in(own: str, repository: Repository, ref: str) -> str | None:
    saved = None
    for name in ("MERGE_AUTOSTASH", "rebase-merge/autostash", "rebase-apply/autostash"):
        aside = pointed_at(os.path.join(own, name), relative=True)
        if aside is not None and OBJECT.fullmatch(aside) and await repository.commit_of(aside) is not None:
            saved = await repository.keep(ref, aside)
    return saved


async def save_deleted(worktree: Worktree, ref: str, last: str | None) -> str | None:
    """What there is still of a worktree whose folder is gone: its last snapshot, and what git has of it.

    That is the commit it was at, what was staged or put aside. The ref under which it was saved; None when its branch
    has it all.
    """
    saved = None
    if last is not None and await is_nowhere_else(worktree, last):
        saved = await worktree.repository.keep(ref, last)
    for entry in entries_of(worktree.repository.common_dir, worktree.path):
        saved = await _save_autostash_in(entry, worktree.repository, ref) or saved
        git = Git(entry, mark={**worktree.repository.mark, "GIT_DIR": entry})
        head = await _head_of(worktree.repository, git)
        oid = await _staged_in(git, head) if head is not None else None
        if oid is not None and await is_nowhere_else(worktree, oid):
            saved = await worktree.repository.keep(ref, oid)
    return saved


async def _head_of(repository: Repository, git: Git) -> str | None:
    """Of an entry without a folder; None of one that is half written or damaged, or is on a branch that is gone."""
    head, common = pointed_at(os.path.join(git.place, "HEAD"), relative=True), commondir_of(git.place)
    if head is None or common != os.path.realpath(repository.common_dir):
        return None
    if not (head.startswith(_ON_BRANCH) or OBJECT.fullmatch(head)):
        return None
    try:
        commit = await commit_of(git, "HEAD")
    except GitFailed as error:
        if isinstance(error, GitKilled) or not error.is_of_damage:
            raise
        return None
    ref = os.path.join(repository.common_dir, head.removeprefix("ref: "))
    return await commit_of(git, "HEAD") if commit is None and can_be_read(ref) else commit


async def is_nowhere_else(worktree: Worktree, commit: str) -> bool:
    """Git has it, and the worktree's branch has not."""
    repository = worktree.repository
    if await repository.commit_of(commit) is None:
        return False
    on_branch = await repository.commit_of(f"refs/heads/{worktree.branch}")
    return on_branch is None or not await repository.is_ancestor(commit, on_branch)


async def _staged_in(git: Git, head: str) -> str:
    """A commit of what is staged in an index without a folder; HEAD when that is all there is, or no tree can be."""
    if not can_be_read(os.path.join(git.place, "index")):
        return head
    staged = await git.try_to("write-tree")
    if staged.code and await _is_all_there(git):
        raise GitFailed("write-tree", staged.code, staged.said)
    if staged.code or staged.text == (await git.ask("rev-parse", f"{head}^{{tree}}")).text:
        return head
    message = "What was staged in a worktree whose folder was deleted"
    return (await git.do("commit-tree", f"-p{head}", "-m", message, staged.text, more=PLUMBING)).text


async def _is_all_there(git: Git) -> bool:
    """What is staged can be read, has no conflicts, and git has all that it names: then nothing but the disk fails."""
    try:
        return not (await git.ask("ls-files", "--unmerged")).out and not await lost_of_index(git)
    except GitKilled:
        raise
    except GitFailed:
        return False


async def unregistered(repository: Repository, base: str, tree: str) -> list[str]:
    """Repositories that were added as they stand since `base`: the tree has no more than the name of their commit.

    Not those that `.gitmodules` names: these are submodules.
    """
    answer = await repository.git.ask("diff-tree", "-r", "-z", "--no-renames", "--raw", base, tree)
    fields = answer.fields()
    links = [path for about, path in zip(fields[::2], fields[1::2], strict=False) if about.split(" ")[1] == _GITLINK]
    if not links:
        return []
    config = ("config", "--blob", f"{tree}:.gitmodules", "--null", "--get-regexp", r"^submodule\..*\.path$")
    registered = {field.partition("\n")[2].rstrip("/") for field in (await repository.git.run(*config)).fields()}
    return [path for path in links if path not in registered]


async def diff(repository: Repository, old: str, new: str, *options: str) -> bytes:
    """What changed between any two snapshots or commits."""
    plain = (
        "--no-ext-diff",
        "--no-textconv",
        "--no-color",
        "--no-relative",
        "--src-prefix=a/",
        "--dst-prefix=b/",
    )
    answer = await repository.git.ask("diff", *plain, *options, "--end-of-options", old, new, "--")
    return answer.out


async def changed_files(repository: Repository, old: str, new: str) -> list[str]:
    """The paths that differ between two commits."""
    names = await diff(repository, old, new, "--name-only", "--no-renames", "-z")
    return [os.fsdecode(name) for name in names.split(b"\0") if name]


@contextmanager
def _copy_of_index(git_dir: str) -> Iterator[str]:
    """A copy beside the index, of the same age: git takes a file that is older than its index for unchanged."""
    with tempfile.TemporaryDirectory(prefix=INDEX_COPY, dir=git_dir) as folder:
        copy = os.path.join(folder, "index")
        original = os.path.join(git_dir, "index")
        if os.path.exists(original):
            shutil.copy2(original, copy)
        yield copy
