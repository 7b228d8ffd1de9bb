"""Effects of rewinds and forks: set a worktree and its branch back, and keep snapshots of another run."""

from typing import ClassVar

from holdfast.core.work.names import SNAPSHOT_REFS
from holdfast.git.effects.base import (
    EffectSite,
    GitEffect,
    ProbeResult,
    Result,
    WorktreeEffect,
    did_not_happen,
    find_salvaged,
    happened,
    salvaged_result,
)
from holdfast.git.locks import clear_ref_locks
from holdfast.git.merge import forget_merge
from holdfast.git.repository import ABSENT
from holdfast.git.snapshot import is_restored, restore_snapshot, save
from holdfast.git.worktrees.head import attach_head, head_of
from holdfast.git.worktrees.in_progress import merge_head
from holdfast.git.worktrees.worktree import Worktree, sync_worktree
from holdfast.leaf.failpoints import Failpoint

_FAILPOINT_SAVED, _FAILPOINT_MOVED = (Failpoint(f"worktree.rewind.{at}") for at in ("saved", "moved"))


class RewindWorktree(WorktreeEffect, frozen=True, kw_only=True):
    """Set the branch of a worktree back to `tip`, and its files to the snapshot or commit `commit`.

    First saves the files and the commits that are there now.
    """

    kind: ClassVar[str] = "worktree.rewind"
    tip: str
    commit: str

    async def perform(self, site: EffectSite) -> Result:
        worktree, repository = self.worktree(site), site.repository
        if await self._is_done(worktree):
            return {}
        place = self.place(site)
        ref = f"{place.salvage_refs}/{site.effect_id}"
        head = await head_of(worktree)
        saved = await save(worktree, ref, f"Files of {place.folder} before a rewind")
        if head.own_tip is not None and not await repository.is_ancestor(head.own_tip, self.tip):
            saved = saved or await repository.save_ref(ref, head.own_tip)
            if not head.is_on_own_branch:  # else the saved files are based on it
                await repository.save_ref(f"{ref}-branch", head.own_tip)
        _FAILPOINT_SAVED()
        if head.own_tip != self.tip:
            await repository.set_ref(f"refs/heads/{worktree.branch}", self.tip, head.own_tip or ABSENT)
        if not head.is_on_own_branch:
            await attach_head(worktree)
        _FAILPOINT_MOVED()
        if merge_head(worktree.must_be_ours()) is not None:
            await forget_merge(worktree)
        await restore_snapshot(worktree, self.commit)
        return salvaged_result(saved)

    async def sync(self, site: EffectSite) -> None:
        await sync_worktree(self.worktree(site))

    async def probe(self, site: EffectSite) -> ProbeResult:
        done = await self._is_done(self.worktree(site))
        return happened(**await find_salvaged(site, self.place(site).salvage_refs)) if done else did_not_happen()

    async def repair(self, site: EffectSite) -> str | None:
        clear_ref_locks(site.repository.common_dir, f"refs/heads/{self.place(site).branch}")
        await super().repair(site)
        return (await find_salvaged(site, self.place(site).salvage_refs)).get("salvaged")

    async def _is_done(self, worktree: Worktree) -> bool:
        head = await head_of(worktree)
        if not head.is_on_own_branch or head.own_tip != self.tip:
            return False
        return merge_head(worktree.must_be_ours()) is None and await is_restored(worktree, self.commit)


class KeepSnapshots(GitEffect, frozen=True, kw_only=True):
    """Keep commits of another run under refs of this one. Commits that git does not have any more are left out."""

    kind: ClassVar[str] = "refs.keep"
    refs: dict[str, str]

    async def perform(self, site: EffectSite) -> Result:
        for ref, commit in await self._missing(site):
            await site.repository.set_ref(ref, commit)
        return {}

    async def probe(self, site: EffectSite) -> ProbeResult:
        return did_not_happen() if await self._missing(site) else happened()

    async def _missing(self, site: EffectSite) -> list[tuple[str, str]]:
        there = await site.repository.refs(f"{SNAPSHOT_REFS}{site.run_id}/")
        left = [(ref, commit) for ref, commit in self.refs.items() if there.get(ref) != commit]
        return [(ref, commit) for ref, commit in left if await site.repository.commit_of(commit) is not None]
