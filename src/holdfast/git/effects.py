"""The effects on a repository: what to do, how to do it, and how to ask afterwards whether it was done.

An effect is plain data, so that its intent in the log is enough to finish it after a crash; names of branches and
folders follow from the run and the task (`core.workspace`), so that repository and home may move. `perform` may be
called again: it finds what is there. `probe` looks and changes nothing; when it cannot tell, it says so. `mend` takes
away what a cut-off attempt left half done, after saving it; only to be called when nobody of that attempt is alive.
"""

import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from enum import StrEnum
from typing import Any, ClassVar, NamedTuple

import msgspec

from holdfast.core.workspace import BRANCHES, SALVAGE, Place, place_at, place_of, refs_of
from holdfast.git.commit import (
    Ground,
    Signature,
    commit_all,
    find_commit,
    keep_failed,
    one_line,
    placeholder_of,
    unwind_failed,
)
from holdfast.git.locks import clear_lock, clear_packed_refs_locks, clear_ref_locks, clear_shared_locks, folders_of
from holdfast.git.merge import bring_conflicts, forget_concluded_merge, merge_into, merge_task
from holdfast.git.process import Git, GitFailed, GitKilled
from holdfast.git.remote import Request, fetch, find_pull_request, folder_of, open_pull_request, push, pushed
from holdfast.git.repository import ABSENT, Repository
from holdfast.git.snapshot import (
    is_restored,
    restore_snapshot,
    save,
    save_autostash,
    save_entries,
    take_snapshot,
)
from holdfast.git.worktree import (
    NotOurWorktree,
    Worktree,
    add_worktree,
    clear_half_made,
    entries_of,
    forget_worktree,
    is_half_made,
    is_made,
    status_of,
    unpushed_submodules,
)
from holdfast.leaf.errors import Denied

Result = dict[str, Any]

TRASH = "trash-"  # in the run's folder: what was saved and is being deleted


class Site(NamedTuple):
    """Where an effect takes place: which one of which run, in which repository and run's folder."""

    run_id: str
    effect: str
    repository: Repository
    folder: str

    def worktree(self, place: Place) -> Worktree:
        return Worktree(self.repository, os.path.join(self.folder, place.folder), place.branch)


class Happened(StrEnum):
    YES = "happened"
    NO = "did not happen"
    UNKNOWN = "unknown"


class Probe(NamedTuple):
    happened: Happened
    result: Mapping[str, Any] = {}
    reason: str | None = None


def yes(**result: Any) -> Probe:
    return Probe(Happened.YES, result)


def no() -> Probe:
    return Probe(Happened.NO)


def unknown(reason: str) -> Probe:
    return Probe(Happened.UNKNOWN, reason=reason)


class GitEffect(msgspec.Struct, frozen=True, kw_only=True):
    """Something to be done to one repository."""

    kind: ClassVar[str]

    def unlock(self, site: Site) -> None:
        """Take away the locks that a dead git left where this takes place; `Denied` when one is at work there."""
        clear_shared_locks(site.repository.common_dir, *refs_of(site.run_id))

    def where(self, site: Site) -> str:
        """The folder in which nothing else may be done meanwhile."""
        return site.repository.common_dir

    async def perform(self, site: Site) -> Result:
        raise NotImplementedError

    async def probe(self, site: Site) -> Probe:
        raise NotImplementedError

    async def mend(self, site: Site) -> str | None:  # noqa: ARG002 - most have nothing to mend
        """Returns the ref under which something was saved, if something was."""
        return None


class InWorktree(GitEffect, frozen=True, kw_only=True):
    """An effect in the worktree of a task; in the run's own, without one."""

    task: str | None = None

    def place(self, site: Site) -> Place:
        return place_of(site.run_id, self.task)

    def worktree(self, site: Site) -> Worktree:
        return site.worktree(self.place(site))

    def ground(self, site: Site, base: str) -> Ground:
        return Ground(base, f"{self.place(site).snapshots}/taken_back/{site.effect}")

    def signature(self, site: Site) -> Signature:
        return Signature(site.run_id, site.effect, self.task)

    async def mend(self, site: Site) -> str | None:
        place, worktree = self.place(site), self.worktree(site)
        clear_ref_locks(site.repository.common_dir, place.snapshots, place.salvage)
        with suppress(NotOurWorktree):  # whoever wants to work there will be told
            worktree.clear_locks()
            await forget_concluded_merge(worktree)
        return None

    def works_in(self, site: Site) -> Worktree:
        """Whose index and HEAD this needs."""
        return self.worktree(site)

    def where(self, site: Site) -> str:
        return self.works_in(site).path

    def unlock(self, site: Site) -> None:
        super().unlock(site)
        with suppress(NotOurWorktree):  # whoever wants to work there will be told
            self.works_in(site).clear_locks()


