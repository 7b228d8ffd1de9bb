"""The files of a worktree as they are, kept and brought back."""

from typing import ClassVar

from holdfast.git.commit import tree_of
from holdfast.git.effects.base import InWorktree, Probe, Result, Site, no, salvaged_by, saved_as, yes
from holdfast.git.snapshot import is_restored, restore_snapshot, save, take_snapshot
from holdfast.git.worktrees.worktree import sync

CHECKED = "checked"  # the name of what was captured before the checks


class TakeSnapshot(InWorktree, frozen=True, kw_only=True):
    """The worktree as it is, under a name; `replaces` is what the name stood for before."""

    kind: ClassVar[str] = "snapshot.take"
    name: str
    replaces: str | None = None

    async def perform(self, site: Site) -> Result:
        snapshot = await take_snapshot(self.worktree(site), self._ref(site), f"Snapshot {self.name}")
        return {"commit": snapshot.oid, "clean": snapshot.clean, "left_out": list(snapshot.left_out)}

    async def probe(self, site: Site) -> Probe:
        oid = await site.repository.commit_of(self._ref(site))
        return yes(commit=oid) if oid not in (None, self.replaces) else no()

    def _ref(self, site: Site) -> str:
        return f"{self.place(site).snapshots}/{self.name}"


class CaptureTree(InWorktree, frozen=True, kw_only=True):
    """What is about to be checked, kept by a ref of its own; `replaces` is what was kept by it before.

    The whole worktree, or how the files of the tree `within` are now. `nested` in the result are repositories inside of
    it whose files are not in the tree; `dirty` are submodules with files that are in no commit of theirs.
    """

    kind: ClassVar[str] = "tree.capture"
    name: str = CHECKED
    replaces: str | None = None
    within: str | None = None

    async def perform(self, site: Site) -> Result:
        taken = await take_snapshot(self.worktree(site), self._ref(site), "Before the checks", self.within)
        tree = await tree_of(site.repository.git, taken.oid)
        dirty = [path for path in taken.left_out if path not in taken.nested]
        return {"commit": taken.oid, "tree": tree, "head": taken.head, "nested": list(taken.nested), "dirty": dirty}

    async def probe(self, site: Site) -> Probe:
        """Whoever was cut off over it captures anew, before the checks begin anew."""
        oid = await site.repository.commit_of(self._ref(site))
        return yes(commit=oid) if oid not in (None, self.replaces) else no()

    def _ref(self, site: Site) -> str:
        return f"{self.place(site).snapshots}/{self.name}"


class RestoreSnapshot(InWorktree, frozen=True, kw_only=True):
    """The files as they were in the snapshot `commit`; as they are now, they are saved first."""

    kind: ClassVar[str] = "snapshot.restore"
    commit: str

    async def perform(self, site: Site) -> Result:
        worktree = self.worktree(site)
        if await is_restored(worktree, self.commit):
            return {}
        place = self.place(site)
        saved = await save(worktree, f"{place.salvage}/{site.effect}", f"What stood in {place.folder} before a restore")
        await restore_snapshot(worktree, self.commit)
        return saved_as(saved)

    async def sync(self, site: Site) -> None:
        await sync(self.worktree(site))

    async def probe(self, site: Site) -> Probe:
        done = await is_restored(self.worktree(site), self.commit)
        return yes(**await salvaged_by(site, self.place(site).salvage)) if done else no()

    async def mend(self, site: Site) -> str | None:
        return (await salvaged_by(site, self.place(site).salvage)).get("salvaged")
