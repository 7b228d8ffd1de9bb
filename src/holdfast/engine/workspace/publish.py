"""Publishes a run's work: into a branch of the user, to a remote, as a pull request. Each happens once."""

from contextlib import suppress
from typing import NamedTuple

from holdfast.core.work.workflow import Publish
from holdfast.engine.workspace.workspace import Workspace
from holdfast.git.effects import MergeInto, OpenPullRequest, ProbeOutcome, Push
from holdfast.git.exclusive import lock_repository
from holdfast.git.merge_into import BranchMoved, build_merge
from holdfast.git.remote import (
    can_open_pull_requests,
    choose_remote,
    compare_link,
    default_branch,
    remote_branch_commit,
    web_repository,
)
from holdfast.git.worktrees.worktree import NotOurWorktree, status_of
from holdfast.leaf.errors import BadInput, Denied
from holdfast.leaf.ids import new_effect_id

MAX_MERGE_ATTEMPTS = 5  # into a branch that other processes keep moving


class PublishedBranch(NamedTuple):
    """The branch that has the run's work, and its commit. `already` if there was nothing left to do.

    `hook_not_run` is a hook of the user that is a file of the repository, where agents can write.
    """

    branch: str
    target: str
    commit: str
    already: bool
    uncommitted: int = 0
    hook_not_run: str | None = None


class PullRequest(NamedTuple):
    """A pull request that was opened or found; or the page on which a person opens it."""

    url: str
    opened: bool
    pushed: PublishedBranch


class PullRequestOptions(NamedTuple):
    """The content of a pull request; missing parts come from the run."""

    base: str | None = None
    title: str | None = None
    body: str | None = None
    draft: bool = False


class PublishResult(NamedTuple):
    """What was published, as far as possible here."""

    remote: str | None = None
    commit: str | None = None
    url: str | None = None
    problem: str | None = None


async def open_pull_request(workspace: Workspace, remote: str | None, options: PullRequestOptions) -> PullRequest:
    """Open a pull request, in a session that owns the run."""
    repository, branch = workspace.repository, workspace.place().branch
    remote = await choose_remote(repository, remote)
    base = options.base or await _pull_request_base(workspace, remote)
    link = await compare_link(repository, remote, base, branch)
    pushed = await push_branch(workspace, remote)
    if not can_open_pull_requests(link):
        return PullRequest(link, opened=False, pushed=pushed)
    goal = workspace.info.goal
    title = options.title or (goal.strip().splitlines() or [pushed.branch])[0]
    body = options.body if options.body is not None else goal
    repo = await web_repository(repository, remote)
    effect = OpenPullRequest(repo=repo, base=base, title=title, body=body, draft=options.draft)
    url = (await workspace.effects.perform(effect))["url"]
    return PullRequest(url, opened=True, pushed=pushed)


async def publish_work(workspace: Workspace, mode: Publish, options: PullRequestOptions) -> PublishResult:
    """Publish as far as configured and possible: where no pull request can be opened, push the branch."""
    if mode is Publish.NOTHING:
        return PublishResult(problem="publishing is off")
    if not await workspace.repository.remotes():
        return PublishResult(problem="there is no remote to push to")
    try:
        remote = await choose_remote(workspace.repository, None)
    except BadInput as error:
        return PublishResult(problem=str(error))
    problem = None
    if mode is Publish.PR:
        try:
            requested = await open_pull_request(workspace, remote, options)
            return PublishResult(remote, requested.pushed.commit, requested.url)
        except BadInput as error:
            problem = str(error)
    pushed = await push_branch(workspace, remote)
    return PublishResult(remote, pushed.commit, problem=problem)


async def push_branch(workspace: Workspace, remote_name: str | None) -> PublishedBranch:
    """Push the run's branch to the chosen remote."""
    remote = await choose_remote(workspace.repository, remote_name)
    effect = Push(remote=remote, commit=await workspace.tip())
    branch, lacking = workspace.place().branch, await count_uncommitted(workspace)
    await _refuse_if_rewound(workspace, effect)
    there = await effect.probe(workspace.effects.site(""))
    if there.outcome is ProbeOutcome.YES:
        return PublishedBranch(branch, remote, there.result["commit"], already=True, uncommitted=lacking)
    await workspace.effects.perform(effect)
    return PublishedBranch(branch, remote, effect.commit, already=False, uncommitted=lacking)


async def _refuse_if_rewound(workspace: Workspace, effect: Push) -> None:
    """Raise `Denied` when the branch on the remote still ends with what a rewind took back: no push is forced."""
    state, repository, branch = workspace.effects.run.state, workspace.repository, workspace.place().branch
    pushed = state.published.get(Push.kind)
    if not state.rewinds or pushed is None or pushed.commit is None or pushed.where != effect.remote:
        return
    if await repository.commit_of(pushed.commit) is None or await repository.is_ancestor(pushed.commit, effect.commit):
        return
    if await remote_branch_commit(repository, effect.remote, branch) == pushed.commit:
        advice = (
            f"replace them with: git push --force-with-lease={branch}:{pushed.commit[:12]} {effect.remote} {branch}"
        )
        if workspace.info.remote is not None:  # a cluster run: no checkout has its branch
            advice = f"delete it there with: git push {workspace.info.remote} --delete {branch}"
        raise Denied(
            f"{branch} on {effect.remote} still has commits that a rewind took back, and Holdfast forces no push; "
            f"{advice}; then try again"
        )


async def _pull_request_base(workspace: Workspace, remote: str) -> str:
    """Return the branch that the run started from, if the remote has it; else the remote's default branch."""
    base = workspace.info.base
    known = await workspace.repository.refs(f"refs/remotes/{remote}/{base}") if base else {}
    return base if base and known else await default_branch(workspace.repository, remote)


async def merge_into_branch(workspace: Workspace, target: str, commit: str) -> str:
    """Merge a commit into a branch of the user, by fast-forward if possible. Returns the branch's new tip.

    Concurrent merges wait for each other. The branch moves only from the tip that was merged: if another git moves it
    meanwhile, the merge is built again.
    """
    repository, branch, effects = workspace.repository, workspace.place().branch, workspace.effects
    advice = f"nothing was merged; try again: holdfast merge {workspace.run_id} --into {target}"
    async with lock_repository(repository.common_dir, advice):
        for _ in range(MAX_MERGE_ATTEMPTS):
            effect_id = new_effect_id()  # named by the merge commit, which is made before the intent
            trailers = effects.site(effect_id).trailers()
            merge = await build_merge(repository, target, branch, commit, trailers)
            if merge.new == merge.old:
                return merge.old
            effect = MergeInto(target=target, commit=commit, **merge._asdict())
            with suppress(BranchMoved):
                return str((await effects.perform(effect, effect_id=effect_id))["commit"])
    raise Denied(f"another git moved {target} {MAX_MERGE_ATTEMPTS} times while {branch} was merged into it; {advice}")


async def count_uncommitted(workspace: Workspace) -> int:
    """Return how many files of the run's worktree are uncommitted, and so not published."""
    worktree = workspace.worktree()
    try:
        worktree.must_be_ours()
    except NotOurWorktree:
        return 0
    return len((await status_of(worktree)).changes)