class MakeWorktree(InWorktree, frozen=True, kw_only=True):
    kind: ClassVar[str] = "worktree.make"
    base: str

    async def perform(self, site: Site) -> Result:
        worktree, ref = self.worktree(site), f"{self.place(site).salvage}/{site.effect}"
        saved = await self._save_work(site)
        if not os.path.lexists(worktree.path) and not is_half_made(worktree):
            saved = await save_entries(worktree, ref)
        await add_worktree(worktree, self.base)
        return {"base": await self._begun_at(site), **_saved(saved)}

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
        else:
            await save_entries(worktree, f"{place.salvage}/{site.effect}")
        await self._bury(site)
        return await _salvaged(site, place.salvage)

    async def _save(self, site: Site, worktree: Worktree) -> None:
        place = self.place(site)
        message = f"What stood in {place.folder} when it was removed"
        await save(worktree, f"{place.salvage}/{site.effect}", message)

    async def _bury(self, site: Site) -> None:
        """Delete what was moved away; and what came into it while it was being saved is saved before."""
        place, moved = self.place(site), self._trash(site)
        if os.path.isdir(moved):
            saved = (await _salvaged(site, place.salvage)).get("salvaged")
            worktree = Worktree(site.repository, moved, place.branch, moved_from=self.worktree(site).path)
            try:
                if saved is None or not await is_restored(worktree, saved):
                    await self._save(site, worktree)
            except GitKilled:
                raise
            except GitFailed:
                pass  # it was saved as it stood; of what was moved git cannot tell, as where there are submodules
        forget_worktree(self.worktree(site))
        shutil.rmtree(moved, ignore_errors=True)

    async def probe(self, site: Site) -> Probe:
        worktree = self.worktree(site)
        gone = not os.path.lexists(worktree.path) and not entries_of(worktree)
        return yes(**await _salvaged(site, self.place(site).salvage)) if gone else no()

    async def mend(self, site: Site) -> str | None:
        await super().mend(site)
        if os.path.isdir(self._trash(site)):
            await self._bury(site)
        return (await _salvaged(site, self.place(site).salvage)).get("salvaged")

    def _trash(self, site: Site) -> str:
        return os.path.join(site.folder, f"{TRASH}{site.effect}")


class DeleteBranch(GitEffect, frozen=True, kw_only=True):
    """Delete a branch of the run that is still at `commit`.

    The commit is saved, unless `merged_into` has it, or a branch, a tag or a remote of the user's.
    """

    kind: ClassVar[str] = "branch.delete"
    branch: str
    commit: str
    merged_into: str | None = None

    async def perform(self, site: Site) -> Result:
        repository = site.repository
        ref = f"refs/heads/{self.branch}"
        at = await repository.commit_of(ref)
        if at is None:
            return {}
        if at != self.commit:
            raise Denied(f"{self.branch} has moved on to {at[:12]} meanwhile; it was left as it is")
        for worktree in await repository.worktrees():
            if worktree.branch == self.branch and worktree.prunable is None:
                raise Denied(f"{self.branch} is checked out in {worktree.path}; switch that to another branch first")
        into = self.merged_into
        merged = into is not None and await repository.is_ancestor(at, into)
        kept = (
            None
            if merged or await repository.is_elsewhere(at)
            else await repository.keep(f"{self._salvage}/{site.effect}", at)
        )
        await repository.delete_ref(ref, at)
        return _saved(kept)

    async def probe(self, site: Site) -> Probe:
        at = await site.repository.commit_of(f"refs/heads/{self.branch}")
        return yes(**await _salvaged(site, self._salvage)) if at is None else no()

    async def mend(self, site: Site) -> str | None:
        clear_ref_locks(site.repository.common_dir, f"refs/heads/{self.branch}", self._salvage)
        await clear_packed_refs_locks(site.repository.common_dir)
        return (await _salvaged(site, self._salvage)).get("salvaged")

    @property
    def _salvage(self) -> str:
        return f"{SALVAGE}{self.branch.removeprefix(BRANCHES)}"


