"""What leaves the machine: pushes and pull requests."""

import shutil
from typing import ClassVar

from holdfast.core.work.names import place_of
from holdfast.git.effects.base import GitEffect, InWorktree, Probe, Result, Site, no, unknown, yes
from holdfast.git.locks import clear_ref_locks, clear_shared_locks
from holdfast.git.process import Git, GitFailed
from holdfast.git.remote import Request, fetch, find_pull_request, folder_of, open_pull_request, push, pushed
from holdfast.git.worktrees.worktree import NotOurWorktree


class Push(InWorktree, frozen=True, kw_only=True):
    """Bring `commit` of the run's branch to the branch of the same name on a remote; never by force.

    From the run's worktree, while there is one: that is where the user's hooks look at what is pushed.
    """

    kind: ClassVar[str] = "push"
    remote: str
    commit: str

    def unlock(self, site: Site) -> None:
        super().unlock(site)
        tracking = f"refs/remotes/{self.remote}/{self.place(site).branch}"
        clear_shared_locks(site.repository.common_dir, tracking)

    async def perform(self, site: Site) -> Result:
        await self._unlock_there(site)
        await push(self._git(site), self.remote, self.place(site).branch, self.commit)
        return {"commit": self.commit}

    async def probe(self, site: Site) -> Probe:
        branch = self.place(site).branch
        try:
            at = await pushed(site.repository, self.remote, branch)
        except GitFailed as error:
            return unknown(str(error))
        if at is None:
            return no()
        try:
            if await site.repository.commit_of(at) is None:
                await fetch(site.repository, self.remote, branch)
            there = await site.repository.is_ancestor(self.commit, at)
        except GitFailed:
            return unknown(f"{self.remote} has {branch} at {at[:12]}, which is not known here")
        return yes(commit=at) if there else no()

    async def mend(self, site: Site) -> str | None:
        clear_ref_locks(site.repository.common_dir, f"refs/remotes/{self.remote}/{self.place(site).branch}")
        await self._unlock_there(site)
        return None

    async def _unlock_there(self, site: Site) -> None:
        """On this machine, what receives it is one of ours: it is ended with us, or killed alone."""
        there = await folder_of(site.repository, self.remote)
        if there is not None:
            clear_ref_locks(there, f"refs/heads/{self.place(site).branch}")

    def _git(self, site: Site) -> Git:
        worktree = self.worktree(site)
        try:
            worktree.must_be_ours()
        except NotOurWorktree:
            return site.repository.git
        return worktree.git


class OpenPullRequest(GitEffect, frozen=True, kw_only=True):
    """Ask for the branch to be merged, once: whoever finds a request from that branch opens no other."""

    kind: ClassVar[str] = "pull_request"
    repo: str | None = None
    base: str
    title: str
    body: str = ""
    draft: bool = False

    async def perform(self, site: Site) -> Result:
        request = Request(self.repo, place_of(site.run_id).branch, self.base, self.title, self.body, self.draft)
        return {"url": await open_pull_request(site.repository, request)}

    async def probe(self, site: Site) -> Probe:
        if shutil.which("gh") is None:
            return unknown("gh is not here to ask")
        try:
            url = await find_pull_request(site.repository, self.repo, place_of(site.run_id).branch)
        except GitFailed as error:
            return unknown(str(error))
        return yes(url=url) if url is not None else no()
