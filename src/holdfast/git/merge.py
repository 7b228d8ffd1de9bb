"""Merging: tried first without touching any tree, so never half done in one.

A task's branch into the run's is made in the run's worktree, by `git merge`, with the user's hooks. The run's branch
into one of the user's is made without any worktree; one that they have checked out is then moved forward to it.
"""

import os

from holdfast.git.commit import HookRefused, Signature, commit_tree, identity, is_a_hooks_doing, one_line
from holdfast.git.exclusive import exclusive
from holdfast.git.process import GitFailed, GitKilled, LeftHalfDone
from holdfast.git.repository import Repository
from holdfast.git.snapshot import save
from holdfast.git.worktrees.checkout import checkout_of, forward_checkout
from holdfast.git.worktrees.in_progress import merge_head
from holdfast.git.worktrees.worktree import Worktree, status_of
from holdfast.leaf.errors import BadInput, Denied, HoldfastError
from holdfast.leaf.failpoints import Point
from holdfast.leaf.files.directories import is_there

_PLAINLY = ("-c", "merge.autoStash=false", "-c", "rerere.autoUpdate=false")  # nothing is put aside, nothing guessed
_CONFLICTS, _NO_SUCH_OPTION = 1, 129
_NOTES = ("MERGE_HEAD", "MERGE_MODE", "MERGE_MSG")
_OTHERS_NOTES = ("CHERRY_PICK_HEAD", "REVERT_HEAD")
_LEFT = "warning: unable to unlink "
_CRASH_MERGED = Point("merge.into.merged")

MAX_ATTEMPTS = 5  # to merge into a branch that others move meanwhile


class Conflicts(HoldfastError):
    """Two branches changed the same lines. Nothing was merged."""

    def __init__(self, ours: str, theirs: str, paths: tuple[str, ...]) -> None:
        super().__init__(f"{theirs} does not merge into {ours}: conflicts in {', '.join(paths) or 'the tree itself'}")
        self.paths = paths


async def merge_task(run: Worktree, task_branch: str, commit: str, signature: Signature, salvage: str) -> str:
    """Merge `commit`, of a task's branch, into the run's branch, in its worktree. Returns the merge commit.

    When it fails, it is taken back; `salvage` is the ref for whatever came into the worktree meanwhile.
    When it is merged already, that of the run's branch as it is. `Conflicts` leaves everything as it was.
    """
    await run.must_be_on_branch()
    repository = run.repository
    ours = await _tip(repository, run.branch)
    if await repository.is_ancestor(commit, ours):
        return ours
    await merged_tree(repository, run.branch, ours, task_branch, commit)
    if not (await status_of(run)).clean:
        raise Denied(f"{run.path} has changes that are in no commit; commit them or move them away, and resume")
    subject = f"Merge task {one_line(signature.task)}" if signature.task else f"Merge {task_branch}"
    text = f"{subject}\n\n{signature.trailers()}"
    try:
        answer = await run.git.do(
            *_PLAINLY,
            *await identity(repository, run.git),
            "merge",
            "--no-ff",
            "--no-edit",
            "--quiet",
            f"--message={text}",
            commit,
        )
    except GitKilled:
        raise  # it may have stopped anywhere: whoever mends that finds out where
    except HoldfastError as error:
        try:
            await _take_back(run, salvage, f"What stood in the run's worktree when the merge of {task_branch} failed")
        except (HoldfastError, OSError) as trouble:
            raise LeftHalfDone(error) from trouble
        if isinstance(error, GitFailed) and await is_a_hooks_doing(run, error):
            raise HookRefused(error.said) from None
        raise
    await _delete_what_git_left(run, ours, answer.said)
    await forget_concluded_merge(run)
    merged = await _tip(repository, run.branch)
    if not await repository.is_ancestor(commit, merged):
        raise HoldfastError(f"{run.branch} was merged, but not with {task_branch}: another git was at work there")
    return merged


async def _delete_what_git_left(worktree: Worktree, before: str, said: str) -> None:
    """The files that a merge deletes, where the disk refused it: git only warns, and a commit would bring them back."""
    if _LEFT in said:
        gone = await worktree.git.ask(
            "diff", "--cached", "--name-only", "--no-renames", "--diff-filter=D", "-z", before
        )
        there = await worktree.git.ask("ls-files", "--others", "-z")
        for path in {*gone.fields()} & {*there.fields()}:
            os.unlink(os.path.join(worktree.path, path))


async def _take_back(run: Worktree, salvage: str, message: str) -> None:
    run.clear_locks()
    await save(run, salvage, message)
    await run.git.do("reset", "--quiet", "--hard")
    await run.git.do("clean", "-d", "--force", "--quiet")


