"""What every effect on a repository is made of.

An effect is plain data, so that its intent in the log is enough to finish it after a crash; names of branches and
folders follow from the run and the task (`core.workspace`), so that repository and home may move. `perform` may be
called again: it finds what is there. `probe` looks and changes nothing; when it cannot tell, it says so. `mend` takes
away what a cut-off attempt left half done, after saving it; only to be called when nobody of that attempt is alive.
"""

import os
from collections.abc import Mapping
from contextlib import suppress
from enum import StrEnum
from typing import Any, ClassVar, NamedTuple

import msgspec

from holdfast.core.log.anchors import Anchor
from holdfast.core.work.names import Place, place_of, refs_of
from holdfast.git.commit import Ground, Signature
from holdfast.git.locks import clear_ref_locks, clear_shared_locks
from holdfast.git.merge import forget_concluded_merge
from holdfast.git.repository import Repository
from holdfast.git.worktrees.worktree import NotOurWorktree, Worktree

Result = dict[str, Any]


class Site(NamedTuple):
    """Where an effect takes place: which one of which run, in which repository and run's folder.

    `anchor` is the log's head once the effect's intent is in it, for the commits that it makes.
    """

    run_id: str
    effect: str
    repository: Repository
    folder: str
    anchor: Anchor | None = None

    def signature(self, task: str | None = None) -> Signature:
        return Signature(self.run_id, self.effect, task, self.anchor)

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

    async def sync(self, site: Site) -> None:
        """Have on the disk what it did to files, before its outcome is written; objects and refs are, by git."""

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
        return site.signature(self.task)

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


async def salvaged_by(site: Site, prefix: str) -> dict[str, str]:
    """What an attempt saved before it was cut off."""
    ref = f"{prefix}/{site.effect}"
    return saved_as(max(await site.repository.refs(ref, f"{ref}-*"), default=None))


def saved_as(ref: str | None) -> dict[str, str]:
    return {"salvaged": ref} if ref is not None else {}
