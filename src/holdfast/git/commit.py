"""Commits of a run: one per task, of the tree that was checked, with trailers that name run, task and effect.

The effect id in the trailers finds a commit again after the process that made it died.
"""

import os
import re
from collections.abc import Sequence
from typing import NamedTuple

from holdfast.core.log.anchors import CHAIN_TRAILER, RUN_TRAILER, Anchor
from holdfast.git.last_capture import last_status
from holdfast.git.process import Git, GitFailed, GitKilled
from holdfast.git.repository import Repository
from holdfast.git.snapshot import excluded_pathspecs
from holdfast.git.worktrees.head import attach_head, head_of
from holdfast.git.worktrees.in_progress import merge_head
from holdfast.git.worktrees.worktree import Status, Worktree, status_of
from holdfast.leaf.errors import Denied, HoldfastError

TASK_TRAILER, EFFECT_TRAILER = "Holdfast-Task", "Holdfast-Effect"

_HOOKS = ("pre-commit", "prepare-commit-msg", "commit-msg", "pre-merge-commit")
_HOOK_KILLED = re.compile(rf"^error: .*\b({'|'.join(_HOOKS)}) died of signal (1|2|9|15)$", re.MULTILINE)
_BOTH_SIDES_MARKED = frozenset({"UU", "AA"})  # conflicts where git writes both sides into the file
ANY_EFFECT_ID = "[0-9a-f]*"  # a pattern that matches every effect id
_HOOK_REFUSED_CODE = 1  # git's exit code when a hook refuses; git's own errors have other codes
_LAST_COMMIT = ("log", "--max-count=1", "--no-show-signature")
_FALLBACK_IDENTITY = ("-c", "user.name=Holdfast", "-c", "user.email=holdfast@localhost")


class HookRefused(HoldfastError):
    """The user's hook refused the commit. The agent gets the output as a finding; the work is unchanged."""

    def __init__(self, output: str) -> None:
        super().__init__(f"a commit hook refused: {' '.join(output.split()) or 'it printed nothing'}")
        self.output = output


class UnresolvedConflicts(HoldfastError):
    """Files still hold conflict markers. The agent that resolves them gets the paths as a finding."""

    def __init__(self, paths: list[str]) -> None:
        super().__init__(
            f"conflicts are not resolved yet in {', '.join(paths)}; nothing was committed. "
            "For a file without conflict markers, mark it as resolved with `git add` or `git rm`"
        )
        self.paths = paths


def one_line(text: str) -> str:
    """Return the text as one line that is valid in a subject or a trailer."""
    return " ".join(_sanitize(text).split())


def _sanitize(text: str) -> str:
    """Replace what git refuses in a message: NUL and lone surrogates."""
    return text.replace("\0", " ").encode(errors="backslashreplace").decode()


class CommitTrailers(NamedTuple):
    """The values of a commit's trailers."""

    run_id: str
    effect_id: str
    task_id: str | None = None
    anchor: Anchor | None = None

    def render(self) -> str:
        values = {
            RUN_TRAILER: self.run_id,
            TASK_TRAILER: self.task_id,
            EFFECT_TRAILER: self.effect_id,
            CHAIN_TRAILER: self.anchor,
        }
        return "\n".join(f"{name}: {one_line(str(value))}" for name, value in values.items() if value is not None)


class CommitContext(NamedTuple):
    """What a task's commits build on: the commit where its branch started, and the ref that keeps undone commits.

    `theirs` is a person's commit, which stays unchanged. `unchecked` is a commit of ours whose tree differs from the
    checked one; the next commit replaces it. `agents` are branches that the task's agent created.
    """

    base: str
    backup_ref: str
    theirs: str | None = None
    unchecked: str | None = None
    agents: tuple[str, ...] = ()


class CapturedTree(NamedTuple):
    """The tree that was checked, with HEAD and the commit being merged at the time of the capture."""

    tree: str
    head: str | None = None
    merging: str | None = None


