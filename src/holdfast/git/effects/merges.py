"""A task's branch into the run's, and the run's into one of the user's."""

import os
from contextlib import suppress
from typing import ClassVar

from holdfast.core.work.names import place_of
from holdfast.git.commit import find_commit, one_line
from holdfast.git.effects.base import (
    GitEffect,
    Happened,
    InWorktree,
    Probe,
    Result,
    Site,
    no,
    salvaged_by,
    unknown,
    yes,
)
from holdfast.git.locks import clear_lock, clear_ref_locks, clear_shared_locks
from holdfast.git.merge import (
    bring_conflicts,
    forget_concluded_merge,
    forget_merge,
    merge_into,
    merge_task,
)
from holdfast.git.snapshot import is_restored, restore_snapshot, save, take_snapshot
from holdfast.git.worktree_admin import folders_of
from holdfast.git.worktrees.in_progress import merge_head
from holdfast.git.worktrees.worktree import NotOurWorktree, Worktree, status_of, sync
from holdfast.leaf.errors import Denied


class MergeTask(InWorktree, frozen=True, kw_only=True):
    """Merge a task's branch, whose tip is `commit`, into the run's branch, which began at `base`.

    `had` is what the run last put there, and `done` what it last put on the task's. If somebody set one of them back,
    that is saved, and the branch is left so: `set_back` is by which name it is found, or that git has it no more.
    """

    kind: ClassVar[str] = "merge"
    task: str
    base: str
    commit: str
    had: str | None = None
    done: str | None = None

    def works_in(self, site: Site) -> Worktree:
        return site.worktree(place_of(site.run_id))

    async def perform(self, site: Site) -> Result:
        branch, signature = self.place(site).branch, self.signature(site)
        salvage = f"{place_of(site.run_id).salvage}/{site.effect}"
        set_back = await self.set_back(site, keep=True)
        commit = await merge_task(self.works_in(site), branch, self.commit, signature, salvage)
        return {"commit": commit, **set_back}

    async def sync(self, site: Site) -> None:
        await sync(self.works_in(site))

    async def set_back(self, site: Site, *, keep: bool = False) -> Result:
        """What was on a branch, and is not any more; saved, to `keep` it, or as it was saved."""
        repository, run, task = site.repository, place_of(site.run_id), self.place(site)
        found: dict[str, str | None] = {}
        at = await repository.commit_of(f"refs/heads/{run.branch}") if self.had is not None else None
        for place, had, now in ((run, self.had, at), (task, self.done, self.commit)):
            if had is None or now is None or had == now:
                continue
            ref = f"{place.salvage}/{had[:16]}"
            if await repository.commit_of(had) is None:
                found[place.branch] = None
            elif not await repository.is_ancestor(had, now):
                saved = await repository.refs(ref, f"{ref}-*")
                name = next((name for name, oid in saved.items() if oid == had), had)
                found[place.branch] = await repository.keep(ref, had) if keep else name
        return {"set_back": found} if found else {}

    async def probe(self, site: Site) -> Probe:
        into = self.works_in(site)
        ours = await site.repository.commit_of(f"refs/heads/{into.branch}")
        if ours is None:
            return unknown(f"the branch {into.branch} is gone")
        made = await find_commit(into, self.base, site.effect)
        if await site.repository.is_ancestor(self.commit, ours):
            set_back = await self.set_back(site)
            saved = all(by is None or by.startswith("refs/") for by in set_back.get("set_back", {}).values())
            return yes(commit=made or ours, **set_back) if saved else no()
        return (
            no() if made is None else unknown(f"{into.branch} has the merge, but not what was merged: it was rewritten")
        )

    async def mend(self, site: Site) -> str | None:
        """Back to the commit that the branch is at: in this tree nobody works, it only takes merges.

        Where it was merged, files that a power cut took look like changes; what is new there came after it, and stays.
        """
        into = self.works_in(site)
        try:
            await into.must_be_on_branch()
        except NotOurWorktree:
            return None  # whoever wants to merge there will be told
        salvage = place_of(site.run_id).salvage
        clear_ref_locks(site.repository.common_dir, salvage)
        into.clear_locks()
        done = (await self.probe(site)).happened is Happened.YES
        if any(not done or change.status != "??" for change in (await status_of(into)).changes):
            message = f"What a cut-off merge of task {one_line(self.task)} left"
            await save(into, f"{salvage}/{site.effect}", message)
            await into.git.do("reset", "--quiet", "--hard", "HEAD")
            if not done:
                await into.git.do("clean", "-d", "--force", "--quiet")
        await forget_concluded_merge(into)
        return (await salvaged_by(site, salvage)).get("salvaged")


