"""The `FAILED (…)` placeholder commit that keeps the partial work of a failed task, and how it is undone.

It must never be merged: the next attempt continues with its content, uncommitted. A person's commits on top of it are
rebuilt below the attempt, unchanged.
"""

from contextlib import suppress
from typing import NamedTuple

from holdfast.core.log.anchors import RUN_TRAILER
from holdfast.git.commit import (
    ANY_EFFECT_ID,
    EFFECT_TRAILER,
    TASK_TRAILER,
    CommitContext,
    CommitTrailers,
    commit_all,
    find_commit,
    one_line,
)
from holdfast.git.merge import MergeConflicts, merged_tree
from holdfast.git.ref_files import AskGit
from holdfast.git.repository import Repository
from holdfast.git.snapshot import SNAPSHOT_IDENTITY
from holdfast.git.worktrees.worktree import Worktree
from holdfast.leaf.errors import DecisionNeeded
from holdfast.leaf.failpoints import Failpoint

FAILED_PREFIX = "FAILED"

_MAX_COMMITS_READ = 20  # of a task, before git is asked for all at once

_KEPT_HEADERS = (b"author ", b"committer ", b"encoding ")
_FAILPOINT_KEPT = Failpoint("commit.unwind.kept")


class UnwindResult(NamedTuple):
    """The placeholder that was undone, and the newest of the commits that were on top of it, as rebuilt."""

    placeholder: str | None = None
    theirs: str | None = None


class CommitsOnPlaceholder(DecisionNeeded):
    """A person's commits on top of a placeholder do not apply without it."""

    def __init__(self, worktree: Worktree, placeholder: str, commits_above: list[str]) -> None:
        path, newest = worktree.path, commits_above[-1]
        super().__init__(
            f"{worktree.branch} has commits on top of the placeholder of a failed attempt ({placeholder[:12]}) that "
            f"do not apply without it. Make one commit of both: git -C {path} reset --soft {placeholder}^ && "
            f"git -C {path} commit --reuse-message={newest[:12]}; then resume"
        )


async def commit_placeholder(
    worktree: Worktree, context: CommitContext, reason: str, trailers: CommitTrailers
) -> str | None:
    """Commit the partial work of a failed task as a placeholder."""
    subject = f"{FAILED_PREFIX} ({one_line(reason)}): task {one_line(str(trailers.task_id))}"
    return await commit_all(worktree, context, subject, trailers, run_hooks=False)


async def find_placeholder_at(repository: Repository, base: str, tip: str, task_id: str) -> str | None:
    """Return the newest commit between `base` and `tip` that is a placeholder of this task."""
    with suppress(AskGit):
        if not _may_have_placeholder(repository, base, tip):
            return None
    trailers = ",".join(
        f"%(trailers:key={key},valueonly,separator=%x2C)%x00" for key in (RUN_TRAILER, EFFECT_TRAILER, TASK_TRAILER)
    )
    answer = await repository.git.query(
        "log", "--no-show-signature", "--topo-order", f"--format=%H%x00%s%x00{trailers}", tip, f"^{base}", "--"
    )
    for line in answer.lines:
        oid, subject, run, effect, task, _ = line.replace("\0,", "\0").split("\0")
        if subject.startswith(f"{FAILED_PREFIX} (") and run and effect and task == one_line(task_id):
            return oid
    return None


def _may_have_placeholder(repository: Repository, base: str, tip: str) -> bool:
    """False when the messages of the commits between `base` and `tip` rule it out. Raises `AskGit` when unclear."""
    oid = repository.read_commit_of(tip) or tip
    for _ in range(_MAX_COMMITS_READ):
        if oid == base:
            return False
        commit = repository.read_commit(oid)
        if commit.message.lstrip().startswith(FAILED_PREFIX.encode()):
            return True
        if len(commit.parents) != 1:
            raise AskGit
        oid = commit.parents[0]
    raise AskGit


async def find_placeholder(worktree: Worktree, base: str, task_id: str) -> str | None:
    """Return the newest placeholder on the worktree's branch, whatever is on top of it."""
    return await find_placeholder_at(worktree.repository, base, f"refs/heads/{worktree.branch}", task_id)


