"""Effects that create, link and remove worktrees. Nothing is removed before its unsaved work was saved."""

import os
from contextlib import suppress
from functools import partial
from typing import ClassVar

from holdfast.core.work.names import WorktreeNames, worktree_names_at
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
from holdfast.git.locks import clear_ref_locks
from holdfast.git.process import GitFailed, GitKilled
from holdfast.git.snapshot import is_fully_saved, is_only_here, restore_snapshot, save, save_autostash, save_deleted
from holdfast.git.worktree_admin import drop_entries, entries_of, is_readable
from holdfast.git.worktrees.half_made import has_work
from holdfast.git.worktrees.link import is_unlinked, link
from holdfast.git.worktrees.worktree import (
    NotOurWorktree,
    Worktree,
    add_worktree,
    delete_half_made,
    is_complete,
    is_half_made,
    status_of,
    unpushed_submodules,
)
from holdfast.leaf.errors import Denied
from holdfast.leaf.failpoints import Failpoint
from holdfast.leaf.files.directories import path_exists, remove_tree, sync_directory
from holdfast.leaf.files.sync import sync_file_systems

TRASH_PREFIX = "trash-"  # in the run's folder: saved, and about to be deleted
REMOVED_SUFFIX = ".removed"  # beside the original path: to be saved once more, then deleted

_FAILPOINT_MOVED, _FAILPOINT_SAVED, _FAILPOINT_DROPPED = (
    Failpoint(f"worktree.remove.{at}") for at in ("moved", "saved", "dropped")
)


class MakeWorktree(WorktreeEffect, frozen=True, kw_only=True):
    """Create a worktree on a branch that starts at `base`, with the files of the snapshot `files`, if given.

    `last` is the last snapshot of an earlier worktree there; it is saved when a person deleted the folder.
    """

    kind: ClassVar[str] = "worktree.make"
    base: str
    files: str | None = None
    last: str | None = None

    async def perform(self, site: EffectSite) -> Result:
        worktree = self.worktree(site)
        saved = await self._save_leftovers(site)
        fill = partial(restore_snapshot, worktree, self.files) if self.files is not None else None
        await add_worktree(worktree, self.base, fill)
        return {"base": await self._branch_base(site), **salvaged_result(saved)}

    async def probe(self, site: EffectSite) -> ProbeResult:
        return (
            happened(base=await self._branch_base(site)) if await is_complete(self.worktree(site)) else did_not_happen()
        )

    async def repair(self, site: EffectSite) -> str | None:
        clear_ref_locks(site.repository.common_dir, f"refs/heads/{self.place(site).branch}")
        if await is_complete(self.worktree(site)):
            return None
        saved = await self._save_leftovers(site)
        delete_half_made(self.worktree(site))
        return saved

    async def sync(self, site: EffectSite) -> None:
        """Sync the removal of the creation marker: a probe may see it before it is on the disk."""
        sync_directory(os.path.dirname(self.worktree(site).path))

    async def _branch_base(self, site: EffectSite) -> str:
        """Return where the branch started: at `base`, unless it existed before. A missing branch is created again."""
        branch = f"refs/heads/{self.place(site).branch}"
        try:
            return await site.repository.merge_base(branch, self.base) or self.base
        except GitFailed:
            if await site.repository.commit_of(branch) is not None:
                raise
            return self.base

    async def _save_leftovers(self, site: EffectSite) -> str | None:
        """Save what git still has of a deleted folder, or the work in a half-made one.

        A half-made folder holds at most what git checked out. If it holds more, a person or an agent worked there.
        """
        worktree, ref = self.worktree(site), f"{self.place(site).salvage_refs}/{site.effect_id}"
        if not is_half_made(worktree):
            return None if path_exists(worktree.path) else await save_deleted(worktree, ref, self.last)
        try:
            worktree.must_be_ours()
            head = (await status_of(worktree)).head or self.base
            written = (head, self.files) if self.files is not None else (head,)
            is_worked_in = await has_work(worktree, *written)
        except GitKilled:
            raise
        except NotOurWorktree:
            return None  # git cannot read it: then it was never complete
        except GitFailed as error:
            if not all(map(is_readable, worktree.state_files())) or error.is_damage:
                return None
            raise
        return await save(worktree, ref, "Files of a half-made worktree") if is_worked_in else None