async def commit_all(
    worktree: Worktree, context: CommitContext, message: str, trailers: CommitTrailers, *, run_hooks: bool = True
) -> str | None:
    """Commit everything since `base` that is not ignored as one commit. Returns it; None when nothing changed.

    The agent's own commits are squashed into it, unless one is a merge. `run_hooks` runs the user's hooks, as the
    user's own commit would. The placeholder of a failed task runs none: it must keep exactly the work that a hook
    would refuse.
    """
    git_dir = await worktree.must_be_on_branch()
    status = await _status_on_branch(worktree)
    done = await find_commit(worktree, context.base, trailers.effect_id) if status.head != context.base else None
    if done is not None:
        return done
    merging = merge_head(git_dir) is not None
    await _check_resolved(worktree, status, is_merging=merging)
    await _stage_everything(worktree, status)
    squashed = not merging and await _squash_agent_commits(worktree, context, status.head)
    if not squashed and not merging and not any(change.is_staged for change in (await status_of(worktree)).changes):
        return None
    return await _commit_staged(worktree, message, trailers, status.head if squashed else None, run_hooks=run_hooks)


async def commit_captured(
    worktree: Worktree, context: CommitContext, message: str, trailers: CommitTrailers, captured: CapturedTree
) -> str | None:
    """Commit exactly the tree that was checked, whatever changed in the worktree or on its branch since.

    The user's hooks may change what is committed: the caller compares the trees.
    """
    if not (await head_of(worktree)).is_on_own_branch:
        await attach_head(worktree)  # moving HEAD since then did not change the checked tree
    git_dir = await worktree.must_be_on_branch()
    status = await _status_on_branch(worktree, await last_status(worktree))
    done = await find_commit(worktree, context.base, trailers.effect_id) if status.head != context.base else None
    if done is not None:
        return done
    if context.unchecked is not None and await _has_tree(worktree, context.unchecked, captured.tree):
        unchecked = captured._replace(head=context.unchecked)
        return await _reset_to_captured(worktree, context, git_dir, status.head, unchecked)
    head = await _reset_to_captured(worktree, context, git_dir, status.head, captured)
    merging = captured.merging is not None and merge_head(git_dir) is not None
    await _check_resolved(worktree, status, is_merging=merging, tree=captured.tree)
    await stage_tree(worktree, captured.tree)
    squashed = not merging and await _squash_agent_commits(worktree, context, head)
    if not squashed and not merging and captured.tree == await worktree.repository.tree_of(head):
        await refresh_index(worktree)
        return None
    return await _commit_staged(worktree, message, trailers, head if squashed else None)


async def _status_on_branch(worktree: Worktree, known: Status | None = None) -> Status:
    status = known or await status_of(worktree)
    if status.head is None:
        raise Denied(f"the branch {worktree.branch} does not exist; restore it with: holdfast doctor --fix")
    return status


async def _reset_to_captured(
    worktree: Worktree, context: CommitContext, git_dir: str, head: str | None, captured: CapturedTree
) -> str:
    """Reset the branch to the captured HEAD: on top of a later merge, the captured tree would undo that merge."""
    assert head is not None
    if merge_head(git_dir) not in (None, captured.merging):
        await worktree.git.execute("merge", "--quit")
    if captured.head in (None, head) or await worktree.repository.commit_of(str(captured.head)) is None:
        return head
    if not await worktree.repository.is_ancestor(head, str(captured.head)):
        await worktree.repository.save_ref(f"{context.backup_ref}-since", head)
    await worktree.git.execute("reset", "--quiet", "--soft", str(captured.head))
    return str(captured.head)