async def unwind_placeholder(worktree: Worktree, context: CommitContext, task_id: str) -> UnwindResult:
    """Undo the placeholder and keep its content in the worktree, so that the next attempt builds on it.

    Commits on top of it are rebuilt without it, with the same message and author; raises `CommitsOnPlaceholder` when
    they do not apply. Does nothing when there is no placeholder: it was undone already.
    """
    unwound = UnwindResult()
    while (placeholder := await find_placeholder(worktree, context.base, task_id)) is not None:
        await worktree.must_be_on_branch()
        head = (await worktree.git.query("rev-parse", "HEAD")).text
        above = (
            await worktree.repository.git.query("rev-list", "--reverse", "--topo-order", f"{placeholder}..{head}")
        ).lines
        onto = await _rebuild_commits(worktree, placeholder, above)
        await worktree.repository.save_ref(context.backup_ref, head)
        _FAILPOINT_KEPT()
        await worktree.git.execute("reset", "--quiet", "--soft", onto)
        unwound = UnwindResult(placeholder, onto if above else unwound.theirs)
    return unwound if unwound.placeholder is not None else UnwindResult(theirs=await _person_commit(worktree, context))


async def _person_commit(worktree: Worktree, context: CommitContext) -> str | None:
    """Return the branch tip unless it is ours. It is a person's commit: the agent's were squashed into ours."""
    tip = await worktree.repository.commit_of(f"refs/heads/{worktree.branch}")
    if tip in (None, context.base) or tip == await find_commit(worktree, context.base, ANY_EFFECT_ID):
        return None
    return tip


async def recover_unwind_result(worktree: Worktree, context: CommitContext, task_id: str) -> UnwindResult:
    """Return the result of an unwind that was killed after it finished, from the backup ref it wrote."""
    repository = worktree.repository
    old_tip = await repository.commit_of(context.backup_ref)
    if old_tip is None:
        return UnwindResult(theirs=await _person_commit(worktree, context))
    placeholder = await find_placeholder_at(repository, context.base, old_tip, task_id)
    tip = await repository.commit_of(f"refs/heads/{worktree.branch}")
    return UnwindResult(placeholder, tip if placeholder != old_tip else None)


async def _rebuild_commits(worktree: Worktree, placeholder: str, commits_above: list[str]) -> str:
    """Rebuild the commits on the placeholder's parent. Returns the last one."""
    repository = worktree.repository
    onto = (await repository.git.query("rev-parse", f"{placeholder}^")).text
    if (
        commits_above
        and (
            await repository.git.query("rev-list", "--merges", "--max-count=1", f"{placeholder}..{commits_above[-1]}")
        ).text
    ):
        raise CommitsOnPlaceholder(worktree, placeholder, commits_above)
    before = placeholder
    for commit in commits_above:
        try:
            tree = await _apply_change(repository, before, onto, commit)
        except MergeConflicts:
            raise CommitsOnPlaceholder(worktree, placeholder, commits_above) from None
        onto = await _commit_like(repository, commit, tree, onto)
        before = commit
    return onto


async def _apply_change(repository: Repository, before: str, onto: str, commit: str) -> str:
    """Apply the change from `before` to `commit` onto `onto`: a three-way merge with `before` as the merge base."""
    git = repository.git

    async def with_parents(rev: str, *parents: str) -> str:
        options = [*(f"-p{parent}" for parent in parents), "-m", "For a merge"]
        return (await git.execute("commit-tree", *options, f"{rev}^{{tree}}", extra_env=SNAPSHOT_IDENTITY)).text

    merge_base = await with_parents(before)
    ours, theirs = await with_parents(onto, merge_base), await with_parents(commit, merge_base)
    return await merged_tree(repository, onto, ours, commit, theirs)


async def _commit_like(repository: Repository, commit: str, tree: str, parent: str) -> str:
    """Copy message, author, committer and times of a commit, but not its signature, which is for another tree."""
    header, _, message = (await repository.git.query("cat-file", "commit", commit)).stdout.partition(b"\n\n")
    kept = [line for line in header.split(b"\n") if line.startswith(_KEPT_HEADERS)]
    lines = [f"tree {tree}".encode(), f"parent {parent}".encode(), *kept]
    written = await repository.git.execute(
        "hash-object", "-t", "commit", "-w", "--stdin", stdin=b"\n".join(lines) + b"\n\n" + message
    )
    return written.text
