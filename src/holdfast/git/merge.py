"""Merges: each is tried without a worktree first, so that conflicts never leave one half done.

A task's branch is merged into the run's branch in the run's worktree, by `git merge`, with the user's hooks.
`git/merge_into.py` merges the run's branch into a branch of the user.
"""

import os
from contextlib import suppress

from holdfast.git.commit import CommitTrailers, HookRefused, identity_options, is_hook_failure, one_line
from holdfast.git.process import GitFailed, GitKilled, GitRollbackFailed
from holdfast.git.ref_files import AskGit
from holdfast.git.repository import Repository
from holdfast.git.snapshot import save
from holdfast.git.worktrees.in_progress import merge_head
from holdfast.git.worktrees.worktree import Worktree, status_of
from holdfast.leaf.errors import BadInput, Denied, HoldfastError
from holdfast.leaf.files.directories import path_exists

_MERGE_OPTIONS = (
    "-c",
    "merge.autoStash=false",
    "-c",
    "rerere.autoUpdate=false",
)  # no stash, no remembered conflict resolutions
_CONFLICTS_CODE, _NO_SUCH_OPTION_CODE = 1, 129
_MERGE_STATE_FILES = ("MERGE_HEAD", "MERGE_MODE", "MERGE_MSG")
_OTHER_STATE_FILES = ("CHERRY_PICK_HEAD", "REVERT_HEAD")
_UNLINK_WARNING = "warning: unable to unlink "


class MergeConflicts(HoldfastError):
    """Both branches changed the same lines. Nothing was merged."""

    def __init__(self, ours: str, theirs: str, paths: tuple[str, ...], advice: str = "") -> None:
        where = ", ".join(paths) or "the tree itself"
        super().__init__(f"{theirs} does not merge into {ours}: conflicts in {where}{advice}")
        self.paths = paths


async def merge_task(
    run_worktree: Worktree, task_branch: str, commit: str, trailers: CommitTrailers, salvage_ref: str
) -> str:
    """Merge `commit` of a task's branch into the run's branch, in the run's worktree. Returns the merge commit.

    Returns the tip of the run's branch when the commit is merged already. A merge that fails is rolled back;
    `salvage_ref` keeps whatever else was in the worktree. `MergeConflicts` means that nothing changed.
    """
    await run_worktree.must_be_on_branch()
    repository = run_worktree.repository
    ours = await branch_tip(repository, run_worktree.branch)
    if await repository.is_ancestor(commit, ours):
        return ours
    await merged_tree(repository, run_worktree.branch, ours, task_branch, commit)
    if not (await status_of(run_worktree)).is_clean:
        raise Denied(f"{run_worktree.path} has uncommitted changes; commit them or move them away, and resume")
    subject = f"Merge task {one_line(trailers.task_id)}" if trailers.task_id else f"Merge {task_branch}"
    text = f"{subject}\n\n{trailers.render()}"
    try:
        answer = await run_worktree.git.execute(
            *_MERGE_OPTIONS,
            *await identity_options(repository, run_worktree.git),
            "merge",
            "--no-ff",
            "--no-edit",
            "--quiet",
            f"--message={text}",
            commit,
        )
    except GitKilled:
        raise  # it may have stopped anywhere: the repair of the effect finds out where
    except HoldfastError as error:
        try:
            await _roll_back(
                run_worktree, salvage_ref, f"Files in the run's worktree when the merge of {task_branch} failed"
            )
        except (HoldfastError, OSError) as rollback_error:
            raise GitRollbackFailed(error) from rollback_error
        if isinstance(error, GitFailed) and await is_hook_failure(run_worktree, error):
            raise HookRefused(error.output) from None
        raise
    await _delete_leftover_files(run_worktree, ours, answer.stderr)
    await forget_concluded_merge(run_worktree)
    merged = await branch_tip(repository, run_worktree.branch)
    if not await repository.is_ancestor(commit, merged):
        raise HoldfastError(
            f"{run_worktree.branch} does not contain {task_branch} after the merge: another git changed it meanwhile"
        )
    return merged