class LinkWorktree(WorktreeEffect, frozen=True, kw_only=True):
    """Link a worktree whose `.git` was deleted or replaced to its repository again, without changing its files.

    `base` is where its branch started. The result names the new path of what replaced `.git`, and the refs that keep
    its commits.
    """

    kind: ClassVar[str] = "worktree.link"
    base: str | None = None

    async def perform(self, site: EffectSite) -> Result:
        replaced = await link(self.worktree(site), self.base, _replaced_refs_prefix(site, self.place(site)))
        return {"set_aside": replaced.path, "salvaged": list(replaced.refs)}

    async def probe(self, site: EffectSite) -> ProbeResult:
        if is_unlinked(self.worktree(site)):
            return did_not_happen()
        return happened(
            salvaged=sorted(await site.repository.refs(f"{_replaced_refs_prefix(site, self.place(site))}/"))
        )


def _replaced_refs_prefix(site: EffectSite, place: WorktreeNames) -> str:
    """Return the prefix of refs that keep the branches of a repository that replaced `.git`."""
    return f"{place.salvage_refs}/{site.effect_id}-own"


class RemoveWorktree(WorktreeEffect, frozen=True, kw_only=True):
    """Save unsaved work, then remove the worktree. Does not touch a folder that is not ours.

    The folder is moved aside, checked once more, moved to the trash, and deleted: so everything in the trash was saved,
    and half a folder is never mistaken for a whole one. It is moved aside under its own name, so that the next session
    finds it. A folder that lost its `.git` is linked again only after the move: in its place it might be taken for a
    complete worktree.
    """

    kind: ClassVar[str] = "worktree.remove"
    folder: str | None = None  # instead of a task: the path in the run's folder
    last: str | None = None  # its last snapshot, used when a person deleted the folder
    base: str | None = None  # where its branch started

    def place(self, site: EffectSite) -> WorktreeNames:
        return worktree_names_at(site.run_id, self.folder) if self.folder is not None else super().place(site)

    async def perform(self, site: EffectSite) -> Result:
        worktree, place = self.worktree(site), self.place(site)
        if path_exists(_path_aside(worktree.path)):
            await self._delete_moved(site)
        if path_exists(worktree.path):
            if not self._can_be_linked(site):
                await self._save_all(site, worktree)
            os.rename(worktree.path, _path_aside(worktree.path))
            sync_directory(os.path.dirname(worktree.path))  # else a power cut could bring it back without its entry
            _FAILPOINT_MOVED()
        else:
            await save_deleted(worktree, f"{place.salvage_refs}/{site.effect_id}", self.last)
        await self._delete_moved(site)
        return await self._build_result(site)

    async def _build_result(self, site: EffectSite) -> Result:
        replaced = sorted(await site.repository.refs(f"{_replaced_refs_prefix(site, self.place(site))}/"))
        return {**await find_salvaged(site, self.place(site).salvage_refs), **({"own": replaced} if replaced else {})}

    def _can_be_linked(self, site: EffectSite) -> bool:
        """True when the folder lost its `.git` and the run knows its branch."""
        return self.base is not None and is_unlinked(self.worktree(site))

    async def _save_all(self, site: EffectSite, worktree: Worktree) -> None:
        unpushed = await unpushed_submodules(worktree)
        if unpushed:
            raise Denied(
                f"{worktree.path} has submodules with unpushed commits ({', '.join(unpushed)}); push them and try again"
            )
        await save_autostash(worktree, f"{self.place(site).salvage_refs}/{site.effect_id}")
        await self._save(site, worktree)

    async def _save(self, site: EffectSite, worktree: Worktree) -> None:
        place = self.place(site)
        message = f"Files of {place.folder} when it was removed"
        await save(worktree, f"{place.salvage_refs}/{site.effect_id}", message)

    async def _delete_moved(self, site: EffectSite) -> None:
        """Save what changed in the folder since the first save, then delete it.

        Raises `Denied` when that cannot be saved, after moving the folder back.
        """
        path, aside, trash = self.worktree(site).path, _path_aside(self.worktree(site).path), self._trash_path(site)
        if path_exists(aside):
            linked = False
            try:
                linked = await self._link_moved(site, aside)
                await self._save_late_changes(site, aside, was_linked=linked)
            except GitKilled:
                raise
            except (Denied, GitFailed) as error:
                message = str(error)
                with suppress(OSError):  # the path is taken again
                    if linked:
                        os.unlink(os.path.join(aside, ".git"))
                    os.rename(aside, path)
                    message = message.replace(aside, path)
                raise Denied(message) from error
            os.rename(aside, trash)
            sync_directory(site.run_folder)
            _FAILPOINT_SAVED()
        drop_entries(site.repository.common_dir, path)
        site.repository.captures.pop(path, None)
        _FAILPOINT_DROPPED()
        remove_tree(trash)

    async def _link_moved(self, site: EffectSite, aside: str) -> bool:
        """Link the moved folder if needed, so that git can read its state. True when it was linked."""
        worktree = self._moved_worktree(site, aside)
        if self.base is None or not is_unlinked(worktree):
            return False
        await link(worktree, self.base, _replaced_refs_prefix(site, self.place(site)))
        return True

    def _moved_worktree(self, site: EffectSite, aside: str) -> Worktree:
        return Worktree(site.repository, aside, self.place(site).branch, moved_from=self.worktree(site).path)

    async def _save_late_changes(self, site: EffectSite, aside: str, *, was_linked: bool) -> None:
        place, worktree = self.place(site), self._moved_worktree(site, aside)
        saved = (await find_salvaged(site, place.salvage_refs)).get("salvaged")
        try:
            if was_linked:
                await self._save_all(site, worktree)
            elif saved is None or not await is_fully_saved(worktree, saved):
                await self._save(site, worktree)
        except GitKilled:
            raise
        except GitFailed:
            if not os.path.exists(os.path.join(aside, ".gitmodules")):  # git cannot read a moved submodule
                raise

    async def sync(self, site: EffectSite) -> None:
        await sync_file_systems(site.run_folder, site.repository.common_dir)

    async def probe(self, site: EffectSite) -> ProbeResult:
        path = self.worktree(site).path
        exists = path_exists(path) or path_exists(_path_aside(path)) or entries_of(site.repository.common_dir, path)
        saved = await self._build_result(site)
        is_unsaved = not saved and self.last is not None and await is_only_here(self.worktree(site), self.last)
        return did_not_happen() if exists or is_unsaved else happened(**saved)

    async def repair(self, site: EffectSite) -> str | None:
        await super().repair(site)
        if path_exists(_path_aside(self.worktree(site).path)) or path_exists(self._trash_path(site)):
            await self._delete_moved(site)
        return (await find_salvaged(site, self.place(site).salvage_refs)).get("salvaged")

    def _trash_path(self, site: EffectSite) -> str:
        return os.path.join(site.run_folder, f"{TRASH_PREFIX}{site.effect_id}")


def _path_aside(path: str) -> str:
    """Return a path in the same folder, so that relative links stay valid; no task's folder has such a name."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}{REMOVED_SUFFIX}")


def empty_trash(run_folder: str) -> None:
    """Delete what could not be deleted earlier, or came back after a power cut."""
    for name in os.listdir(run_folder):
        if name.startswith(TRASH_PREFIX):
            remove_tree(os.path.join(run_folder, name))
