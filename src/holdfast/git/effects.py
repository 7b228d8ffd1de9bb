"""The effects on a repository: what to do, how to do it, and how to ask afterwards whether it was done.

An effect is plain data, so that its intent in the log is enough to finish it after a crash. `perform` may be called
again: it finds what is there. `probe` looks and changes nothing; when it cannot tell, it says so.
"""

import os
import shutil
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, ClassVar, NamedTuple

import msgspec

from holdfast.git.commit import Signature, commit_all, find_commit, keep_failed, unwind_failed
from holdfast.git.leftovers import clear_leftovers
from holdfast.git.merge import MergeOutcome, merge_task
from holdfast.git.process import LONG, GitFailed
from holdfast.git.repository import Repository
from holdfast.git.snapshot import take_snapshot
from holdfast.git.worktree import Worktree, add_worktree, forget_worktree, is_made
from holdfast.leaf.errors import Denied

Result = dict[str, Any]


class Site(NamedTuple):
    """Which effect of the log this is, and the mark by which its processes can be found again."""

    effect: str
    mark: Mapping[str, str]


class Happened(StrEnum):
    YES = "happened"
    NO = "did not happen"
    UNKNOWN = "unknown"


class Probe(NamedTuple):
    happened: Happened
    result: Result
    reason: str | None = None


def yes(**result: Any) -> Probe:
    return Probe(Happened.YES, result)


def no() -> Probe:
    return Probe(Happened.NO, {})


def unknown(reason: str) -> Probe:
    return Probe(Happened.UNKNOWN, {}, reason)


class GitEffect(msgspec.Struct, frozen=True, kw_only=True):
    """Something to be done to one repository."""

    kind: ClassVar[str]
    common_dir: str

    def repository(self, site: Site) -> Repository:
        return Repository(self.common_dir, mark=site.mark)

    async def perform(self, site: Site) -> Result:
        raise NotImplementedError

    async def probe(self, site: Site) -> Probe:
        raise NotImplementedError


class _InWorktree(GitEffect, frozen=True, kw_only=True):
    path: str
    branch: str

    def worktree(self, site: Site) -> Worktree:
        return Worktree(self.repository(site), self.path, self.branch)


class MakeWorktree(_InWorktree, frozen=True, kw_only=True):
    kind: ClassVar[str] = "worktree.make"
    base: str

    async def perform(self, site: Site) -> Result:
        await add_worktree(self.worktree(site), self.base)
        return {"path": self.path, "branch": self.branch}

    async def probe(self, site: Site) -> Probe:
        return yes(path=self.path, branch=self.branch) if await is_made(self.worktree(site)) else no()


class RemoveWorktree(_InWorktree, frozen=True, kw_only=True):
    """Save what is in it under `salvage`, then remove it. A folder that is not ours is not touched."""

    kind: ClassVar[str] = "worktree.remove"
    salvage: str

    async def perform(self, site: Site) -> Result:
        worktree = self.worktree(site)
        fact = await worktree.repository.worktree_at(self.path)
        if fact is None and not os.path.exists(self.path):
            return {}
        if not os.path.exists(self.path):
            await forget_worktree(worktree)
            return {}
        saved = await take_snapshot(worktree, self.salvage, "What stood in a worktree when it was removed")
        if saved.left_out:
            raise Denied(
                f"{self.path} holds repositories of its own ({', '.join(saved.left_out)}), which cannot be saved with "
                "it; move them away, or remove the folder yourself"
            )
        if saved.clean:
            await worktree.repository.delete_ref(self.salvage, saved.oid)
        await worktree.repository.git.do("worktree", "remove", "--force", self.path)
        shutil.rmtree(self.path, ignore_errors=True)  # ignored files that git left
        return {} if saved.clean else {"salvaged": self.salvage}

    async def probe(self, site: Site) -> Probe:
        fact = await self.repository(site).worktree_at(self.path)
        return yes() if fact is None and not os.path.exists(self.path) else no()


class DeleteBranch(GitEffect, frozen=True, kw_only=True):
    """Delete a branch that is still at `commit`, keeping the commit under `salvage` unless `merged_into` has it."""

    kind: ClassVar[str] = "branch.delete"
    branch: str
    commit: str
    salvage: str
    merged_into: str | None = None

    async def perform(self, site: Site) -> Result:
        repository = self.repository(site)
        ref = f"refs/heads/{self.branch}"
        at = await repository.commit_of(ref)
        if at is None:
            return {}
        if at != self.commit:
            raise Denied(f"{self.branch} has moved on to {at[:12]} meanwhile; it was left as it is")
        merged = self.merged_into is not None and await repository.is_ancestor(at, self.merged_into)
        if not merged:
            await repository.set_ref(self.salvage, at)
        await repository.delete_ref(ref, at)
        return {} if merged else {"salvaged": self.salvage}

    async def probe(self, site: Site) -> Probe:
        at = await self.repository(site).commit_of(f"refs/heads/{self.branch}")
        return yes() if at is None else no()


