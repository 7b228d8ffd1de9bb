"""Worktrees, made and removed. Nothing is removed before what is only there was saved."""

import os
import shutil
from functools import partial
from typing import ClassVar

from holdfast.core.workspace import Place, place_at
from holdfast.git.effects.base import InWorktree, Probe, Result, Site, no, salvaged_by, saved_as, yes
from holdfast.git.entries import drop_entries, entries_of
from holdfast.git.locks import clear_ref_locks
from holdfast.git.process import GitFailed, GitKilled
from holdfast.git.snapshot import is_restored, restore_snapshot, save, save_autostash, save_entries
from holdfast.git.worktree import (
    NotOurWorktree,
    Worktree,
    add_worktree,
    clear_half_made,
    is_half_made,
    is_made,
    status_of,
    unpushed_submodules,
)
from holdfast.leaf.crashing import Point
from holdfast.leaf.directories import sync_directory
from holdfast.leaf.errors import Denied

TRASH = "trash-"  # in the run's folder: what was saved and is being deleted

_CRASH_MOVED, _CRASH_DROPPED = Point("worktree.remove.moved"), Point("worktree.remove.dropped")


class MakeWorktree(InWorktree, frozen=True, kw_only=True):
    """On a branch that begins at `base`; with the files of a snapshot that was taken of it before it was deleted."""

    kind: ClassVar[str] = "worktree.make"
    base: str
    files: str | None = None

    async def perform(self, site: Site) -> Result:
        worktree, ref = self.worktree(site), f"{self.place(site).salvage}/{site.effect}"
        saved = await self._save_work(site)
        if not os.path.lexists(worktree.path) and not is_half_made(worktree):
            saved = await save_entries(worktree, ref)
        filled = partial(restore_snapshot, worktree, self.files) if self.files is not None else None
        await add_worktree(worktree, self.base, filled)
        return {"base": await self._begun_at(site), **saved_as(saved)}

    async def probe(self, site: Site) -> Probe:
        return yes(base=await self._begun_at(site)) if await is_made(self.worktree(site)) else no()

    async def mend(self, site: Site) -> str | None:
        clear_ref_locks(site.repository.common_dir, f"refs/heads/{self.place(site).branch}")
        if await is_made(self.worktree(site)):
            return None
        saved = await self._save_work(site)
        clear_half_made(self.worktree(site))
        return saved

    async def _begun_at(self, site: Site) -> str:
        """Where its branch began: at `base`, unless it was there before."""
        branch = f"refs/heads/{self.place(site).branch}"
        return await site.repository.merge_base(branch, self.base) or self.base

    async def _save_work(self, site: Site) -> str | None:
        """What is half made holds what git checked out, or less. If it holds more, somebody worked there."""
        worktree = self.worktree(site)
        if not is_half_made(worktree) or not os.path.isdir(worktree.path):
            return None
        try:
            worktree.must_be_ours()
            if any("D" not in change.status for change in (await status_of(worktree)).changes):
                return await save(worktree, f"{self.place(site).salvage}/{site.effect}", "What was half made")
        except GitKilled:
            raise
        except (NotOurWorktree, GitFailed):
            pass  # git cannot tell: then it was never whole
        return None


class RemoveWorktree(InWorktree, frozen=True, kw_only=True):
    """Save what is only there, then remove it. A folder that is not ours is not touched.

    The folder is moved away before it is deleted, so that half of it is never taken for the whole.
    """

    kind: ClassVar[str] = "worktree.remove"
    folder: str | None = None  # instead of a task: where it is in the run's own folder

    def place(self, site: Site) -> Place:
        return place_at(site.run_id, self.folder) if self.folder is not None else super().place(site)

    async def perform(self, site: Site) -> Result:
        worktree, place = self.worktree(site), self.place(site)
        if os.path.lexists(worktree.path):
            unpushed = await unpushed_submodules(worktree)
            if unpushed:
                raise Denied(
                    f"{worktree.path} holds submodules with commits of their own ({', '.join(unpushed)}); "
                    "push them, and try again"
                )
            await save_autostash(worktree, f"{place.salvage}/{site.effect}")
            await self._save(site, worktree)
            os.rename(worktree.path, self._trash(site))
            sync_directory(os.path.dirname(worktree.path))  # else it could come back with its entry dropped
            _CRASH_MOVED()
        else:
            await save_entries(worktree, f"{place.salvage}/{site.effect}")
        await self._bury(site)
        return await salvaged_by(site, place.salvage)

    async def _save(self, site: Site, worktree: Worktree) -> None:
        place = self.place(site)
        message = f"What stood in {place.folder} when it was removed"
        await save(worktree, f"{place.salvage}/{site.effect}", message)

    async def _bury(self, site: Site) -> None:
        """Delete what was moved away; and what came into it while it was being saved is saved before."""
        place, moved = self.place(site), self._trash(site)
        if os.path.isdir(moved):
            saved = (await salvaged_by(site, place.salvage)).get("salvaged")
            worktree = Worktree(site.repository, moved, place.branch, moved_from=self.worktree(site).path)
            try:
                if saved is None or not await is_restored(worktree, saved):
                    await self._save(site, worktree)
            except GitKilled:
                raise
            except (NotOurWorktree, GitFailed):
                pass  # all was saved where its entry is dropped; before, it was as it stood when it was moved
        drop_entries(site.repository.common_dir, self.worktree(site).path)
        _CRASH_DROPPED()
        shutil.rmtree(moved, ignore_errors=True)

    async def probe(self, site: Site) -> Probe:
        worktree = self.worktree(site)
        gone = not os.path.lexists(worktree.path) and not entries_of(site.repository.common_dir, worktree.path)
        return yes(**await salvaged_by(site, self.place(site).salvage)) if gone else no()

    async def mend(self, site: Site) -> str | None:
        await super().mend(site)
        if os.path.isdir(self._trash(site)):
            await self._bury(site)
        return (await salvaged_by(site, self.place(site).salvage)).get("salvaged")

    def _trash(self, site: Site) -> str:
        return os.path.join(site.folder, f"{TRASH}{site.effect}")