class RestoreBranch(InWorktree, frozen=True, kw_only=True):
    """Make a branch that was lost again, at `commit`; the work on it began at `base`."""

    kind: ClassVar[str] = "branch.restore"
    base: str
    commit: str

    async def perform(self, site: Site) -> Result:
        ref = f"refs/heads/{self.place(site).branch}"
        if await site.repository.commit_of(ref) is None:
            await site.repository.set_ref(ref, self.commit, ABSENT)
        return {}

    async def probe(self, site: Site) -> Probe:
        at = await site.repository.commit_of(f"refs/heads/{self.place(site).branch}")
        return no() if at is None else yes()


class DropRefs(GitEffect, frozen=True, kw_only=True):
    """Delete every ref under one of our own prefixes; `keep` are commits to save first, if nothing else has them."""

    kind: ClassVar[str] = "refs.drop"
    prefix: str
    keep: tuple[str, ...] = ()

    async def perform(self, site: Site) -> Result:
        kept = [
            await site.repository.keep(f"{SALVAGE}{site.run_id}/snapshots/{site.effect}", commit)
            for commit in self.keep
            if not await site.repository.is_elsewhere(commit)
        ]
        for name, oid in (await site.repository.refs(self.prefix)).items():
            await site.repository.delete_ref(name, oid)
        return {"salvaged": kept} if kept else {}

    async def probe(self, site: Site) -> Probe:
        return no() if await site.repository.refs(self.prefix) else yes()

    async def mend(self, site: Site) -> str | None:
        clear_ref_locks(site.repository.common_dir, self.prefix.rstrip("/"))
        await clear_packed_refs_locks(site.repository.common_dir)
        return None


class CommitTask(InWorktree, frozen=True, kw_only=True):
    """All that a task did since `base`, as one commit."""

    kind: ClassVar[str] = "commit"
    base: str
    message: str

    async def perform(self, site: Site) -> Result:
        ground = self.ground(site, self.base)
        return {"commit": await commit_all(self.worktree(site), ground, self.message, self.signature(site))}

    async def probe(self, site: Site) -> Probe:
        return await _committed(self.worktree(site), self.base, site.effect)


class KeepFailed(InWorktree, frozen=True, kw_only=True):
    """The partial work of a failed task, as a placeholder commit."""

    kind: ClassVar[str] = "commit.failed"
    base: str
    reason: str

    async def perform(self, site: Site) -> Result:
        ground = self.ground(site, self.base)
        return {"commit": await keep_failed(self.worktree(site), ground, self.reason, self.signature(site))}

    async def probe(self, site: Site) -> Probe:
        return await _committed(self.worktree(site), self.base, site.effect)


class UnwindFailed(InWorktree, frozen=True, kw_only=True):
    """Take the placeholder commit that a task's branch ends with back, its content staying."""

    kind: ClassVar[str] = "commit.unwind"
    base: str
    task: str

    async def perform(self, site: Site) -> Result:
        return {"unwound": await unwind_failed(self.worktree(site), self.ground(site, self.base), self.task)}

    async def probe(self, site: Site) -> Probe:
        there = await placeholder_of(self.worktree(site), self.base, self.task)
        kept = await site.repository.commit_of(self.ground(site, self.base).taken_back)
        return yes(unwound=kept) if there is None or kept not in (None, there) else no()


