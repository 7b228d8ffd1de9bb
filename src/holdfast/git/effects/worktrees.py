"""Worktrees, made and removed. Nothing is removed before what is only there was saved."""

import os
from contextlib import suppress
from functools import partial
from typing import ClassVar

from holdfast.core.work.names import Place, place_at
from holdfast.git.effects.base import InWorktree, Probe, Result, Site, no, salvaged_by, saved_as, yes
from holdfast.git.locks import clear_ref_locks
from holdfast.git.process import GitFailed, GitKilled
from holdfast.git.snapshot import is_all_in, is_nowhere_else, restore_snapshot, save, save_autostash, save_deleted
from holdfast.git.worktree_admin import can_be_read, drop_entries, entries_of
from holdfast.git.worktrees.half_made import holds_work
from holdfast.git.worktrees.link import is_unlinked, link
from holdfast.git.worktrees.worktree import (
    NotOurWorktree,
    Worktree,
    add_worktree,
    clear_half_made,
    is_half_made,
    is_made,
    status_of,
    unpushed_submodules,
)
from holdfast.leaf.errors import Denied
from holdfast.leaf.failpoints import Point
from holdfast.leaf.files.directories import is_there, remove_tree, sync_directory
from holdfast.leaf.files.sync import sync_file_systems

TRASH = "trash-"  # in the run's folder: what was saved, and is to be deleted
REMOVED = ".removed"  # beside where it stood: what is to be saved once more, and then deleted

_CRASH_MOVED, _CRASH_SAVED, _CRASH_DROPPED = (Point(f"worktree.remove.{at}") for at in ("moved", "saved", "dropped"))


class MakeWorktree(InWorktree, frozen=True, kw_only=True):
    """On a branch that begins at `base`; with the files of a snapshot that was taken of it before it was deleted.

    `last` is another one, which is saved where somebody deleted the folder.
    """

    kind: ClassVar[str] = "worktree.make"
    base: str
    files: str | None = None
    last: str | None = None

    async def perform(self, site: Site) -> Result:
        worktree = self.worktree(site)
        saved = await self._save_what_is_left(site)
        filled = partial(restore_snapshot, worktree, self.files) if self.files is not None else None
        await add_worktree(worktree, self.base, filled)
        return {"base": await self._begun_at(site), **saved_as(saved)}

    async def probe(self, site: Site) -> Probe:
        return yes(base=await self._begun_at(site)) if await is_made(self.worktree(site)) else no()

    async def mend(self, site: Site) -> str | None:
        clear_ref_locks(site.repository.common_dir, f"refs/heads/{self.place(site).branch}")
        if await is_made(self.worktree(site)):
            return None
        saved = await self._save_what_is_left(site)
        clear_half_made(self.worktree(site))
        return saved

    async def sync(self, site: Site) -> None:
        """That it is not half made any more: a probe may see so before it is on the disk."""
        sync_directory(os.path.dirname(self.worktree(site).path))

    async def _begun_at(self, site: Site) -> str:
        """Where its branch began: at `base`, unless it was there before. It may be gone: then it is made again."""
        branch = f"refs/heads/{self.place(site).branch}"
        try:
            return await site.repository.merge_base(branch, self.base) or self.base
        except GitFailed:
            if await site.repository.commit_of(branch) is not None:
                raise
            return self.base

    async def _save_what_is_left(self, site: Site) -> str | None:
        """Of a folder that somebody deleted, what git still has; of one that is half made, somebody's work in it.

        It holds what git checked out, or less. If it holds more, somebody worked there.
        """
        worktree, ref = self.worktree(site), f"{self.place(site).salvage}/{site.effect}"
        if not is_half_made(worktree):
            return None if is_there(worktree.path) else await save_deleted(worktree, ref, self.last)
        try:
            worktree.must_be_ours()
            head = (await status_of(worktree)).head or self.base
            written = (head, self.files) if self.files is not None else (head,)
            worked = await holds_work(worktree, *written)
        except GitKilled:
            raise
        except NotOurWorktree:
            return None  # git cannot tell: then it was never whole
        except GitFailed as error:
            if not all(map(can_be_read, worktree.notes())) or error.is_of_damage:
                return None
            raise
        return await save(worktree, ref, "What was half made") if worked else None


class LinkWorktree(InWorktree, frozen=True, kw_only=True):
    """Have a worktree whose `.git` was deleted or replaced lead to its repository again, its files as they are.

    `base` is where its branch began. The result names what stood in the place of `.git`: where it is now, and the refs
    that have its commits.
    """

    kind: ClassVar[str] = "worktree.link"
    base: str | None = None

    async def perform(self, site: Site) -> Result:
        replaced = await link(self.worktree(site), self.base, _of_replaced(site, self.place(site)))
        return {"set_aside": replaced.path, "salvaged": list(replaced.refs)}

    async def probe(self, site: Site) -> Probe:
        if is_unlinked(self.worktree(site)):
            return no()
        return yes(salvaged=sorted(await site.repository.refs(f"{_of_replaced(site, self.place(site))}/")))


def _of_replaced(site: Site, place: Place) -> str:
    """The refs for the branches of a repository that stood in the place of `.git`."""
    return f"{place.salvage}/{site.effect}-own"


