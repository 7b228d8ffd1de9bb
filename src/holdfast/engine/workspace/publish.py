"""Giving a run's work to others: into a branch of the user's, to a remote, as a pull request. Each of them once."""

from typing import NamedTuple

from holdfast.core.work.workflow import Publish
from holdfast.engine.workspace.workspace import Workspace
from holdfast.git.effects import Happened, OpenPullRequest, Push
from holdfast.git.remote import can_open_pull_requests, choose_remote, compare_link, default_branch, web_repository
from holdfast.git.worktrees.worktree import NotOurWorktree, status_of
from holdfast.leaf.errors import BadInput


class Published(NamedTuple):
    """Where the run's branch went, and at which commit. `already` when there was nothing left to do."""

    branch: str
    target: str
    commit: str
    already: bool
    uncommitted: int = 0


class Requested(NamedTuple):
    """A pull request: opened or found; or the page on which a person opens it."""

    url: str
    opened: bool
    pushed: Published


class Wish(NamedTuple):
    """What a pull request should say; what is not given comes from the run."""

    base: str | None = None
    title: str | None = None
    body: str | None = None
    draft: bool = False


class HandedOver(NamedTuple):
    """What came of giving the work to others as far as that is possible here."""

    remote: str | None = None
    commit: str | None = None
    url: str | None = None
    problem: str | None = None


async def pull_requested(workspace: Workspace, remote: str | None, wish: Wish) -> Requested:
    """The same, by whoever owns the run."""
    repository, branch = workspace.repository, workspace.place().branch
    remote = await choose_remote(repository, remote)
    base = wish.base or await _base_on(workspace, remote)
    link = await compare_link(repository, remote, base, branch)
    pushed = await published(workspace, remote)
    if not can_open_pull_requests(link):
        return Requested(link, opened=False, pushed=pushed)
    goal = workspace.info.goal
    title = wish.title or (goal.strip().splitlines() or [pushed.branch])[0]
    body = wish.body if wish.body is not None else goal
    repo = await web_repository(repository, remote)
    effect = OpenPullRequest(repo=repo, base=base, title=title, body=body, draft=wish.draft)
    url = (await workspace.hands.perform(effect))["url"]
    return Requested(url, opened=True, pushed=pushed)


async def handed_over(workspace: Workspace, wanted: Publish, wish: Wish) -> HandedOver:
    """As far as it is wanted, and can be: where nobody opens pull requests, the branch is pushed."""
    if wanted is Publish.NOTHING:
        return HandedOver(problem="nobody wants it published")
    if not await workspace.repository.remotes():
        return HandedOver(problem="there is no remote to push to")
    try:
        remote = await choose_remote(workspace.repository, None)
    except BadInput as error:
        return HandedOver(problem=str(error))
    problem = None
    if wanted is Publish.PR:
        try:
            requested = await pull_requested(workspace, remote, wish)
            return HandedOver(remote, requested.pushed.commit, requested.url)
        except BadInput as error:
            problem = str(error)
    pushed = await published(workspace, remote)
    return HandedOver(remote, pushed.commit, problem=problem)


async def published(workspace: Workspace, wanted: str | None) -> Published:
    """The run's branch, at the remote that is wanted."""
    remote = await choose_remote(workspace.repository, wanted)
    effect = Push(remote=remote, commit=await workspace.tip())
    branch, lacking = workspace.place().branch, await _uncommitted(workspace)
    there = await effect.probe(workspace.hands.site(""))
    if there.happened is Happened.YES:
        return Published(branch, remote, there.result["commit"], already=True, uncommitted=lacking)
    await workspace.hands.perform(effect)
    return Published(branch, remote, effect.commit, already=False, uncommitted=lacking)


async def _base_on(workspace: Workspace, remote: str) -> str:
    """The branch that the run began from, if the remote has it; else the remote's own first."""
    base = workspace.info.base
    known = await workspace.repository.refs(f"refs/remotes/{remote}/{base}") if base else {}
    return base if base and known else await default_branch(workspace.repository, remote)


async def _uncommitted(workspace: Workspace) -> int:
    """How many files of the run's worktree are in no commit, and so are not published."""
    worktree = workspace.worktree()
    try:
        worktree.must_be_ours()
    except NotOurWorktree:
        return 0
    return len((await status_of(worktree)).changes)