async def _commit_staged(
    worktree: Worktree, message: str, trailers: CommitTrailers, restore_to: str | None, *, run_hooks: bool = True
) -> str:
    """Commit what is staged. When that fails, reset the branch to `restore_to`."""
    text = f"{_sanitize(message).strip()}\n\n{trailers.render()}"
    options = ["--quiet", "--allow-empty", "--cleanup=whitespace", "--file=-", *([] if run_hooks else ["--no-verify"])]
    try:
        await worktree.git.execute(
            *await identity_options(worktree.repository, worktree.git), "commit", *options, stdin=text.encode()
        )
    except GitKilled:
        raise
    except GitFailed as error:
        if restore_to is not None:
            await worktree.git.execute("reset", "--quiet", "--soft", restore_to)
        if run_hooks and await is_hook_failure(worktree, error):
            raise HookRefused(error.output) from None
        raise
    return str(await worktree.head_commit())


async def _has_tree(worktree: Worktree, commit: str | None, tree: str) -> bool:
    """True when the commit exists and has this tree."""
    if commit is None or await worktree.repository.commit_of(commit) is None:
        return False
    return await worktree.repository.tree_of(commit) == tree


async def stage_tree(worktree: Worktree, tree: str) -> None:
    """Set the index to exactly this tree. The files do not change. `git commit` refreshes the index itself."""
    await worktree.git.execute("read-tree", "--reset", tree)


async def refresh_index(worktree: Worktree) -> None:
    """Have git remember which files match the index."""
    await worktree.git.try_execute("update-index", "--refresh", "-q")  # exits non-zero when files differ


async def _stage_everything(worktree: Worktree, status: Status) -> None:
    """Stage all files except ignored ones, half-written ones and nested repositories."""
    add = ("-c", "advice.addEmbeddedRepo=false", "add", "--all", "--sparse", "--", ":/")
    await worktree.git.execute(*add, *excluded_pathspecs(status))


async def _staged_conflicts(worktree: Worktree) -> list[str]:
    """Return the conflicts that are staged already: an agent may stage everything, resolved or not."""
    answer = await worktree.git.query("ls-files", "--resolve-undo", "-z")
    return list(dict.fromkeys(entry.partition("\t")[2] for entry in answer.fields()))


async def unresolved_paths(worktree: Worktree) -> list[str]:
    """Return the files with unresolved conflicts, because of which a commit would fail now."""
    git_dir = worktree.must_be_ours()
    return await _find_unresolved(worktree, await status_of(worktree), is_merging=merge_head(git_dir) is not None)


async def _check_resolved(worktree: Worktree, status: Status, *, is_merging: bool, tree: str | None = None) -> None:
    """Raise while conflicts are unresolved: staging a file marks its conflict as resolved."""
    unresolved = await _find_unresolved(worktree, status, is_merging=is_merging, tree=tree)
    if unresolved:
        raise UnresolvedConflicts(unresolved)


async def _find_unresolved(
    worktree: Worktree, status: Status, *, is_merging: bool, tree: str | None = None
) -> list[str]:
    """A file is unresolved while it holds markers that HEAD does not; where git writes none, until it is staged."""
    staged = await _staged_conflicts(worktree) if is_merging else []
    kinds = {change.path: change.status for change in status.changes}
    unresolved = [path for path in status.unmerged_paths if kinds[path] not in _BOTH_SIDES_MARKED]
    for path in [*status.unmerged_paths, *staged]:
        content = await _read_content(worktree, path, tree)
        is_binary = path in status.unmerged_paths and b"\0" in (content or b"\0")[:8000]  # git's own rule
        if path not in unresolved and (is_binary or await _has_new_markers(worktree, path, content)):
            unresolved.append(path)
    return unresolved


async def _has_new_markers(worktree: Worktree, path: str, content: bytes | None) -> bool:
    """Looks for both ends of a conflict: a line of `=======` alone is a heading in many texts."""
    if not _has_markers(content or b""):
        return False
    before = await worktree.git.run("cat-file", "blob", f"HEAD:{path}")
    return not _has_markers(before.stdout)


def _has_markers(content: bytes) -> bool:
    lines = content.splitlines()
    return all(any(line.startswith(end) for line in lines) for end in (b"<<<<<<<", b">>>>>>>"))