class RemoveWorktree(InWorktree, frozen=True, kw_only=True):
    """Save what is only there, then remove it. A folder that is not ours is not touched.

    It is moved aside, looked at once more, moved to the trash, and deleted: so what is in the trash was saved, and
    half of a folder is never taken for the whole. Aside it is by its place, so that whoever removes it next finds it.
    One that lost its `.git` gets it again when it is aside: in its place it might be taken for a whole one.
    """

    kind: ClassVar[str] = "worktree.remove"
    folder: str | None = None  # instead of a task: where it is in the run's own folder
    last: str | None = None  # the snapshot by which it is known, should somebody have deleted it
    base: str | None = None  # where its branch began

    def place(self, site: Site) -> Place:
        return place_at(site.run_id, self.folder) if self.folder is not None else super().place(site)

    async def perform(self, site: Site) -> Result:
        worktree, place = self.worktree(site), self.place(site)
        if is_there(_aside(worktree.path)):
            await self._bury(site)
        if is_there(worktree.path):
            if not self._may_be_linked(site):
                await self._save_all(site, worktree)
            os.rename(worktree.path, _aside(worktree.path))
            sync_directory(os.path.dirname(worktree.path))  # else it could come back with its entry dropped
            _CRASH_MOVED()
        else:
            await save_deleted(worktree, f"{place.salvage}/{site.effect}", self.last)
        await self._bury(site)
        return await self._told(site)

    async def _told(self, site: Site) -> Result:
        own = sorted(await site.repository.refs(f"{_of_replaced(site, self.place(site))}/"))
        return {**await salvaged_by(site, self.place(site).salvage), **({"own": own} if own else {})}

    def _may_be_linked(self, site: Site) -> bool:
        """It lost its `.git`, and is the worktree of a branch that the run knows; not just any folder."""
        return self.base is not None and is_unlinked(self.worktree(site))

    async def _save_all(self, site: Site, worktree: Worktree) -> None:
        unpushed = await unpushed_submodules(worktree)
        if unpushed:
            raise Denied(
                f"{worktree.path} holds submodules with commits of their own ({', '.join(unpushed)}); "
                "push them, and try again"
            )
        await save_autostash(worktree, f"{self.place(site).salvage}/{site.effect}")
        await self._save(site, worktree)

    async def _save(self, site: Site, worktree: Worktree) -> None:
        place = self.place(site)
        message = f"What stood in {place.folder} when it was removed"
        await save(worktree, f"{place.salvage}/{site.effect}", message)

    async def _bury(self, site: Site) -> None:
        """Delete what was moved aside, after what came into it while it was being saved is saved as well.

        `Denied` when that cannot be: then it is back where it was.
        """
        path, aside, trash = self.worktree(site).path, _aside(self.worktree(site).path), self._trash(site)
        if is_there(aside):
            linked = False
            try:
                linked = await self._link(site, aside)
                await self._save_what_came(site, aside, linked=linked)
            except GitKilled:
                raise
            except (Denied, GitFailed) as error:
                told = str(error)
                with suppress(OSError):  # something else stands there now
                    if linked:
                        os.unlink(os.path.join(aside, ".git"))
                    os.rename(aside, path)
                    told = told.replace(aside, path)
                raise Denied(told) from error
            os.rename(aside, trash)
            sync_directory(site.folder)
            _CRASH_SAVED()
        drop_entries(site.repository.common_dir, path)
        _CRASH_DROPPED()
        remove_tree(trash)

    async def _link(self, site: Site, aside: str) -> bool:
        """True when it had to be, so that git can tell what is in it."""
        worktree = self._moved(site, aside)
        if self.base is None or not is_unlinked(worktree):
            return False
        await link(worktree, self.base, _of_replaced(site, self.place(site)))
        return True

    def _moved(self, site: Site, aside: str) -> Worktree:
        return Worktree(site.repository, aside, self.place(site).branch, moved_from=self.worktree(site).path)

    async def _save_what_came(self, site: Site, aside: str, *, linked: bool) -> None:
        place, worktree = self.place(site), self._moved(site, aside)
        saved = (await salvaged_by(site, place.salvage)).get("salvaged")
        try:
            if linked:
                await self._save_all(site, worktree)
            elif saved is None or not await is_all_in(worktree, saved):
                await self._save(site, worktree)
        except GitKilled:
            raise
        except GitFailed:
            if not os.path.exists(os.path.join(aside, ".gitmodules")):  # of a submodule that was moved git cannot tell
                raise

    async def sync(self, site: Site) -> None:
        await sync_file_systems(site.folder, site.repository.common_dir)

    async def probe(self, site: Site) -> Probe:
        path = self.worktree(site).path
        there = is_there(path) or is_there(_aside(path)) or entries_of(site.repository.common_dir, path)
        saved = await self._told(site)
        lacks = not saved and self.last is not None and await is_nowhere_else(self.worktree(site), self.last)
        return no() if there or lacks else yes(**saved)

    async def mend(self, site: Site) -> str | None:
        await super().mend(site)
        if is_there(_aside(self.worktree(site).path)) or is_there(self._trash(site)):
            await self._bury(site)
        return (await salvaged_by(site, self.place(site).salvage)).get("salvaged")

    def _trash(self, site: Site) -> str:
        return os.path.join(site.folder, f"{TRASH}{site.effect}")


def _aside(path: str) -> str:
    """Beside it, so that links which are relative stay true; of a name that no task's folder has."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}{REMOVED}")


def empty_trash(folder: str) -> None:
    """What could not be deleted when it was removed, or came back after a power cut."""
    for name in os.listdir(folder):
        if name.startswith(TRASH):
            remove_tree(os.path.join(folder, name))
