"""Commits of a run: one a task, of the tree that was checked, with trailers that say whose they are.

A commit can be found again by its effect's id, whatever happened to the process that made it.
"""

import os
import re
from collections.abc import Sequence
from typing import NamedTuple

from holdfast.core.log.anchors import CHAIN, RUN, Anchor
from holdfast.git.process import Git, GitFailed, GitKilled
from holdfast.git.repository import Repository
from holdfast.git.snapshot import excluded
from holdfast.git.worktrees.head import attach, head_of
from holdfast.git.worktrees.in_progress import merge_head
from holdfast.git.worktrees.worktree import Status, Worktree, status_of
from holdfast.leaf.errors import Denied, HoldfastError

TASK, EFFECT = "Holdfast-Task", "Holdfast-Effect"

_HOOKS = ("pre-commit", "prepare-commit-msg", "commit-msg", "pre-merge-commit")
_HOOK_KILLED = re.compile(rf"^error: .*\b({'|'.join(_HOOKS)}) died of signal (1|2|9|15)$", re.MULTILINE)
_BOTH_HAVE_IT = frozenset({"UU", "AA"})  # conflicts in which git writes both sides into the file
ANY = "[0-9a-f]*"  # an effect's id, as a pattern
_REFUSED = 1  # git's exit code after a hook said no; its own errors give another
_LAST = ("log", "--max-count=1", "--no-show-signature")
_FALLBACK_IDENTITY = ("-c", "user.name=Holdfast", "-c", "user.email=holdfast@localhost")


class HookRefused(HoldfastError):
    """The user's hook said no. A finding for whoever did the work; the work itself is where it was."""

    def __init__(self, said: str) -> None:
        super().__init__(f"a commit hook refused: {' '.join(said.split()) or 'it said nothing'}")
        self.said = said


class Unresolved(HoldfastError):
    """Files still hold conflict markers. A finding for whoever resolves them."""

    def __init__(self, paths: list[str]) -> None:
        super().__init__(
            f"conflicts are not resolved yet in {', '.join(paths)}; nothing was committed. "
            "Where git left no markers, `git add` or `git rm` says that a file is as it should be"
        )
        self.paths = paths


def one_line(text: str) -> str:
    """As a subject or a trailer can carry it, whatever is in it."""
    return " ".join(_plain(text).split())


def _plain(text: str) -> str:
    """Without what git takes in no message: a NUL, half of a character."""
    return text.replace("\0", " ").encode(errors="backslashreplace").decode()


class Signature(NamedTuple):
    """What the trailers of a commit say."""

    run: str
    effect: str
    task: str | None = None
    anchor: Anchor | None = None

    def trailers(self) -> str:
        named = {RUN: self.run, TASK: self.task, EFFECT: self.effect, CHAIN: self.anchor}
        return "\n".join(f"{name}: {one_line(str(value))}" for name, value in named.items() if value is not None)


class Ground(NamedTuple):
    """What a task's commits stand on: the commit that its branch began at, and the ref for commits taken back.

    `theirs` is a commit of a person that stays as it is; `unchecked` one of ours whose tree was not the checked one,
    and which the next takes the place of; `agents` are branches that the task's agent made.
    """

    base: str
    taken_back: str
    theirs: str | None = None
    unchecked: str | None = None
    agents: tuple[str, ...] = ()


class Captured(NamedTuple):
    """The tree that was checked; and the commit that HEAD was at, and that was being merged, when it was captured."""

    tree: str
    head: str | None = None
    merging: str | None = None


async def commit_all(
    worktree: Worktree, ground: Ground, message: str, signature: Signature, *, hooks: bool = True
) -> str | None:
    """Commit everything since `base` that is not ignored, as one commit; None when there is nothing. Returns it.

    What an agent committed by itself becomes part of it, unless it merged something. `hooks` runs the user's, as
    their own commit would. The placeholder of a failed task runs none: what a hook would refuse is just what must be
    kept.
    """
    own = await worktree.must_be_on_branch()
    status = await _status_on_branch(worktree)
    done = await find_commit(worktree, ground.base, signature.effect) if status.head != ground.base else None
    if done is not None:
        return done
    merging = merge_head(own) is not None
    await _must_be_resolved(worktree, status, merging=merging)
    await _stage_everything(worktree, status)
    squashed = not merging and await _go_back_to(worktree, ground, status.head)
    if not squashed and not merging and not any(change.staged for change in (await status_of(worktree)).changes):
        return None
    return await _committed(worktree, message, signature, status.head if squashed else None, hooks=hooks)