class CommitTask(_InWorktree, frozen=True, kw_only=True):
    kind: ClassVar[str] = "commit"
    run: str
    task: str | None
    message: str
    salvage: str

    async def perform(self, site: Site) -> Result:
        worktree = self.worktree(site)
        await clear_leftovers(worktree, self.salvage)
        return {"commit": await commit_all(worktree, self.message, Signature(self.run, site.effect, self.task))}

    async def probe(self, site: Site) -> Probe:
        return await _committed(self.worktree(site), site.effect)


class KeepFailed(_InWorktree, frozen=True, kw_only=True):
    kind: ClassVar[str] = "commit.failed"
    run: str
    task: str
    reason: str
    salvage: str

    async def perform(self, site: Site) -> Result:
        worktree = self.worktree(site)
        await clear_leftovers(worktree, self.salvage)
        return {"commit": await keep_failed(worktree, self.reason, Signature(self.run, site.effect, self.task))}

    async def probe(self, site: Site) -> Probe:
        return await _committed(self.worktree(site), site.effect)


class UnwindFailed(_InWorktree, frozen=True, kw_only=True):
    """Take the placeholder commit of the effect `placeholder` back."""

    kind: ClassVar[str] = "commit.unwind"
    placeholder: str
    salvage: str

    async def perform(self, site: Site) -> Result:
        worktree = self.worktree(site)
        await clear_leftovers(worktree, self.salvage)
        return {"unwound": await unwind_failed(worktree, self.placeholder)}

    async def probe(self, site: Site) -> Probe:
        there = await find_commit(self.worktree(site), self.placeholder)
        return yes(unwound=True) if there is None else no()


class MergeTask(_InWorktree, frozen=True, kw_only=True):
    """Merge `commit`, the tip of `task_branch`, into the run's branch."""

    kind: ClassVar[str] = "merge"
    run: str
    task: str | None
    task_branch: str
    commit: str
    salvage: str

    async def perform(self, site: Site) -> Result:
        worktree = self.worktree(site)
        await clear_leftovers(worktree, self.salvage)
        merged = await merge_task(worktree, self.task_branch, Signature(self.run, site.effect, self.task))
        if merged.outcome is MergeOutcome.CONFLICTS:
            return {"conflicts": list(merged.conflicts)}
        return {"commit": merged.commit}

    async def probe(self, site: Site) -> Probe:
        repository = self.repository(site)
        ours = await repository.commit_of(f"refs/heads/{self.branch}")
        if ours is None:
            return unknown(f"the branch {self.branch} is gone")
        return yes(commit=ours) if await repository.is_ancestor(self.commit, ours) else no()


class Push(GitEffect, frozen=True, kw_only=True):
    """Bring `commit` to a branch of the remote; never by force."""

    kind: ClassVar[str] = "push"
    remote: str
    branch: str
    commit: str

    async def perform(self, site: Site) -> Result:
        target = f"{self.commit}:refs/heads/{self.branch}"
        await self.repository(site).git.do("push", "--porcelain", self.remote, target)
        return {"remote": self.remote, "branch": self.branch, "commit": self.commit}

    async def probe(self, site: Site) -> Probe:
        repository = self.repository(site)
        try:
            answer = await repository.git.ask(
                "ls-remote", "--heads", self.remote, f"refs/heads/{self.branch}", limit=LONG
            )
        except GitFailed as error:
            return unknown(str(error))
        at = answer.text.partition("\t")[0]
        if not at:
            return no()
        if at == self.commit:
            return yes(remote=self.remote, branch=self.branch, commit=at)
        try:
            later = await repository.is_ancestor(self.commit, at)
        except GitFailed:
            return unknown(f"{self.remote} has {self.branch} at {at[:12]}, which is not known here")
        return yes(remote=self.remote, branch=self.branch, commit=at) if later else no()


EFFECTS: dict[str, type[GitEffect]] = {
    effect.kind: effect
    for effect in (MakeWorktree, RemoveWorktree, DeleteBranch, CommitTask, KeepFailed, UnwindFailed, MergeTask, Push)
}


async def _committed(worktree: Worktree, effect: str) -> Probe:
    commit = await find_commit(worktree, effect)
    return yes(commit=commit) if commit is not None else no()
