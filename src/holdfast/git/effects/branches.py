"""Branches and refs, taken away and brought back."""

from typing import ClassVar

from holdfast.core.work.names import BRANCHES, SALVAGE
from holdfast.git.effects.base import GitEffect, InWorktree, Probe, Result, Site, no, salvaged_by, saved_as, yes
from holdfast.git.locks import clear_packed_refs_locks, clear_ref_locks
from holdfast.git.repository import ABSENT
from holdfast.git.worktrees.head import can_be_taken_over, head_of, take_over, told_of_going_astray
from holdfast.leaf.errors import Denied


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
        into = await repository.commit_of(self.merged_into) if self.merged_into is not None else None
        merged = into is not None and await repository.is_ancestor(at, into)
        kept = (
            None
            if merged or await repository.is_elsewhere(at)
            else await repository.keep(f"{self._salvage}/{site.effect}", at)
        )
        await repository.delete_ref(ref, at)
        return saved_as(kept)

    async def probe(self, site: Site) -> Probe:
        at = await site.repository.commit_of(f"refs/heads/{self.branch}")
        return yes(**await salvaged_by(site, self._salvage)) if at is None else no()

    async def mend(self, site: Site) -> str | None:
        clear_ref_locks(site.repository.common_dir, f"refs/heads/{self.branch}", self._salvage)
        await clear_packed_refs_locks(site.repository.common_dir)
        return (await salvaged_by(site, self._salvage)).get("salvaged")

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


class TakeOverHead(InWorktree, frozen=True, kw_only=True):
    """Move a task's branch to `commit`, which its agent made on another branch (`was`) or on none; and HEAD back to it.

    Only forward: all that the branch has is in the commit. The other branch stays. `own` when all that is new on it was
    made in this worktree.
    """

    kind: ClassVar[str] = "branch.take_over"
    base: str
    commit: str
    was: str | None = None
    own: bool = False

    async def perform(self, site: Site) -> Result:
        worktree = self.worktree(site)
        head = await head_of(worktree)
        if not head.is_on_own:
            if not await can_be_taken_over(worktree, head, self.base):
                raise Denied(told_of_going_astray(worktree, head, self.base))
            await take_over(worktree, head)
        return {}

    async def probe(self, site: Site) -> Probe:
        head = await head_of(self.worktree(site))
        if not head.is_on_own or head.tip is None:
            return no()
        return yes() if await site.repository.is_ancestor(self.commit, head.tip) else no()


class DropRefs(GitEffect, frozen=True, kw_only=True):
    """Delete every ref under one of our own prefixes; `keep` are commits to save first, if git has them still.

    Not where something of the user's has them.
    """

    kind: ClassVar[str] = "refs.drop"
    prefix: str
    keep: tuple[str, ...] = ()

    async def perform(self, site: Site) -> Result:
        kept = [
            await site.repository.keep(f"{SALVAGE}{site.run_id}/snapshots/{site.effect}", commit)
            for commit in self.keep
            if await site.repository.commit_of(commit) is not None and not await site.repository.is_elsewhere(commit)
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
