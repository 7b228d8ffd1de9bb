"""Commits of a run: one a task, with trailers that say whose they are, and the placeholder of a failed one.

A commit can be found again by its effect's id, whatever happened to the process that made it.
"""

import os
import re
from typing import NamedTuple

from holdfast.git.process import Git, GitFailed, GitKilled
from holdfast.git.repository import Repository
from holdfast.git.snapshot import excluded
from holdfast.git.worktree import Status, Worktree, status_of
from holdfast.leaf.errors import Denied, HoldfastError

RUN, TASK, EFFECT = "Holdfast-Run", "Holdfast-Task", "Holdfast-Effect"
FAILED = "FAILED"

_HOOKS = ("pre-commit", "prepare-commit-msg", "commit-msg", "pre-merge-commit")
_HOOK_KILLED = re.compile(rf"^error: .*\b({'|'.join(_HOOKS)}) died of signal (1|2|9|15)$", re.MULTILINE)
_BOTH_HAVE_IT = frozenset({"UU", "AA"})  # conflicts in which git writes both sides into the file
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

    def trailers(self) -> str:
        named = {RUN: self.run, TASK: self.task, EFFECT: self.effect}
        return "\n".join(f"{name}: {one_line(value)}" for name, value in named.items() if value is not None)


class Ground(NamedTuple):
    """What a task's commits stand on: the commit that its branch began at, and the ref for commits taken back."""

    base: str
    taken_back: str


async def commit_all(
    worktree: Worktree, ground: Ground, message: str, signature: Signature, *, checked: bool = True
) -> str | None:
    """Commit everything since `base` that is not ignored, as one commit; None when there is nothing. Returns it.

    What an agent committed by itself becomes part of it, unless it merged something. `checked` runs the user's
    hooks, as their own commit would. The placeholder of a failed task does not: what a hook would refuse is just
    what must be kept.
    """
    own = await worktree.must_be_on_branch()
    status = await status_of(worktree)
    if status.head is None:
        raise Denied(f"the branch {worktree.branch} is gone; `holdfast doctor --fix` makes it again")
    done = await find_commit(worktree, ground.base, signature.effect) if status.head != ground.base else None
    if done is not None:
        return done
    merging = _is_merging(own)
    await _stage_everything(worktree, status, merging=merging)
    squashed = not merging and status.head != ground.base and await _go_back_to(worktree, ground, status.head)
    if not squashed and not merging and not any(change.staged for change in (await status_of(worktree)).changes):
        return None
    text = f"{_plain(message).strip()}\n\n{signature.trailers()}"
    options = ["--quiet", "--allow-empty", "--cleanup=whitespace", "--file=-", *([] if checked else ["--no-verify"])]
    try:
        await worktree.git.do(
            *await identity(worktree.repository, worktree.git), "commit", *options, given=text.encode()
        )
    except GitKilled:
        raise
    except GitFailed as error:
        if squashed:
            await worktree.git.do("reset", "--quiet", "--soft", status.head)
        if checked and await is_a_hooks_doing(worktree, error):
            raise HookRefused(error.said) from None
        raise
    return (await worktree.git.ask("rev-parse", "HEAD")).text


async def _stage_everything(worktree: Worktree, status: Status, *, merging: bool) -> None:
    """All that is work, and not ignored. Refuses while a conflict is not resolved: staging it would call it so."""
    left = await _unresolved(worktree, status, merging=merging)
    if left:
        raise Unresolved(left)
    adding = ("-c", "advice.addEmbeddedRepo=false", "add", "--all", "--sparse", "--", ":/")
    await worktree.git.do(*adding, *excluded(status))


async def _said_to_be_resolved(worktree: Worktree) -> list[str]:
    """The conflicts that somebody staged, as an agent does that stages all it sees."""
    answer = await worktree.git.ask("ls-files", "--resolve-undo", "-z")
    return list(dict.fromkeys(entry.partition("\t")[2] for entry in answer.fields()))


async def unresolved(worktree: Worktree) -> list[str]:
    """The files over which a commit would refuse now: their conflicts are still there."""
    own = worktree.must_be_ours()
    return await _unresolved(worktree, await status_of(worktree), merging=_is_merging(own))


def _is_merging(own: str) -> bool:
    return os.path.exists(os.path.join(own, "MERGE_HEAD"))