class MergeTask(InWorktree, frozen=True, kw_only=True):
    """Merge a task's branch, whose tip is `commit`, into the run's branch, which began at `base`."""

    kind: ClassVar[str] = "merge"
    task: str
    base: str
    commit: str

    def works_in(self, site: Site) -> Worktree:
        return site.worktree(place_of(site.run_id))

    async def perform(self, site: Site) -> Result:
        branch, signature = self.place(site).branch, self.signature(site)
        salvage = f"{place_of(site.run_id).salvage}/{site.effect}"
        return {"commit": await merge_task(self.works_in(site), branch, self.commit, signature, salvage)}

    async def probe(self, site: Site) -> Probe:
        into = self.works_in(site)
        ours = await site.repository.commit_of(f"refs/heads/{into.branch}")
        if ours is None:
            return unknown(f"the branch {into.branch} is gone")
        made = await find_commit(into, self.base, site.effect)
        if await site.repository.is_ancestor(self.commit, ours):
            return yes(commit=made or ours)
        return (
            no() if made is None else unknown(f"{into.branch} has the merge, but not what was merged: it was rewritten")
        )

    async def mend(self, site: Site) -> str | None:
        """Back to the commit that the branch is at: in this tree nobody works, it only takes merges."""
        into = self.works_in(site)
        try:
            await into.must_be_on_branch()
        except NotOurWorktree:
            return None  # whoever wants to merge there will be told
        salvage = place_of(site.run_id).salvage
        clear_ref_locks(site.repository.common_dir, salvage)
        into.clear_locks()
        done = (await self.probe(site)).happened is Happened.YES  # then what stands there came after it
        if not done and not (await status_of(into)).clean:
            message = f"What a cut-off merge of task {one_line(self.task)} left"
            await save(into, f"{salvage}/{site.effect}", message)
            await into.git.do("reset", "--quiet", "--hard", "HEAD")
            await into.git.do("clean", "-d", "--force", "--quiet")
        await forget_concluded_merge(into)
        return (await _salvaged(site, salvage)).get("salvaged")


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
        if (await status_of(worktree)).unmerged or await self._merging(worktree) is not None:
            raise Denied(f"{worktree.path} is in the middle of another merge; commit it or take it back, and try again")
        await take_snapshot(worktree, self._before(site), f"Before the merge of {run_branch}")
        return {"conflicts": list(await bring_conflicts(worktree, run_branch, self.commit))}

    async def probe(self, site: Site) -> Probe:
        worktree = self.worktree(site)
        worktree.must_be_ours()
        if await self._merging(worktree) == self.commit:
            return yes(conflicts=(await status_of(worktree)).unmerged)
        merged = await site.repository.is_ancestor(self.commit, f"refs/heads/{worktree.branch}")
        return yes(conflicts=[]) if merged else no()

    async def mend(self, site: Site) -> str | None:
        """Back to what stood there before: git writes the files first, and only then that it is merging."""
        await super().mend(site)
        worktree, salvage = self.worktree(site), self.place(site).salvage
        before = await site.repository.commit_of(self._before(site))
        with suppress(NotOurWorktree):
            await worktree.must_be_on_branch()
            if before is not None and (await self.probe(site)).happened is Happened.NO:
                if not await is_restored(worktree, before):
                    await save(worktree, f"{salvage}/{site.effect}", "What a cut-off merge left")
                    await restore_snapshot(worktree, before)
                await forget_concluded_merge(worktree)
        return (await _salvaged(site, salvage)).get("salvaged")

    async def _merging(self, worktree: Worktree) -> str | None:
        answer = await worktree.git.run("rev-parse", "--verify", "--quiet", "MERGE_HEAD")
        return answer.text if answer.code == 0 else None

    def _before(self, site: Site) -> str:
        return f"{self.place(site).snapshots}/_before/{site.effect}"  # no snapshot has such a name


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
        return _saved(saved)

    async def probe(self, site: Site) -> Probe:
        done = await is_restored(self.worktree(site), self.commit)
        return yes(**await _salvaged(site, self.place(site).salvage)) if done else no()

    async def mend(self, site: Site) -> str | None:
        return (await _salvaged(site, self.place(site).salvage)).get("salvaged")


class MergeInto(GitEffect, frozen=True, kw_only=True):
    """Merge the run's branch, at `commit`, into a branch of the user's that is not checked out."""

    kind: ClassVar[str] = "merge.into"
    target: str
    commit: str

    def unlock(self, site: Site) -> None:
        super().unlock(site)
        clear_shared_locks(site.repository.common_dir, f"refs/heads/{self.target}")

    async def perform(self, site: Site) -> Result:
        branch, signature = place_of(site.run_id).branch, Signature(site.run_id, site.effect)
        return {"commit": await merge_into(site.repository, self.target, branch, self.commit, signature)}

    async def probe(self, site: Site) -> Probe:
        at = await site.repository.commit_of(f"refs/heads/{self.target}")
        if at is None:
            return unknown(f"the branch {self.target} is gone")
        return yes(commit=at) if await site.repository.is_ancestor(self.commit, at) else no()

    async def mend(self, site: Site) -> str | None:
        common_dir = site.repository.common_dir
        await clear_lock(os.path.join(common_dir, "refs", "heads", f"{self.target}.lock"), *folders_of(common_dir))
        return None


