"""Effects that merge: a task's branch into the run's, and the run's into a branch of the user."""

import os
from contextlib import suppress
from typing import ClassVar

from holdfast.core.work.names import worktree_names
from holdfast.git.commit import find_commit, one_line
from holdfast.git.effects.base import (
    EffectSite,
    GitEffect,
    ProbeOutcome,
    ProbeResult,
    Result,
    WorktreeEffect,
    did_not_happen,
    find_salvaged,
    happened,
    unknown_outcome,
)
from holdfast.git.locks import clear_lock, clear_ref_locks, clear_shared_locks
from holdfast.git.merge import (
    forget_concluded_merge,
    forget_merge,
    merge_task,
    reproduce_conflicts,
)
from holdfast.git.merge_into import BuiltMerge, move_branch
from holdfast.git.snapshot import is_restored, restore_snapshot, save, take_snapshot
from holdfast.git.worktree_admin import folders_of
from holdfast.git.worktrees.checkout import checkout_of, finish_checkout
from holdfast.git.worktrees.in_progress import merge_head
from holdfast.git.worktrees.worktree import NotOurWorktree, Worktree, status_of, sync_worktree
from holdfast.leaf.errors import BadInput, Denied
from holdfast.leaf.files.sync import sync_file_systems


class MergeTask(WorktreeEffect, frozen=True, kw_only=True):
    """Merge a task's branch, whose tip is `commit`, into the run's branch, which started at `base`.

    `had` is the last commit that the run made on its branch, `done` the last one on the task's. If a person reset one
    of the branches, its lost commit is saved and the branch stays as it is. `set_back` in the result maps the branch to
    the ref of the saved commit, or to None when git does not have it any more.
    """

    kind: ClassVar[str] = "merge"
    task: str
    base: str
    commit: str
    had: str | None = None
    done: str | None = None

    def target_worktree(self, site: EffectSite) -> Worktree:
        return site.worktree(worktree_names(site.run_id))

    async def perform(self, site: EffectSite) -> Result:
        branch, trailers = self.place(site).branch, self.trailers(site)
        salvage = f"{worktree_names(site.run_id).salvage_refs}/{site.effect_id}"
        set_back = await self.find_set_back(site, keep=True)
        commit = await merge_task(self.target_worktree(site), branch, self.commit, trailers, salvage)
        return {"commit": commit, **set_back}

    async def sync(self, site: EffectSite) -> None:
        await sync_worktree(self.target_worktree(site))

    async def find_set_back(self, site: EffectSite, *, keep: bool = False) -> Result:
        """Return the commits that were reset from a branch; with `keep`, save them, else find where they were saved."""
        repository, run, task = site.repository, worktree_names(site.run_id), self.place(site)
        found: dict[str, str | None] = {}
        at = await repository.commit_of(f"refs/heads/{run.branch}") if self.had is not None else None
        for place, had, now in ((run, self.had, at), (task, self.done, self.commit)):
            if had is None or now is None or had == now:
                continue
            ref = f"{place.salvage_refs}/{had[:16]}"
            if await repository.commit_of(had) is None:
                found[place.branch] = None
            elif not await repository.is_ancestor(had, now):
                saved = await repository.refs(ref, f"{ref}-*")
                name = next((name for name, oid in saved.items() if oid == had), had)
                found[place.branch] = await repository.save_ref(ref, had) if keep else name
        return {"set_back": found} if found else {}

    async def probe(self, site: EffectSite) -> ProbeResult:
        into = self.target_worktree(site)
        ours = await site.repository.commit_of(f"refs/heads/{into.branch}")
        if ours is None:
            return unknown_outcome(f"the branch {into.branch} does not exist")
        commit = await find_commit(into, self.base, site.effect_id)
        if await site.repository.is_ancestor(self.commit, ours):
            set_back = await self.find_set_back(site)
            saved = all(name is None or name.startswith("refs/") for name in set_back.get("set_back", {}).values())
            return happened(commit=commit or ours, **set_back) if saved else did_not_happen()
        return (
            did_not_happen()
            if commit is None
            else unknown_outcome(f"{into.branch} was rewritten: it has the merge commit, but not the merged commits")
        )

    async def repair(self, site: EffectSite) -> str | None:
        """Reset the worktree to its branch: no agent works in it, it only receives merges.

        After a finished merge, files lost in a power cut look like changes; untracked files came later, and stay.
        """
        into = self.target_worktree(site)
        try:
            await into.must_be_on_branch()
        except NotOurWorktree:
            return None  # the next merge reports it
        salvage = worktree_names(site.run_id).salvage_refs
        clear_ref_locks(site.repository.common_dir, salvage)
        into.clear_locks()
        done = (await self.probe(site)).outcome is ProbeOutcome.YES
        if any(not done or change.status != "??" for change in (await status_of(into)).changes):
            message = f"Files of an interrupted merge of task {one_line(self.task)}"
            await save(into, f"{salvage}/{site.effect_id}", message)
            await into.git.execute("reset", "--quiet", "--hard", "HEAD")
            if not done:
                await into.git.execute("clean", "-d", "--force", "--quiet")
        await forget_concluded_merge(into)
        return (await find_salvaged(site, salvage)).get("salvaged")