async def _unresolved(worktree: Worktree, status: Status, *, merging: bool) -> list[str]:
    """No file may hold markers that it did not hold before. Where git writes none, somebody must have staged it."""
    staged = await _said_to_be_resolved(worktree) if merging else []
    kinds = {change.path: change.status for change in status.changes}
    left = [path for path in status.unmerged if kinds[path] not in _BOTH_HAVE_IT or _is_no_text(worktree, path)]
    for path in [*status.unmerged, *staged]:
        if path not in left and await _has_new_markers(worktree, path):
            left.append(path)
    return left


def _is_no_text(worktree: Worktree, path: str) -> bool:
    """As git tells: a null byte near the beginning; or it is no file at all."""
    return b"\0" in (_content(worktree, path) or b"\0")[:8000]


async def _has_new_markers(worktree: Worktree, path: str) -> bool:
    """Both ends of a conflict: a line of `=======` alone is a heading in many a text."""
    if not _has_markers(_content(worktree, path) or b""):
        return False
    before = await worktree.git.run("cat-file", "blob", f"HEAD:{path}")
    return not _has_markers(before.out)


def _has_markers(content: bytes) -> bool:
    lines = content.splitlines()
    return all(any(line.startswith(end) for line in lines) for end in (b"<<<<<<<", b">>>>>>>"))


def _content(worktree: Worktree, path: str) -> bytes | None:
    try:
        with open(os.path.join(worktree.path, path), "rb") as file:
            return file.read()
    except OSError:
        return None


async def _go_back_to(worktree: Worktree, ground: Ground, head: str) -> bool:
    """Take back the commits since the last of ours, their content staying staged, so that one commit holds it all.

    Not when one of them is a merge (it says more than its content), or `base` is not behind them any more.
    """
    repository = worktree.repository
    if not await repository.is_ancestor(ground.base, head):
        return False
    base = await find_commit(worktree, ground.base, "[0-9a-f]*") or ground.base
    base = await repository.newest_shared(base, head) or base
    if base == head:
        return False
    if (await repository.git.ask("rev-list", "--merges", "--max-count=1", f"{base}..{head}")).text:
        return False
    await repository.keep(ground.taken_back, head)
    await worktree.git.do("reset", "--quiet", "--soft", base)
    return True


async def find_commit(worktree: Worktree, base: str, effect: str) -> str | None:
    """The newest commit on the worktree's branch, after `base`, that carries this effect's id (or such a pattern)."""
    pattern = f"^{EFFECT}: {effect}$"
    answer = await worktree.repository.git.ask(
        *_LAST, "--format=%H", "--basic-regexp", f"--grep={pattern}", f"refs/heads/{worktree.branch}", f"^{base}", "--"
    )
    return answer.text or None


async def keep_failed(worktree: Worktree, ground: Ground, reason: str, signature: Signature) -> str | None:
    """The partial work of a failed task, as a placeholder commit."""
    subject = f"{FAILED} ({one_line(reason)}): task {one_line(str(signature.task))}"
    return await commit_all(worktree, ground, subject, signature, checked=False)


async def placeholder_of(worktree: Worktree, base: str, task: str) -> str | None:
    """The placeholder that the branch ends with, if it does: the last commit, of this task, that says FAILED."""
    answer = await worktree.repository.git.ask(
        *_LAST,
        f"--format=%H%x00%s%x00%(trailers:key={TASK},valueonly,separator=%x2C)",
        f"refs/heads/{worktree.branch}",
        f"^{base}",
        "--",
    )
    if not answer.text:
        return None
    oid, subject, named = answer.text.split("\0")
    return oid if subject.startswith(f"{FAILED} (") and named == one_line(task) else None


async def unwind_failed(worktree: Worktree, ground: Ground, task: str) -> str | None:
    """Take the placeholder back, its content staying in the worktree, so that the next attempt builds on it.

    Returns the placeholder; None when the branch does not end with one, because it was taken back already.
    """
    await worktree.must_be_on_branch()
    placeholder = await placeholder_of(worktree, ground.base, task)
    if placeholder is not None:
        await worktree.repository.keep(ground.taken_back, placeholder)
        await worktree.git.do("reset", "--quiet", "--soft", f"{placeholder}^")
    return placeholder


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
    folder = (await worktree.git.ask("rev-parse", "--path-format=absolute", "--git-path", "hooks")).text
    return any(os.access(os.path.join(folder, hook), os.X_OK) for hook in _HOOKS)