class Push(InWorktree, frozen=True, kw_only=True):
    """Bring `commit` of the run's branch to the branch of the same name on a remote; never by force.

    From the run's worktree, while there is one: that is where the user's hooks look at what is pushed.
    """

    kind: ClassVar[str] = "push"
    remote: str
    commit: str

    def unlock(self, site: Site) -> None:
        super().unlock(site)
        tracking = f"refs/remotes/{self.remote}/{self.place(site).branch}"
        clear_shared_locks(site.repository.common_dir, tracking)

    async def perform(self, site: Site) -> Result:
        await push(self._git(site), self.remote, self.place(site).branch, self.commit)
        return {"commit": self.commit}

    async def probe(self, site: Site) -> Probe:
        branch = self.place(site).branch
        try:
            at = await pushed(site.repository, self.remote, branch)
        except GitFailed as error:
            return unknown(str(error))
        if at is None:
            return no()
        try:
            if await site.repository.commit_of(at) is None:
                await fetch(site.repository, self.remote, branch)
            there = await site.repository.is_ancestor(self.commit, at)
        except GitFailed:
            return unknown(f"{self.remote} has {branch} at {at[:12]}, which is not known here")
        return yes(commit=at) if there else no()

    async def mend(self, site: Site) -> str | None:
        branch = self.place(site).branch
        clear_ref_locks(site.repository.common_dir, f"refs/remotes/{self.remote}/{branch}")
        there = await folder_of(site.repository, self.remote)
        if there is not None:  # on this machine: what received it there was one of ours, and was ended with us
            clear_ref_locks(there, f"refs/heads/{branch}")
        return None

    def _git(self, site: Site) -> Git:
        worktree = self.worktree(site)
        try:
            worktree.must_be_ours()
        except NotOurWorktree:
            return site.repository.git
        return worktree.git


class OpenPullRequest(GitEffect, frozen=True, kw_only=True):
    """Ask for the branch to be merged, once: whoever finds a request from that branch opens no other."""

    kind: ClassVar[str] = "pull_request"
    repo: str | None = None
    base: str
    title: str
    body: str = ""
    draft: bool = False

    async def perform(self, site: Site) -> Result:
        request = Request(self.repo, place_of(site.run_id).branch, self.base, self.title, self.body, self.draft)
        return {"url": await open_pull_request(site.repository, request)}

    async def probe(self, site: Site) -> Probe:
        if shutil.which("gh") is None:
            return unknown("gh is not here to ask")
        try:
            url = await find_pull_request(site.repository, self.repo, place_of(site.run_id).branch)
        except GitFailed as error:
            return unknown(str(error))
        return yes(url=url) if url is not None else no()


EFFECTS: dict[str, type[GitEffect]] = {
    effect.kind: effect
    for effect in (
        MakeWorktree,
        RemoveWorktree,
        DeleteBranch,
        RestoreBranch,
        DropRefs,
        CommitTask,
        KeepFailed,
        UnwindFailed,
        MergeTask,
        BringConflicts,
        TakeSnapshot,
        RestoreSnapshot,
        MergeInto,
        Push,
        OpenPullRequest,
    )
}


async def _committed(worktree: Worktree, base: str, effect: str) -> Probe:
    commit = await find_commit(worktree, base, effect)
    return yes(commit=commit) if commit is not None else no()


async def _salvaged(site: Site, prefix: str) -> dict[str, str]:
    """What an attempt saved before it was cut off."""
    ref = f"{prefix}/{site.effect}"
    return _saved(max(await site.repository.refs(ref, f"{ref}-*"), default=None))


def _saved(ref: str | None) -> dict[str, str]:
    return {"salvaged": ref} if ref is not None else {}
