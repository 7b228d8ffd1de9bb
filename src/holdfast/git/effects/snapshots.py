"""Effects that save and restore the files of a worktree."""

from typing import ClassVar

from holdfast.git.effects.base import (
    EffectSite,
    ProbeResult,
    Result,
    WorktreeEffect,
    did_not_happen,
    find_salvaged,
    happened,
    salvaged_result,
)
from holdfast.git.snapshot import is_restored, restore_snapshot, save, take_snapshot
from holdfast.git.worktrees.worktree import sync_worktree

CHECKED_SNAPSHOT = "checked"  # the name of the snapshot that is captured before the checks


class TakeSnapshot(WorktreeEffect, frozen=True, kw_only=True):
    """Save the worktree under a name; `replaces` is the previous snapshot of that name."""

    kind: ClassVar[str] = "snapshot.take"
    name: str
    replaces: str | None = None

    async def perform(self, site: EffectSite) -> Result:
        snapshot = await take_snapshot(self.worktree(site), self._ref(site), f"Snapshot {self.name}")
        return {"commit": snapshot.oid, "clean": snapshot.is_clean, "left_out": list(snapshot.left_out)}

    async def probe(self, site: EffectSite) -> ProbeResult:
        oid = await site.repository.commit_of(self._ref(site))
        return happened(commit=oid) if oid not in (None, self.replaces) else did_not_happen()

    def _ref(self, site: EffectSite) -> str:
        return f"{self.place(site).snapshot_refs}/{self.name}"


class CaptureTree(WorktreeEffect, frozen=True, kw_only=True):
    """Save the tree that is about to be checked under a ref; `replaces` is the previous one.

    Captures the whole worktree, or the current content of the files in the tree `within`. In the result, `nested` are
    repositories whose files are not in the tree, and `dirty` are submodules with uncommitted files.
    """

    kind: ClassVar[str] = "tree.capture"
    name: str = CHECKED_SNAPSHOT
    replaces: str | None = None
    within: str | None = None

    async def perform(self, site: EffectSite) -> Result:
        snapshot = await take_snapshot(self.worktree(site), self._ref(site), "Before the checks", self.within)
        tree = snapshot.tree or await site.repository.tree_of(snapshot.oid)
        dirty = [path for path in snapshot.left_out if path not in snapshot.nested]
        return {
            "commit": snapshot.oid,
            "tree": tree,
            "head": snapshot.head,
            "nested": list(snapshot.nested),
            "dirty": dirty,
        }

    async def probe(self, site: EffectSite) -> ProbeResult:
        """An interrupted session captures again before it repeats the checks."""
        oid = await site.repository.commit_of(self._ref(site))
        return happened(commit=oid) if oid not in (None, self.replaces) else did_not_happen()

    def _ref(self, site: EffectSite) -> str:
        return f"{self.place(site).snapshot_refs}/{self.name}"


class RestoreSnapshot(WorktreeEffect, frozen=True, kw_only=True):
    """Restore the files of the snapshot `commit`, after saving the current files."""

    kind: ClassVar[str] = "snapshot.restore"
    commit: str

    async def perform(self, site: EffectSite) -> Result:
        worktree = self.worktree(site)
        if await is_restored(worktree, self.commit):
            return {}
        place = self.place(site)
        saved = await save(
            worktree, f"{place.salvage_refs}/{site.effect_id}", f"Files of {place.folder} before a restore"
        )
        await restore_snapshot(worktree, self.commit)
        return salvaged_result(saved)

    async def sync(self, site: EffectSite) -> None:
        await sync_worktree(self.worktree(site))

    async def probe(self, site: EffectSite) -> ProbeResult:
        done = await is_restored(self.worktree(site), self.commit)
        return happened(**await find_salvaged(site, self.place(site).salvage_refs)) if done else did_not_happen()

    async def repair(self, site: EffectSite) -> str | None:
        return (await find_salvaged(site, self.place(site).salvage_refs)).get("salvaged")
