"""Effects that leave the machine: pushes and pull requests."""

import shutil
from typing import ClassVar

from holdfast.core.work.names import worktree_names
from holdfast.git.effects.base import (
    EffectSite,
    GitEffect,
    ProbeResult,
    Result,
    WorktreeEffect,
    did_not_happen,
    happened,
    unknown_outcome,
)
from holdfast.git.locks import clear_ref_locks, clear_shared_locks
from holdfast.git.process import Git, GitFailed
from holdfast.git.remote import (
    PullRequestSpec,
    fetch,
    find_pull_request,
    open_pull_request,
    push,
    remote_branch_commit,
    remote_folder,
)
from holdfast.git.worktrees.worktree import NotOurWorktree


class Push(WorktreeEffect, frozen=True, kw_only=True):
    """Push `commit` to the branch with the run branch's name on a remote; never with force.

    Runs in the run's worktree, while it exists: the user's pre-push hook sees the pushed files there.
    """

    kind: ClassVar[str] = "push"
    remote: str
    commit: str

    def clear_locks(self, site: EffectSite) -> None:
        super().clear_locks(site)
        tracking = f"refs/remotes/{self.remote}/{self.place(site).branch}"
        clear_shared_locks(site.repository.common_dir, tracking)

    async def perform(self, site: EffectSite) -> Result:
        await self._clear_remote_locks(site)
        await push(self._git(site), site.repository, self.remote, self.place(site).branch, self.commit)
        return {"commit": self.commit}

    async def probe(self, site: EffectSite) -> ProbeResult:
        branch = self.place(site).branch
        try:
            at = await remote_branch_commit(site.repository, self.remote, branch)
        except GitFailed as error:
            return unknown_outcome(str(error))
        if at is None:
            return did_not_happen()
        try:
            if await site.repository.commit_of(at) is None:
                await fetch(site.repository, self.remote, branch)
            is_pushed = await site.repository.is_ancestor(self.commit, at)
        except GitFailed:
            return unknown_outcome(f"{branch} is at {at[:12]} on {self.remote}, and that commit could not be fetched")
        return happened(commit=at) if is_pushed else did_not_happen()

    async def repair(self, site: EffectSite) -> str | None:
        clear_ref_locks(site.repository.common_dir, f"refs/remotes/{self.remote}/{self.place(site).branch}")
        await self._clear_remote_locks(site)
        return None

    async def _clear_remote_locks(self, site: EffectSite) -> None:
        """A remote on this machine is written by a child process of ours, which may have been killed."""
        folder = await remote_folder(site.repository, self.remote)
        if folder is not None:
            clear_ref_locks(folder, f"refs/heads/{self.place(site).branch}")

    def _git(self, site: EffectSite) -> Git:
        worktree = self.worktree(site)
        try:
            worktree.must_be_ours()
        except NotOurWorktree:
            return site.repository.git
        return worktree.git


class OpenPullRequest(GitEffect, frozen=True, kw_only=True):
    """Open a pull request for the run's branch, unless one from that branch exists."""

    kind: ClassVar[str] = "pull_request"
    repo: str | None = None
    base: str
    title: str
    body: str = ""
    draft: bool = False

    async def perform(self, site: EffectSite) -> Result:
        spec = PullRequestSpec(
            self.repo, worktree_names(site.run_id).branch, self.base, self.title, self.body, self.draft
        )
        return {"url": await open_pull_request(site.repository, spec)}

    async def probe(self, site: EffectSite) -> ProbeResult:
        if shutil.which("gh") is None:
            return unknown_outcome("gh was not found")
        try:
            url = await find_pull_request(site.repository, self.repo, worktree_names(site.run_id).branch)
        except GitFailed as error:
            return unknown_outcome(str(error))
        return happened(url=url) if url is not None else did_not_happen()