class BringConflicts(InWorktree, frozen=True, kw_only=True):
    """Merge the run's branch, at `commit`, into a task's worktree, to be resolved there."""

    kind: ClassVar[str] = "merge.conflicts"
    task: str
    commit: str

    async def perform(self, site: Site) -> Result:
        found = await self.probe(site)
        if found.happened is Happened.YES:
            return dict(found.result)
        worktree, run_branch = self.worktree(site), place_of(site.run_id).branch
        if (await status_of(worktree)).unmerged or merge_head(worktree.must_be_ours()) is not None:
            raise Denied(f"{worktree.path} is in the middle of another merge; commit it or take it back, and try again")
        if not (await status_of(worktree)).clean:  # what came after the checks: a merge could not be told from it
            await save(worktree, f"{self.place(site).salvage}/{site.effect}", "What was not in the task's commit")
            await restore_snapshot(worktree, "HEAD")
        await take_snapshot(worktree, self._before(site), f"Before the merge of {run_branch}")
        conflicts = await bring_conflicts(worktree, run_branch, self.commit, self.signature(site))
        return {"conflicts": list(conflicts), **await salvaged_by(site, self.place(site).salvage)}

    async def sync(self, site: Site) -> None:
        await sync(self.worktree(site))

    async def probe(self, site: Site) -> Probe:
        worktree = self.worktree(site)
        if merge_head(worktree.must_be_ours()) == self.commit:
            unmerged = (await status_of(worktree)).unmerged
            return yes(conflicts=unmerged) if unmerged or not await self._is_as_before(site) else no()
        merged = await site.repository.is_ancestor(self.commit, f"refs/heads/{worktree.branch}")
        return yes(conflicts=[]) if merged else no()

    async def mend(self, site: Site) -> str | None:
        """Back to what stood there before: git writes the files first, and only then that it is merging."""
        await super().mend(site)
        worktree, salvage = self.worktree(site), self.place(site).salvage
        before = await site.repository.commit_of(self._before(site))
        with suppress(NotOurWorktree):
            own = await worktree.must_be_on_branch()
            if before is not None and (await self.probe(site)).happened is Happened.NO:
                if not await is_restored(worktree, before):
                    await save(worktree, f"{salvage}/{site.effect}", "What a cut-off merge left")
                    await restore_snapshot(worktree, before)
                if merge_head(own) == self.commit:
                    await forget_merge(worktree)
                await forget_concluded_merge(worktree)
        return (await salvaged_by(site, salvage)).get("salvaged")

    async def _is_as_before(self, site: Site) -> bool:
        """Git that cannot write its index merges nothing, but notes that it did: a commit would take theirs back."""
        before = await site.repository.commit_of(self._before(site))
        return before is not None and await is_restored(self.worktree(site), before)

    def _before(self, site: Site) -> str:
        return f"{self.place(site).snapshots}/_before/{site.effect}"  # no snapshot has such a name


class MergeInto(GitEffect, frozen=True, kw_only=True):
    """Merge the run's branch, at `commit`, into a branch of the user's, checked out or not."""

    kind: ClassVar[str] = "merge.into"
    target: str
    commit: str

    def unlock(self, site: Site) -> None:
        super().unlock(site)
        clear_shared_locks(site.repository.common_dir, f"refs/heads/{self.target}")

    async def perform(self, site: Site) -> Result:
        branch = place_of(site.run_id).branch
        return {"commit": await merge_into(site.repository, self.target, branch, self.commit, site.signature())}

    async def probe(self, site: Site) -> Probe:
        at = await site.repository.commit_of(f"refs/heads/{self.target}")
        if at is None:
            return unknown(f"the branch {self.target} is gone")
        return yes(commit=at) if await site.repository.is_ancestor(self.commit, at) else no()

    async def mend(self, site: Site) -> str | None:
        common_dir = site.repository.common_dir
        await clear_lock(os.path.join(common_dir, "refs", "heads", f"{self.target}.lock"), *folders_of(common_dir))
        return None
