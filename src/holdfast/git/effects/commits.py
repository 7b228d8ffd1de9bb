"""Effects that commit: a task's result, seed files, and the placeholder of a failed task."""

from typing import ClassVar

from holdfast.core.work.names import worktree_names
from holdfast.git.commit import CapturedTree, commit_all, commit_captured, commit_tree, find_commit
from holdfast.git.effects.base import (
    EffectSite,
    GitEffect,
    ProbeOutcome,
    ProbeResult,
    Result,
    WorktreeEffect,
    did_not_happen,
    happened,
    unknown_outcome,
)
from holdfast.git.locks import clear_ref_locks
from holdfast.git.merge import forget_concluded_merge
from holdfast.git.placeholder import commit_placeholder, find_placeholder, recover_unwind_result, unwind_placeholder
from holdfast.git.repository import ABSENT
from holdfast.git.snapshot import changed_files
from holdfast.git.worktrees.worktree import Worktree
from holdfast.leaf.failpoints import Failpoint

_MAX_LISTED_FILES = 50  # files that a hook changed
_FAILPOINT_COMPARED = Failpoint("commit.compared")


class CommitTask(WorktreeEffect, frozen=True, kw_only=True):
    """Commit everything a task did since `base` as one commit; with nothing to commit, use the agent's own commits.

    With a `tree`, commit exactly that: it was captured before the checks, when HEAD was at `head` and `merging` was
    being merged. A hook may still change it; the result says so. For the other fields see `CommitContext`.
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

    async def perform(self, site: EffectSite) -> Result:
        worktree = self.worktree(site)
        context = self.commit_context(site, self.base)
        context = context._replace(theirs=self.theirs, unchecked=self.unchecked, agents=self.agents)
        if self.tree is None:
            commit = await commit_all(worktree, context, self.message, self.trailers(site))
        else:
            captured = CapturedTree(self.tree, self.head, self.merging)
            commit = await commit_captured(worktree, context, self.message, self.trailers(site), captured)
        commit = commit or await self._existing_commit(worktree)
        await forget_concluded_merge(worktree)
        return await self._compare_trees(site, commit)

    async def _existing_commit(self, worktree: Worktree) -> str | None:
        """Return the branch tip: a merge that the agent finished, or commits not based on `base`, are its work too."""
        repository = worktree.repository
        head = await repository.commit_of(f"refs/heads/{worktree.branch}")
        return None if head is None or await repository.is_ancestor(head, self.base) else head

    async def probe(self, site: EffectSite) -> ProbeResult:
        """An attempt that had nothing to commit looks like one that never ran: it is repeated."""
        found = await _probe_commit(self.worktree(site), self.base, site.effect_id)
        commit = found.result.get("commit")
        return happened(**await self._compare_trees(site, commit)) if commit is not None else found

    async def _compare_trees(self, site: EffectSite, commit: str | None) -> Result:
        """Return the commit and, when its tree is not the checked one, that tree with the files that differ."""
        if commit is None or self.tree is None:
            return {"commit": commit}
        tree = await site.repository.tree_of(commit)
        if tree == self.tree:
            return {"commit": commit}
        _FAILPOINT_COMPARED()
        return {
            "commit": commit,
            "tree": tree,
            "files": (await changed_files(site.repository, self.tree, tree))[:_MAX_LISTED_FILES],
        }


class CommitSeeds(GitEffect, frozen=True, kw_only=True):
    """Create the run's branch at `base` with the seed files, or the user's uncommitted changes, as its first commit.

    `tree` is the full tree of the commit. Needs no worktree: none exists yet. `changed` and `seeds` count the files.
    """

    kind: ClassVar[str] = "seeds.commit"
    base: str
    tree: str
    title: str = "Seed files"
    changed: int = 0
    seeds: int | None = None

    async def perform(self, site: EffectSite) -> Result:
        done = await self.probe(site)
        if done.outcome is ProbeOutcome.YES:
            return dict(done.result)
        text = f"{self.title}\n\n{site.trailers().render()}"
        commit = await commit_tree(site.repository, self.tree, [self.base], text)
        await site.repository.set_ref(f"refs/heads/{worktree_names(site.run_id).branch}", commit, ABSENT)
        return {"commit": commit}

    async def probe(self, site: EffectSite) -> ProbeResult:
        worktree = site.worktree(worktree_names(site.run_id))
        if await site.repository.commit_of(f"refs/heads/{worktree.branch}") is None:
            return did_not_happen()
        commit = await find_commit(worktree, self.base, site.effect_id)
        return happened(commit=commit) if commit is not None else did_not_happen()

    async def repair(self, site: EffectSite) -> str | None:
        clear_ref_locks(site.repository.common_dir, f"refs/heads/{worktree_names(site.run_id).branch}")
        return None


class CommitPlaceholder(WorktreeEffect, frozen=True, kw_only=True):
    """Commit the partial work of a failed task as a placeholder."""

    kind: ClassVar[str] = "commit.failed"
    base: str
    reason: str

    async def perform(self, site: EffectSite) -> Result:
        context = self.commit_context(site, self.base)
        commit = await commit_placeholder(self.worktree(site), context, self.reason, self.trailers(site))
        await forget_concluded_merge(self.worktree(site))
        return {"commit": commit}

    async def probe(self, site: EffectSite) -> ProbeResult:
        return await _probe_commit(self.worktree(site), self.base, site.effect_id)


class UnwindPlaceholder(WorktreeEffect, frozen=True, kw_only=True):
    """Undo the placeholder commit of a task and keep its content; rebuild the commits on top of it below.

    The result names the placeholder, and the newest of the rebuilt commits.
    """

    kind: ClassVar[str] = "commit.unwind"
    base: str
    task: str

    async def perform(self, site: EffectSite) -> Result:
        unwound = await unwind_placeholder(self.worktree(site), self.commit_context(site, self.base), self.task)
        return {"unwound": unwound.placeholder, "theirs": unwound.theirs}

    async def probe(self, site: EffectSite) -> ProbeResult:
        if await find_placeholder(self.worktree(site), self.base, self.task) is not None:
            return did_not_happen()
        unwound = await recover_unwind_result(self.worktree(site), self.commit_context(site, self.base), self.task)
        return happened(unwound=unwound.placeholder, theirs=unwound.theirs)


async def _probe_commit(worktree: Worktree, base: str, effect_id: str) -> ProbeResult:
    if await worktree.repository.commit_of(f"refs/heads/{worktree.branch}") is None:
        return unknown_outcome(f"the branch {worktree.branch} does not exist")
    commit = await find_commit(worktree, base, effect_id)
    return happened(commit=commit) if commit is not None else did_not_happen()