async def _delete_leftover_files(worktree: Worktree, before: str, output: str) -> None:
    """Delete files that git failed to delete in a merge: git only warns, and the next commit would add them again."""
    if _UNLINK_WARNING in output:
        deleted = await worktree.git.query(
            "diff", "--cached", "--name-only", "--no-renames", "--diff-filter=D", "-z", before
        )
        untracked = await worktree.git.query("ls-files", "--others", "-z")
        for path in {*deleted.fields()} & {*untracked.fields()}:
            os.unlink(os.path.join(worktree.path, path))


async def _roll_back(run_worktree: Worktree, salvage_ref: str, message: str) -> None:
    run_worktree.clear_locks()
    await save(run_worktree, salvage_ref, message)
    await run_worktree.git.execute("reset", "--quiet", "--hard")
    await run_worktree.git.execute("clean", "-d", "--force", "--quiet")


async def merged_tree(repository: Repository, ours_name: str, ours: str, theirs_name: str, theirs: str) -> str:
    """Merge two commits without a worktree and return the tree; raises `MergeConflicts`."""
    with suppress(AskGit):
        commit = repository.read_commit(theirs)
        if ours in commit.parents:
            return commit.tree
    command = ("merge-tree", "--write-tree", "--name-only", "--no-messages", "-z", ours, theirs)
    answer = await repository.git.try_execute(*command)
    if answer.code == 0:
        return answer.fields()[0]
    if answer.code == _CONFLICTS_CODE:
        raise MergeConflicts(ours_name, theirs_name, tuple(answer.fields()[1:]))
    if answer.code == _NO_SUCH_OPTION_CODE:
        raise BadInput("git is too old: Holdfast needs git 2.38 or newer, which merges without a worktree")
    raise GitFailed("merge-tree", answer.code, answer.stderr)


async def reproduce_conflicts(
    task_worktree: Worktree, run_branch: str, commit: str, trailers: CommitTrailers
) -> tuple[str, ...]:
    """Merge the run's branch into a task's worktree and leave the conflicts there for the agent to resolve.

    Returns the conflicting paths; none when the merge was clean and is committed.
    """
    await task_worktree.must_be_on_branch()
    theirs = run_branch if await task_worktree.repository.commit_of(f"refs/heads/{run_branch}") == commit else commit
    text = f"Merge {run_branch}\n\n{trailers.render()}"
    merge = ("merge", "--no-ff", "--no-edit", "--quiet", f"--message={text}", theirs)
    try:
        answer = await task_worktree.git.execute(
            *_MERGE_OPTIONS, *await identity_options(task_worktree.repository, task_worktree.git), *merge
        )
    except GitKilled:
        raise
    except GitFailed as error:
        unmerged = tuple((await status_of(task_worktree)).unmerged_paths)
        if not unmerged or error.code != _CONFLICTS_CODE:
            raise GitRollbackFailed(error) from error
        await _delete_leftover_files(task_worktree, "HEAD", error.output)
        return unmerged
    await _delete_leftover_files(task_worktree, "HEAD^", answer.stderr)
    await forget_concluded_merge(task_worktree)
    return ()


async def forget_concluded_merge(worktree: Worktree) -> None:
    """Delete git's merge state (MERGE_HEAD and others) when the branch has the merge already, or it never happened.

    The state remains when git was killed, or when the disk refused to delete it, which git does not report. With it,
    the next commit would become another merge.
    """
    git_dir = worktree.must_be_ours()
    if not any(path_exists(os.path.join(git_dir, name)) for name in _MERGE_STATE_FILES):
        return
    if any(path_exists(os.path.join(git_dir, name)) for name in _OTHER_STATE_FILES):
        return
    merging = merge_head(git_dir)
    if merging is not None and not await worktree.repository.is_ancestor(merging, f"refs/heads/{worktree.branch}"):
        return
    await forget_merge(worktree)


async def forget_merge(worktree: Worktree) -> None:
    """Delete git's merge state. Files and index do not change."""
    await worktree.git.execute("merge", "--quit")


async def branch_tip(repository: Repository, branch: str) -> str:
    commit = await repository.commit_of(f"refs/heads/{branch}")
    if commit is None:
        raise Denied(f"the branch {branch} does not exist any more; restore it with: git branch {branch} COMMIT")
    return commit