class ReproduceConflicts(WorktreeEffect, frozen=True, kw_only=True):
    """Merge the run's branch, at `commit`, into a task's worktree, where the agent resolves the conflicts."""

    kind: ClassVar[str] = "merge.conflicts"
    task: str
    commit: str

    async def perform(self, site: EffectSite) -> Result:
        found = await self.probe(site)
        if found.outcome is ProbeOutcome.YES:
            return dict(found.result)
        worktree, run_branch = self.worktree(site), worktree_names(site.run_id).branch
        if (await status_of(worktree)).unmerged_paths or merge_head(worktree.must_be_ours()) is not None:
            raise Denied(f"another merge is in progress in {worktree.path}; commit or abort it, and try again")
        if not (await status_of(worktree)).is_clean:  # changes since the checks would mix with the merge
            await save(
                worktree,
                f"{self.place(site).salvage_refs}/{site.effect_id}",
                "Files that were not in the task's commit",
            )
            await restore_snapshot(worktree, "HEAD")
        await take_snapshot(worktree, self._before_ref(site), f"Before the merge of {run_branch}")
        conflicts = await reproduce_conflicts(worktree, run_branch, self.commit, self.trailers(site))
        return {"conflicts": list(conflicts), **await find_salvaged(site, self.place(site).salvage_refs)}

    async def sync(self, site: EffectSite) -> None:
        await sync_worktree(self.worktree(site))

    async def probe(self, site: EffectSite) -> ProbeResult:
        worktree = self.worktree(site)
        if merge_head(worktree.must_be_ours()) == self.commit:
            unmerged = (await status_of(worktree)).unmerged_paths
            return happened(conflicts=unmerged) if unmerged or not await self._is_unchanged(site) else did_not_happen()
        merged = await site.repository.is_ancestor(self.commit, f"refs/heads/{worktree.branch}")
        return happened(conflicts=[]) if merged else did_not_happen()

    async def repair(self, site: EffectSite) -> str | None:
        """Restore the files from before: git writes the files first, and MERGE_HEAD only then."""
        await super().repair(site)
        worktree, salvage = self.worktree(site), self.place(site).salvage_refs
        before = await site.repository.commit_of(self._before_ref(site))
        with suppress(NotOurWorktree):
            git_dir = await worktree.must_be_on_branch()
            if before is not None and (await self.probe(site)).outcome is ProbeOutcome.NO:
                if not await is_restored(worktree, before):
                    await save(worktree, f"{salvage}/{site.effect_id}", "Files of an interrupted merge")
                    await restore_snapshot(worktree, before)
                if merge_head(git_dir) == self.commit:
                    await forget_merge(worktree)
                await forget_concluded_merge(worktree)
        return (await find_salvaged(site, salvage)).get("salvaged")

    async def _is_unchanged(self, site: EffectSite) -> bool:
        """A git that cannot write its index merges nothing but sets MERGE_HEAD: a commit would undo the other side."""
        before = await site.repository.commit_of(self._before_ref(site))
        return before is not None and await is_restored(self.worktree(site), before)

    def _before_ref(self, site: EffectSite) -> str:
        return f"{self.place(site).snapshot_refs}/_before/{site.effect_id}"  # no snapshot name starts with `_`


class MergeInto(GitEffect, frozen=True, kw_only=True):
    """Merge the run's branch, at `commit`, into a branch of the user, checked out or not.

    The merge is built before: the branch moves from `old` to `new`, and so do the files in `path`, the user's checkout
    of it. An attempt that was killed while git wrote those files is finished, unless the user has changed one of them.
    Intents of older versions have only `target` and `commit`.
    """

    kind: ClassVar[str] = "merge.into"
    repair_completes: ClassVar[bool] = True
    target: str
    commit: str
    old: str | None = None
    new: str | None = None
    path: str | None = None

    def clear_locks(self, site: EffectSite) -> None:
        super().clear_locks(site)
        clear_shared_locks(site.repository.common_dir, f"refs/heads/{self.target}")

    async def perform(self, site: EffectSite) -> Result:
        await move_branch(site.repository, self.target, self._merge())
        return {"commit": self.new}

    async def sync(self, site: EffectSite) -> None:
        """Sync the files of the checkout: after a power cut, lost ones would look like the user's changes."""
        if self.path is not None:
            await sync_file_systems(self.path, site.repository.common_dir)

    async def probe(self, site: EffectSite) -> ProbeResult:
        at = await site.repository.commit_of(f"refs/heads/{self.target}")
        if at is None:
            return unknown_outcome(f"the branch {self.target} does not exist")
        return happened(commit=at) if await site.repository.is_ancestor(self.commit, at) else did_not_happen()

    async def repair(self, site: EffectSite) -> str | None:
        common_dir = site.repository.common_dir
        await clear_lock(os.path.join(common_dir, "refs", "heads", f"{self.target}.lock"), *folders_of(common_dir))
        if self.path is not None and (await self.probe(site)).outcome is ProbeOutcome.NO:
            await self._finish_checkout(site, self.path)
        return None

    async def _finish_checkout(self, site: EffectSite, path: str) -> None:
        """Let git finish a checkout that it had begun to write. It is the user's: no file is changed that differs."""
        repository, merge = site.repository, self._merge()
        at = await repository.commit_of(f"refs/heads/{self.target}")
        if at == merge.old and await checkout_of(repository, self.target) == path:
            await finish_checkout(repository, path, self.target, merge.old, merge.new)

    def _merge(self) -> BuiltMerge:
        if self.old is None or self.new is None:
            raise BadInput(f"this intent to merge into {self.target} is of an older version; merge again")
        return BuiltMerge(self.old, self.new, self.path)