async def commit_captured(
    worktree: Worktree, ground: Ground, message: str, signature: Signature, captured: Captured
) -> str | None:
    """The same with exactly the tree that was checked, whatever came into the worktree or on its branch since.

    The user's hooks may change what is committed: whoever calls compares.
    """
    if not (await head_of(worktree)).is_on_own:
        await attach(worktree)  # whoever moved HEAD since did not move what was checked
    own = await worktree.must_be_on_branch()
    status = await _status_on_branch(worktree)
    done = await find_commit(worktree, ground.base, signature.effect) if status.head != ground.base else None
    if done is not None:
        return done
    if ground.unchecked is not None and await _is_of(worktree, ground.unchecked, captured.tree):
        return await _as_captured(worktree, ground, own, status.head, captured._replace(head=ground.unchecked))
    head = await _as_captured(worktree, ground, own, status.head, captured)
    merging = captured.merging is not None and merge_head(own) is not None
    await _must_be_resolved(worktree, status, merging=merging, tree=captured.tree)
    await stage_tree(worktree, captured.tree)
    squashed = not merging and await _go_back_to(worktree, ground, head)
    if not squashed and not merging and captured.tree == await tree_of(worktree.git, "HEAD"):
        return None
    return await _committed(worktree, message, signature, head if squashed else None)


async def _status_on_branch(worktree: Worktree) -> Status:
    status = await status_of(worktree)
    if status.head is None:
        raise Denied(f"the branch {worktree.branch} is gone; `holdfast doctor --fix` makes it again")
    return status


async def _as_captured(worktree: Worktree, ground: Ground, own: str, head: str | None, captured: Captured) -> str:
    """Set the branch back to where it was: a merge that came since would make of the tree one that undoes it."""
    assert head is not None
    if merge_head(own) not in (None, captured.merging):
        await worktree.git.do("merge", "--quit")
    if captured.head in (None, head) or await worktree.repository.commit_of(str(captured.head)) is None:
        return head
    if not await worktree.repository.is_ancestor(head, str(captured.head)):
        await worktree.repository.keep(f"{ground.taken_back}-since", head)
    await worktree.git.do("reset", "--quiet", "--soft", str(captured.head))
    return str(captured.head)


async def _committed(
    worktree: Worktree, message: str, signature: Signature, squashed: str | None, *, hooks: bool = True
) -> str:
    """Commit what is staged. When that fails, the branch goes back to what was `squashed`."""
    text = f"{_plain(message).strip()}\n\n{signature.trailers()}"
    options = ["--quiet", "--allow-empty", "--cleanup=whitespace", "--file=-", *([] if hooks else ["--no-verify"])]
    try:
        await worktree.git.do(
            *await identity(worktree.repository, worktree.git), "commit", *options, given=text.encode()
        )
    except GitKilled:
        raise
    except GitFailed as error:
        if squashed is not None:
            await worktree.git.do("reset", "--quiet", "--soft", squashed)
        if hooks and await is_a_hooks_doing(worktree, error):
            raise HookRefused(error.said) from None
        raise
    return (await worktree.git.ask("rev-parse", "HEAD")).text


async def tree_of(git: Git, name: str) -> str:
    return (await git.ask("rev-parse", "--verify", f"{name}^{{tree}}")).text


async def _is_of(worktree: Worktree, commit: str | None, tree: str) -> bool:
    """A commit that is there, of this tree."""
    if commit is None or await worktree.repository.commit_of(commit) is None:
        return False
    return await tree_of(worktree.git, commit) == tree


async def stage_tree(worktree: Worktree, tree: str) -> None:
    """Stage exactly this. The files stay as they are."""
    await worktree.git.do("read-tree", "--reset", tree)
    await worktree.git.try_to("update-index", "--refresh", "-q")  # its code tells of files that differ


async def _stage_everything(worktree: Worktree, status: Status) -> None:
    """All that is work, and not ignored."""
    adding = ("-c", "advice.addEmbeddedRepo=false", "add", "--all", "--sparse", "--", ":/")
    await worktree.git.do(*adding, *excluded(status))


async def _said_to_be_resolved(worktree: Worktree) -> list[str]:
    """The conflicts that somebody staged, as an agent does that stages all it sees."""
    answer = await worktree.git.ask("ls-files", "--resolve-undo", "-z")
    return list(dict.fromkeys(entry.partition("\t")[2] for entry in answer.fields()))


async def unresolved(worktree: Worktree) -> list[str]:
    """The files over which a commit would refuse now: their conflicts are still there."""
    own = worktree.must_be_ours()
    return await _unresolved(worktree, await status_of(worktree), merging=merge_head(own) is not None)


async def _must_be_resolved(worktree: Worktree, status: Status, *, merging: bool, tree: str | None = None) -> None:
    """Refuses while a conflict is not: staging it would call it resolved."""
    left = await _unresolved(worktree, status, merging=merging, tree=tree)
    if left:
        raise Unresolved(left)


