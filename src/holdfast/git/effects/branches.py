"""Effects that delete, restore and move branches and refs."""

from typing import ClassVar

from holdfast.core.work.names import BRANCH_PREFIX, SALVAGE_REFS
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
from holdfast.git.locks import clear_packed_refs_locks, clear_ref_locks
from holdfast.git.repository import ABSENT
from holdfast.git.worktrees.head import can_be_taken_over, describe_stray_head, head_of, take_over
from holdfast.leaf.errors import Denied


class DeleteBranch(GitEffect, frozen=True, kw_only=True):
    """Delete a branch of the run that is still at `commit`.

    The commit is saved, unless `merged_into` or a branch, tag or remote of the user contains it.
    """

    kind: ClassVar[str] = "branch.delete"
    branch: str
    commit: str
    merged_into: str | None = None

    async def perform(self, site: EffectSite) -> Result:
        repository = site.repository
        ref = f"refs/heads/{self.branch}"
        at = await repository.commit_of(ref)
        if at is None:
            return {}
        if at != self.commit:
            raise Denied(f"{self.branch} moved to {at[:12]} meanwhile; it was not deleted")
        for worktree in await repository.checkouts_of(self.branch):
            if worktree.prunable is None:
                raise Denied(f"{self.branch} is checked out in {worktree.path}; switch that to another branch first")
        into = None
        if self.merged_into is not None:
            into = await repository.commit_of(f"refs/heads/{self.merged_into}") or await repository.commit_of(
                self.merged_into
            )
        merged = into is not None and await repository.is_ancestor(at, into)
        kept = (
            None
            if merged or await repository.is_in_user_refs(at)
            else await repository.save_ref(f"{self._salvage_ref}/{site.effect_id}", at)
        )
        await repository.delete_ref(ref, at)
        return salvaged_result(kept)

    async def probe(self, site: EffectSite) -> ProbeResult:
        at = await site.repository.commit_of(f"refs/heads/{self.branch}")
        return happened(**await find_salvaged(site, self._salvage_ref)) if at is None else did_not_happen()

    async def repair(self, site: EffectSite) -> str | None:
        clear_ref_locks(site.repository.common_dir, f"refs/heads/{self.branch}", self._salvage_ref)
        await clear_packed_refs_locks(site.repository.common_dir)
        return (await find_salvaged(site, self._salvage_ref)).get("salvaged")

    @property
    def _salvage_ref(self) -> str:
        return f"{SALVAGE_REFS}{self.branch.removeprefix(BRANCH_PREFIX)}"


class RestoreBranch(WorktreeEffect, frozen=True, kw_only=True):
    """Create a lost branch again, at `commit`; the work on it started at `base`."""

    kind: ClassVar[str] = "branch.restore"
    base: str
    commit: str

    async def perform(self, site: EffectSite) -> Result:
        ref = f"refs/heads/{self.place(site).branch}"
        if await site.repository.commit_of(ref) is None:
            await site.repository.set_ref(ref, self.commit, ABSENT)
        return {}

    async def probe(self, site: EffectSite) -> ProbeResult:
        at = await site.repository.commit_of(f"refs/heads/{self.place(site).branch}")
        return did_not_happen() if at is None else happened()


class TakeOverHead(WorktreeEffect, frozen=True, kw_only=True):
    """Move a task's branch to `commit`, which its agent made on another branch (`was`) or on none, and HEAD back to it.

    Only fast-forwards. The other branch stays. `own` when all its new commits were made in this worktree.
    """

    kind: ClassVar[str] = "branch.take_over"
    base: str
    commit: str
    was: str | None = None
    own: bool = False

    async def perform(self, site: EffectSite) -> Result:
        worktree = self.worktree(site)
        head = await head_of(worktree)
        if not head.is_on_own_branch:
            if not await can_be_taken_over(worktree, head, self.base):
                raise Denied(describe_stray_head(worktree, head, self.base))
            await take_over(worktree, head)
        return {}

    async def probe(self, site: EffectSite) -> ProbeResult:
        head = await head_of(self.worktree(site))
        if not head.is_on_own_branch or head.own_tip is None:
            return did_not_happen()
        return happened() if await site.repository.is_ancestor(self.commit, head.own_tip) else did_not_happen()


class DropRefs(GitEffect, frozen=True, kw_only=True):
    """Delete every ref under one of our own prefixes.

    Saves the commits in `keep` first, if they still exist and no ref of the user contains them.
    """

    kind: ClassVar[str] = "refs.drop"
    prefix: str
    keep: tuple[str, ...] = ()

    async def perform(self, site: EffectSite) -> Result:
        kept = [
            await site.repository.save_ref(f"{SALVAGE_REFS}{site.run_id}/snapshots/{site.effect_id}", commit)
            for commit in self.keep
            if await site.repository.commit_of(commit) is not None and not await site.repository.is_in_user_refs(commit)
        ]
        for name, oid in (await site.repository.refs(self.prefix)).items():
            await site.repository.delete_ref(name, oid)
        return {"salvaged": kept} if kept else {}

    async def probe(self, site: EffectSite) -> ProbeResult:
        return did_not_happen() if await site.repository.refs(self.prefix) else happened()

    async def repair(self, site: EffectSite) -> str | None:
        clear_ref_locks(site.repository.common_dir, self.prefix.rstrip("/"))
        await clear_packed_refs_locks(site.repository.common_dir)
        return None
