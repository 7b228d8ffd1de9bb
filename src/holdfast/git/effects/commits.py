"""A task's work as commits: the one it comes to, and the placeholder of one that failed."""

from typing import ClassVar

from holdfast.core.work.names import place_of
from holdfast.git.commit import Captured, commit_all, commit_captured, commit_tree, find_commit, tree_of
from holdfast.git.effects.base import GitEffect, Happened, InWorktree, Probe, Result, Site, no, unknown, yes
from holdfast.git.locks import clear_ref_locks
from holdfast.git.merge import forget_concluded_merge
from holdfast.git.placeholder import keep_failed, placeholder_of, unwind_failed, was_unwound
from holdfast.git.repository import ABSENT
from holdfast.git.snapshot import changed_files
from holdfast.git.worktrees.worktree import Worktree
from holdfast.leaf.failpoints import Point

_NAMED = 50  # files that a hook changed
_CRASH_COMPARED = Point("commit.compared")


class CommitTask(InWorktree, frozen=True, kw_only=True):
    """All that a task did since `base`, as one commit; what its agent committed itself, where there is nothing more.

    With a `tree`, exactly that is committed: it was captured before the checks, when HEAD was at `head` and `merging`
    was being merged. A hook may change it all the same; the result says so. For the rest see `Ground`.
    """

    kind: ClassVar[str] = "commit"
    base: str
    message: str
    tree: str | None = None
    head: str | None = None
    merging: str | None = None
    theirs: str | None = None
    unchecked: str | None = None
    agents: tuple[str, ...] = ()

    async def perform(self, site: Site) -> Result:
        worktree = self.worktree(site)
        ground = self.ground(site, self.base)
        ground = ground._replace(theirs=self.theirs, unchecked=self.unchecked, agents=self.agents)
        if self.tree is None:
            commit = await commit_all(worktree, ground, self.message, self.signature(site))
        else:
            captured = Captured(self.tree, self.head, self.merging)
            commit = await commit_captured(worktree, ground, self.message, self.signature(site), captured)
        commit = commit or await self._committed_already(worktree)
        await forget_concluded_merge(worktree)
        return await self._compared(site, commit)

    async def _committed_already(self, worktree: Worktree) -> str | None:
        """A merge that its agent concluded, or commits that are on another ground: they are the task's work too."""
        repository = worktree.repository
        head = await repository.commit_of(f"refs/heads/{worktree.branch}")
        return None if head is None or await repository.is_ancestor(head, self.base) else head

    async def probe(self, site: Site) -> Probe:
        """Where nothing was to be committed it cannot be told from what was never tried: it is tried again."""
        found = await _committed(self.worktree(site), self.base, site.effect)
        commit = found.result.get("commit")
        return yes(**await self._compared(site, commit)) if commit is not None else found

    async def _compared(self, site: Site, commit: str | None) -> Result:
        """The commit; and its tree with the files that differ, when that is not the one that was checked."""
        if commit is None or self.tree is None:
            return {"commit": commit}
        tree = await tree_of(site.repository.git, commit)
        if tree == self.tree:
            return {"commit": commit}
        _CRASH_COMPARED()
        return {
            "commit": commit,
            "tree": tree,
            "files": (await changed_files(site.repository, self.tree, tree))[:_NAMED],
        }


class CommitSeeds(GitEffect, frozen=True, kw_only=True):
    """The seed files as the first commit of the run's branch, which begins at `base` and is made by it.

    `tree` is all that the commit holds. No worktree is needed: there is none yet.
    """

    kind: ClassVar[str] = "seeds.commit"
    base: str
    tree: str

    async def perform(self, site: Site) -> Result:
        done = await self.probe(site)
        if done.happened is Happened.YES:
            return dict(done.result)
        text = f"Seed files\n\n{site.signature().trailers()}"
        commit = await commit_tree(site.repository, self.tree, [self.base], text)
        await site.repository.set_ref(f"refs/heads/{place_of(site.run_id).branch}", commit, ABSENT)
        return {"commit": commit}

    async def probe(self, site: Site) -> Probe:
        worktree = site.worktree(place_of(site.run_id))
        if await site.repository.commit_of(f"refs/heads/{worktree.branch}") is None:
            return no()
        commit = await find_commit(worktree, self.base, site.effect)
        return yes(commit=commit) if commit is not None else no()

    async def mend(self, site: Site) -> str | None:
        clear_ref_locks(site.repository.common_dir, f"refs/heads/{place_of(site.run_id).branch}")
        return None


class KeepFailed(InWorktree, frozen=True, kw_only=True):
    """The partial work of a failed task, as a placeholder commit."""

    kind: ClassVar[str] = "commit.failed"
    base: str
    reason: str

    async def perform(self, site: Site) -> Result:
        ground = self.ground(site, self.base)
        commit = await keep_failed(self.worktree(site), ground, self.reason, self.signature(site))
        await forget_concluded_merge(self.worktree(site))
        return {"commit": commit}

    async def probe(self, site: Site) -> Probe:
        return await _committed(self.worktree(site), self.base, site.effect)


class UnwindFailed(InWorktree, frozen=True, kw_only=True):
    """Take the placeholder commit of a task back, its content staying; what is on top of it is kept, beneath.

    The result names the placeholder, and the newest of the commits that were on top of it, as it is now.
    """

    kind: ClassVar[str] = "commit.unwind"
    base: str
    task: str

    async def perform(self, site: Site) -> Result:
        unwound = await unwind_failed(self.worktree(site), self.ground(site, self.base), self.task)
        return {"unwound": unwound.placeholder, "theirs": unwound.theirs}

    async def probe(self, site: Site) -> Probe:
        if await placeholder_of(self.worktree(site), self.base, self.task) is not None:
            return no()
        unwound = await was_unwound(self.worktree(site), self.ground(site, self.base), self.task)
        return yes(unwound=unwound.placeholder, theirs=unwound.theirs)


async def _committed(worktree: Worktree, base: str, effect: str) -> Probe:
    if await worktree.repository.commit_of(f"refs/heads/{worktree.branch}") is None:
        return unknown(f"the branch {worktree.branch} is gone")
    commit = await find_commit(worktree, base, effect)
    return yes(commit=commit) if commit is not None else no()