async def _unresolved(worktree: Worktree, status: Status, *, merging: bool, tree: str | None = None) -> list[str]:
    """No file may hold markers that it did not hold before. Where git writes none, somebody must have staged it."""
    staged = await _said_to_be_resolved(worktree) if merging else []
    kinds = {change.path: change.status for change in status.changes}
    left = [path for path in status.unmerged if kinds[path] not in _BOTH_HAVE_IT]
    for path in [*status.unmerged, *staged]:
        content = await _content(worktree, path, tree)
        is_no_text = path in status.unmerged and b"\0" in (content or b"\0")[:8000]  # as git tells it
        if path not in left and (is_no_text or await _has_new_markers(worktree, path, content)):
            left.append(path)
    return left


async def _has_new_markers(worktree: Worktree, path: str, content: bytes | None) -> bool:
    """Both ends of a conflict: a line of `=======` alone is a heading in many a text."""
    if not _has_markers(content or b""):
        return False
    before = await worktree.git.run("cat-file", "blob", f"HEAD:{path}")
    return not _has_markers(before.out)


def _has_markers(content: bytes) -> bool:
    lines = content.splitlines()
    return all(any(line.startswith(end) for line in lines) for end in (b"<<<<<<<", b">>>>>>>"))


async def _content(worktree: Worktree, path: str, tree: str | None) -> bytes | None:
    if tree is not None:
        answer = await worktree.git.run("cat-file", "blob", f"{tree}:{path}")
        return answer.out if answer.code == 0 else None
    try:
        with open(os.path.join(worktree.path, path), "rb") as file:
            return file.read()
    except OSError:
        return None


async def _go_back_to(worktree: Worktree, ground: Ground, head: str | None) -> bool:
    """Take back the commits since the last of ours, their content staying staged, so that one commit holds it all.

    Not when one of them is a merge (it says more than its content), or `base` is not behind them any more.
    """
    repository = worktree.repository
    if head is None or head == ground.base or not await repository.is_ancestor(ground.base, head):
        return False
    base = await _last_of_ours(worktree, ground) or ground.base
    base = await repository.newest_shared(base, head, ground.agents) or base
    if ground.theirs is not None and await _is_between(repository, base, ground.theirs, head):
        base = ground.theirs
    if base == head:
        return False
    if (await repository.git.ask("rev-list", "--merges", "--max-count=1", f"{base}..{head}")).text:
        return False
    await repository.keep(ground.taken_back, head)
    await worktree.git.do("reset", "--quiet", "--soft", base)
    return True


async def commit_tree(repository: Repository, tree: str, parents: Sequence[str], text: str) -> str:
    """A commit that no branch has yet, made without a worktree: by the user, and signed where theirs are. No hooks."""
    known = await identity(repository, repository.git)
    signing = (await repository.git.run("config", "--type=bool", "commit.gpgSign")).text == "true"
    named = [f"-p{parent}" for parent in parents]
    return (
        await repository.git.do(*known, "commit-tree", *(["-S"] if signing else []), *named, f"-m{text}", tree)
    ).text


async def _last_of_ours(worktree: Worktree, ground: Ground) -> str | None:
    """The newest that carries an effect's id. One that was not of the checked tree is passed over."""
    found = await find_commit(worktree, ground.base, ANY)
    if found is None or found != ground.unchecked:
        return found
    return await find_commit(worktree, ground.base, ANY, at=f"{found}^")


async def _is_between(repository: Repository, older: str, commit: str, newer: str) -> bool:
    if await repository.commit_of(commit) is None:
        return False
    return await repository.is_ancestor(older, commit) and await repository.is_ancestor(commit, newer)


async def find_commit(worktree: Worktree, base: str, effect: str, *, at: str | None = None) -> str | None:
    """The newest commit on the worktree's branch, after `base`, that carries this effect's id (or such a pattern)."""
    pattern = f"^{EFFECT}: {effect}$"
    begin = at or f"refs/heads/{worktree.branch}"
    answer = await worktree.repository.git.ask(
        *_LAST, "--format=%H", "--basic-regexp", f"--grep={pattern}", begin, f"^{base}", "--"
    )
    return answer.text or None


async def identity(repository: Repository, git: Git) -> tuple[str, ...]:
    """Nothing, when the user told git who they are at this place; else a name, so that no work is lost for want of one.

    Asked where it will be used, for a config may tell worktrees from the rest; and once, when it is known.
    """
    in_worktree = git is not repository.git
    if in_worktree not in repository.knows_the_user:
        asked = [await git.run("var", f"GIT_{whose}_IDENT") for whose in ("COMMITTER", "AUTHOR")]
        if any(answer.code for answer in asked):
            return _FALLBACK_IDENTITY
        repository.knows_the_user.add(in_worktree)
    return ()


async def is_a_hooks_doing(worktree: Worktree, error: GitFailed) -> bool:
    """Not when it was killed: that says nothing about the work."""
    if isinstance(error, GitKilled) or error.code != _REFUSED or _HOOK_KILLED.search(error.said):
        return False
    folder = await worktree.git.hooks_folder()
    return any(os.access(os.path.join(folder, hook), os.X_OK) for hook in _HOOKS)