async def _read_content(worktree: Worktree, path: str, tree: str | None) -> bytes | None:
    if tree is not None:
        answer = await worktree.git.run("cat-file", "blob", f"{tree}:{path}")
        return answer.stdout if answer.code == 0 else None
    try:
        with open(os.path.join(worktree.path, path), "rb") as file:
            return file.read()
    except OSError:
        return None


async def _squash_agent_commits(worktree: Worktree, context: CommitContext, head: str | None) -> bool:
    """Undo the commits since our last one and keep their content staged, so that one commit holds everything.

    False, and nothing is undone, when one of them is a merge (its parents would be lost), or `base` is not an ancestor.
    """
    repository = worktree.repository
    if head is None or head == context.base or not await repository.is_ancestor(context.base, head):
        return False
    base = await _last_own_commit(worktree, context) or context.base
    base = await repository.newest_shared(base, head, context.agents) or base
    if context.theirs is not None and await _is_between(repository, base, context.theirs, head):
        base = context.theirs
    if base == head:
        return False
    if (await repository.git.query("rev-list", "--merges", "--max-count=1", f"{base}..{head}")).text:
        return False
    await repository.save_ref(context.backup_ref, head)
    await worktree.git.execute("reset", "--quiet", "--soft", base)
    return True


async def commit_tree(repository: Repository, tree: str, parents: Sequence[str], text: str) -> str:
    """Create a commit without a worktree or a branch, as the user, signed if the user signs. Runs no hooks."""
    identity = await identity_options(repository, repository.git)
    is_signing = (await repository.git.run("config", "--type=bool", "commit.gpgSign")).text == "true"
    options = [*(["-S"] if is_signing else []), *(f"-p{parent}" for parent in parents)]
    return (await repository.git.execute(*identity, "commit-tree", *options, f"-m{text}", tree)).text


async def _last_own_commit(worktree: Worktree, context: CommitContext) -> str | None:
    """Return the newest commit that carries an effect id, but never the unchecked one."""
    found = await find_commit(worktree, context.base, ANY_EFFECT_ID)
    if found is None or found != context.unchecked:
        return found
    return await find_commit(worktree, context.base, ANY_EFFECT_ID, start=f"{found}^")


async def _is_between(repository: Repository, older: str, commit: str, newer: str) -> bool:
    if await repository.commit_of(commit) is None:
        return False
    return await repository.is_ancestor(older, commit) and await repository.is_ancestor(commit, newer)


async def find_commit(worktree: Worktree, base: str, effect_id: str, *, start: str | None = None) -> str | None:
    """Return the newest commit on the worktree's branch, after `base`, whose effect id matches the pattern."""
    pattern = f"^{EFFECT_TRAILER}: {effect_id}$"
    start = start or f"refs/heads/{worktree.branch}"
    answer = await worktree.repository.git.query(
        *_LAST_COMMIT, "--format=%H", "--basic-regexp", f"--grep={pattern}", start, f"^{base}", "--"
    )
    return answer.text or None


async def identity_options(repository: Repository, git: Git) -> tuple[str, ...]:
    """Return options that set a fallback identity, or none when git knows the user: no commit fails for a missing name.

    Asks git where the identity is used, because a config can distinguish worktrees. A known identity is cached.
    """
    in_worktree = git is not repository.git
    if in_worktree not in repository.identity_known_in:
        answers = [await git.run("var", f"GIT_{role}_IDENT") for role in ("COMMITTER", "AUTHOR")]
        if any(answer.code for answer in answers):
            return _FALLBACK_IDENTITY
        repository.identity_known_in.add(in_worktree)
    return ()


async def is_hook_failure(worktree: Worktree, error: GitFailed) -> bool:
    """True when a hook refused. A hook that was killed says nothing about the work."""
    if isinstance(error, GitKilled) or error.code != _HOOK_REFUSED_CODE or _HOOK_KILLED.search(error.output):
        return False
    folder = await worktree.git.hooks_folder()
    return any(os.access(os.path.join(folder, hook), os.X_OK) for hook in _HOOKS)