async def merged_tree(repository: Repository, ours_name: str, ours: str, theirs_name: str, theirs: str) -> str:
    """The tree that merging two commits gives. Made without any worktree; raises `Conflicts` when it cannot be."""
    merging = ("merge-tree", "--write-tree", "--name-only", "--no-messages", "-z", ours, theirs)
    answer = await repository.git.try_to(*merging)
    if answer.code == 0:
        return answer.fields()[0]
    if answer.code == _CONFLICTS:
        raise Conflicts(ours_name, theirs_name, tuple(answer.fields()[1:]))
    if answer.code == _NO_SUCH_OPTION:
        raise BadInput("this git is too old to merge without a worktree; Holdfast needs git 2.38 or newer")
    raise GitFailed("merge-tree", answer.code, answer.said)


async def bring_conflicts(task: Worktree, run_branch: str, commit: str, signature: Signature) -> tuple[str, ...]:
    """Merge the run's branch into a task's worktree and leave the conflicts there, to be resolved in it.

    Returns the paths; none when it merged cleanly, and then it is committed.
    """
    await task.must_be_on_branch()
    theirs = run_branch if await task.repository.commit_of(f"refs/heads/{run_branch}") == commit else commit
    text = f"Merge {run_branch}\n\n{signature.trailers()}"
    merge = ("merge", "--no-ff", "--no-edit", "--quiet", f"--message={text}", theirs)
    try:
        answer = await task.git.do(*_PLAINLY, *await identity(task.repository, task.git), *merge)
    except GitKilled:
        raise
    except GitFailed as error:
        unmerged = tuple((await status_of(task)).unmerged)
        if not unmerged or error.code != _CONFLICTS:
            raise LeftHalfDone(error) from error
        await _delete_what_git_left(task, "HEAD", error.said)
        return unmerged
    await _delete_what_git_left(task, "HEAD^", answer.said)
    await forget_concluded_merge(task)
    return ()


async def forget_concluded_merge(worktree: Worktree) -> None:
    """Take away the notes of a merge that is in the branch already, or never came to be.

    Git was killed over them, or its disk kept them, of which it says nothing. Left there, the next commit would be a
    merge once more.
    """
    own = worktree.must_be_ours()
    if not any(is_there(os.path.join(own, name)) for name in _NOTES):
        return
    if any(is_there(os.path.join(own, name)) for name in _OTHERS_NOTES):
        return
    merging = merge_head(own)
    if merging is not None and not await worktree.repository.is_ancestor(merging, f"refs/heads/{worktree.branch}"):
        return
    await forget_merge(worktree)


async def forget_merge(worktree: Worktree) -> None:
    """Take away git's notes of the merge that it is in; what stands in the files and in the index stays."""
    await worktree.git.do("merge", "--quit")


async def merge_into(repository: Repository, target: str, branch: str, commit: str, signature: Signature) -> str:
    """Merge into a branch of the user's. Returns the commit that it is then at.

    Forward, where that is all it takes. Two that merge at once take turns. The branch moves only if nobody else moved
    it meanwhile; if somebody did, it is merged anew with where it is then.
    """
    again = f"nothing was merged; try again: holdfast merge {signature.run} --into {target}"
    async with exclusive(repository.common_dir, again):
        for _ in range(MAX_ATTEMPTS):
            ours = await _tip(repository, target)
            try:
                return await _merge_onto(repository, target, ours, branch, commit, signature)
            except GitKilled:
                raise
            except HoldfastError:
                if await _tip(repository, target) == ours:
                    raise
    raise Denied(f"{target} was moved by another git {MAX_ATTEMPTS} times while {branch} was merged into it; {again}")


async def _merge_onto(
    repository: Repository, target: str, ours: str, branch: str, commit: str, signature: Signature
) -> str:
    """Where the branch is checked out, the files go with it, and nothing of the user's is overwritten."""
    if await repository.is_ancestor(commit, ours):
        return ours
    if repository.is_being_rebased(target):
        raise Denied(f"{target} is being rebased, by you; finish that first")
    if await repository.is_ancestor(ours, commit):
        merged = commit
    else:
        tree = await merged_tree(repository, target, ours, branch, commit)
        text = f"Merge {branch} into {target}\n\n{signature.trailers()}"
        merged = await commit_tree(repository, tree, [ours, commit], text)
    _CRASH_MERGED()
    path = await checkout_of(repository, target)
    if path is not None:
        await forward_checkout(repository, path, target, ours, merged)
    else:
        await repository.set_ref(f"refs/heads/{target}", merged, ours)
    return merged


async def _tip(repository: Repository, branch: str) -> str:
    commit = await repository.commit_of(f"refs/heads/{branch}")
    if commit is None:
        raise Denied(f"the branch {branch} is not there any more; `git branch {branch} COMMIT` brings it back")
    return commit
