"""The base classes of all effects on a repository.

An effect is plain data, so that its intent in the log is enough to finish it after a crash. Names of branches and
folders follow from the run and the task (`core.work.names`), so that repository and home can move. `perform` can be
called again: it continues from what it finds. `probe` only looks, and says so when it cannot tell. `repair` saves and
then removes what an interrupted attempt left half done; no process of that attempt may be alive.
"""

import os
from collections.abc import Mapping
from contextlib import suppress
from enum import StrEnum
from typing import Any, ClassVar, NamedTuple

import msgspec

from holdfast.core.log.anchors import Anchor
from holdfast.core.work.names import WorktreeNames, run_refs, worktree_names
from holdfast.git.commit import CommitContext, CommitTrailers
from holdfast.git.locks import clear_ref_locks, clear_shared_locks
from holdfast.git.merge import forget_concluded_merge
from holdfast.git.repository import Repository
from holdfast.git.worktrees.worktree import NotOurWorktree, Worktree

Result = dict[str, Any]


class EffectSite(NamedTuple):
    """Where an effect happens: its id and run, the repository and the run's folder.

    `anchor` is the log's head after the effect's intent was written; the effect's commits carry it.
    """

    run_id: str
    effect_id: str
    repository: Repository
    run_folder: str
    anchor: Anchor | None = None

    def trailers(self, task_id: str | None = None) -> CommitTrailers:
        return CommitTrailers(self.run_id, self.effect_id, task_id, self.anchor)

    def worktree(self, place: WorktreeNames) -> Worktree:
        return Worktree(self.repository, os.path.join(self.run_folder, place.folder), place.branch)


class ProbeOutcome(StrEnum):
    YES = "happened"
    NO = "did not happen"
    UNKNOWN = "unknown"


class ProbeResult(NamedTuple):
    outcome: ProbeOutcome
    result: Mapping[str, Any] = {}
    reason: str | None = None


def happened(**result: Any) -> ProbeResult:
    return ProbeResult(ProbeOutcome.YES, result)


def did_not_happen() -> ProbeResult:
    return ProbeResult(ProbeOutcome.NO)


def unknown_outcome(reason: str) -> ProbeResult:
    return ProbeResult(ProbeOutcome.UNKNOWN, reason=reason)


class GitEffect(msgspec.Struct, frozen=True, kw_only=True):
    """A change to one repository. With `repair_completes`, a repair may finish it: then the probe is asked again."""

    kind: ClassVar[str]
    repair_completes: ClassVar[bool] = False

    def clear_locks(self, site: EffectSite) -> None:
        """Remove the locks of a dead git at the effect's site; raises `Denied` when a git is running there."""
        clear_shared_locks(site.repository.common_dir, *run_refs(site.run_id))

    def exclusive_folder(self, site: EffectSite) -> str:
        """Return the folder in which no other effect may run at the same time."""
        return site.repository.common_dir

    async def perform(self, site: EffectSite) -> Result:
        raise NotImplementedError

    async def sync(self, site: EffectSite) -> None:
        """Sync changed files before the outcome is written. Git has synced objects and refs already."""

    async def probe(self, site: EffectSite) -> ProbeResult:
        raise NotImplementedError

    async def repair(self, site: EffectSite) -> str | None:  # noqa: ARG002 - most have nothing to repair
        """Clean up after an interrupted attempt. Returns the ref under which something was saved, if something was."""
        return None


class WorktreeEffect(GitEffect, frozen=True, kw_only=True):
    """An effect in the worktree of a task; without a task, in the run's worktree."""

    task: str | None = None

    def place(self, site: EffectSite) -> WorktreeNames:
        return worktree_names(site.run_id, self.task)

    def worktree(self, site: EffectSite) -> Worktree:
        return site.worktree(self.place(site))

    def commit_context(self, site: EffectSite, base: str) -> CommitContext:
        return CommitContext(base, f"{self.place(site).snapshot_refs}/taken_back/{site.effect_id}")

    def trailers(self, site: EffectSite) -> CommitTrailers:
        return site.trailers(self.task)

    async def repair(self, site: EffectSite) -> str | None:
        place, worktree = self.place(site), self.worktree(site)
        clear_ref_locks(site.repository.common_dir, place.snapshot_refs, place.salvage_refs)
        with suppress(NotOurWorktree):  # the next effect there reports it
            worktree.clear_locks()
            await forget_concluded_merge(worktree)
        return None

    def target_worktree(self, site: EffectSite) -> Worktree:
        """Return the worktree whose index and HEAD the effect uses."""
        return self.worktree(site)

    def exclusive_folder(self, site: EffectSite) -> str:
        return self.target_worktree(site).path

    def clear_locks(self, site: EffectSite) -> None:
        super().clear_locks(site)
        with suppress(NotOurWorktree):  # the next effect there reports it
            self.target_worktree(site).clear_locks()


async def find_salvaged(site: EffectSite, prefix: str) -> dict[str, str]:
    """Return what an interrupted attempt saved."""
    ref = f"{prefix}/{site.effect_id}"
    return salvaged_result(max(await site.repository.refs(ref, f"{ref}-*"), default=None))


def salvaged_result(ref: str | None) -> dict[str, str]:
    return {"salvaged": ref} if ref is not None else {}
