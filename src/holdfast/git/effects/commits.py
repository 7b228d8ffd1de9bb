"""A task's work as commits: the one it comes to, and the placeholder of one that failed."""

from typing import ClassVar

from holdfast.git.commit import commit_all, find_commit, keep_failed, placeholder_of, unwind_failed
from holdfast.git.effects.base import InWorktree, Probe, Result, Site, no, unknown, yes
from holdfast.git.merge import forget_concluded_merge
from holdfast.git.worktree import Worktree


class CommitTask(InWorktree, frozen=True, kw_only=True):
    """All that a task did since `base`, as one commit; what its agent committed itself, where there is nothing more."""

    kind: ClassVar[str] = "commit"
    base: str
    message: str

    async def perform(self, site: Site) -> Result:
        worktree, ground = self.worktree(site), self.ground(site, self.base)
        commit = await commit_all(worktree, ground, self.message, self.signature(site))
        return await _concluded(worktree, commit or await self._committed_already(worktree))

    async def _committed_already(self, worktree: Worktree) -> str | None:
        """A merge that its agent concluded, or commits that are on another ground: they are the task's work too."""
        repository = worktree.repository
        head = await repository.commit_of(f"refs/heads/{worktree.branch}")
        return None if head is None or await repository.is_ancestor(head, self.base) else head

    async def probe(self, site: Site) -> Probe:
        """Where nothing was to be committed it cannot be told from what was never tried: it is tried again."""
        return await _committed(self.worktree(site), self.base, site.effect)


class KeepFailed(InWorktree, frozen=True, kw_only=True):
    """The partial work of a failed task, as a placeholder commit."""

    kind: ClassVar[str] = "commit.failed"
    base: str
    reason: str

    async def perform(self, site: Site) -> Result:
        ground = self.ground(site, self.base)
        commit = await keep_failed(self.worktree(site), ground, self.reason, self.signature(site))
        return await _concluded(self.worktree(site), commit)

    async def probe(self, site: Site) -> Probe:
        return await _committed(self.worktree(site), self.base, site.effect)


class UnwindFailed(InWorktree, frozen=True, kw_only=True):
    """Take the placeholder commit that a task's branch ends with back, its content staying."""

    kind: ClassVar[str] = "commit.unwind"
    base: str
    task: str

    async def perform(self, site: Site) -> Result:
        return {"unwound": await unwind_failed(self.worktree(site), self.ground(site, self.base), self.task)}

    async def probe(self, site: Site) -> Probe:
        there = await placeholder_of(self.worktree(site), self.base, self.task)
        kept = await site.repository.commit_of(self.ground(site, self.base).taken_back)
        return yes(unwound=kept) if there is None or kept not in (None, there) else no()


async def _concluded(worktree: Worktree, commit: str | None) -> Result:
    await forget_concluded_merge(worktree)
    return {"commit": commit}


async def _committed(worktree: Worktree, base: str, effect: str) -> Probe:
    if await worktree.repository.commit_of(f"refs/heads/{worktree.branch}") is None:
        return unknown(f"the branch {worktree.branch} is gone")
    commit = await find_commit(worktree, base, effect)
    return yes(commit=commit) if commit is not None else no()
