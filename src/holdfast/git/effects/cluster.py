"""Effects on a cluster run's remote: a new owner takes its refs over, and the end of the run deletes them."""

import json
import os
from contextlib import suppress
from typing import ClassVar

from holdfast.core.work.cluster_refs import INCOMING_REFS, OWNER, epoch_prefix
from holdfast.core.work.names import SALVAGE_REFS, worktree_names
from holdfast.git.cluster.remote_refs import (
    RefUpdate,
    RemoteRefs,
    accept_incoming,
    clear_own_locks,
    fetch_incoming,
    list_remote_refs,
    local_refs,
    new_owner_commit,
    push_updates,
)
from holdfast.git.effects.base import (
    EffectSite,
    GitEffect,
    ProbeResult,
    Result,
    did_not_happen,
    happened,
    unknown_outcome,
)
from holdfast.git.effects.worktrees import RemoveWorktree
from holdfast.git.locks import clear_ref_locks
from holdfast.git.process import GitFailed
from holdfast.git.worktree_admin import drop_entries
from holdfast.leaf.errors import Denied, RunFenced, TimedOut
from holdfast.leaf.failpoints import failpoint_pair
from holdfast.leaf.files.directories import path_exists
from holdfast.leaf.files.disk import replace

EPOCHS_FILE = "cluster-epochs.json"  # in the run's folder: the owners whose files the folder continues

_FAILPOINT_EPOCHS = failpoint_pair("cluster.epochs")
_FAILPOINT_FORGET = failpoint_pair("cluster.epochs.forget")


class TakeOverRefs(GitEffect, frozen=True, kw_only=True):
    """Make the run's refs on the remote those of the owner with `epoch`, and bring the files here up to date.

    When another machine had the run since this one, what it pushed is fetched. What only this machine has is saved
    first: its worktrees, of these `tasks`, and its branches. Then one push creates the refs of this epoch and deletes
    those of the earlier owner, whose next push is refused. The result has `moved` when files were fetched. A new run
    has only the commit `base` there.
    """

    kind: ClassVar[str] = "cluster.take_over"
    url: str
    epoch: int
    tasks: tuple[str | None, ...] = ()
    base: str | None = None

    async def perform(self, site: EffectSite) -> Result:
        remote = await list_remote_refs(site.repository, self.url, site.run_id)
        if remote.epoch is not None and remote.epoch > self.epoch:
            raise RunFenced(f"run {site.run_id} was taken over by another machine (epoch {remote.epoch})")
        result: Result = {}
        if self.base is None:
            if remote.epoch is not None and remote.epoch not in read_epochs(site.run_folder):
                result = await self._fetch(site, remote)
            self._write_epochs(site, remote)
        await self._push(site, remote)
        return result

    async def _fetch(self, site: EffectSite, remote: RemoteRefs) -> Result:
        for task in self.tasks:
            await self._set_aside(site, task)
        await fetch_incoming(site.repository, self.url, site.run_id, remote)
        prefix = f"{SALVAGE_REFS}{site.run_id}/moved/{site.effect_id}"
        return {"moved": remote.epoch, "salvaged": await accept_incoming(site.repository, site.run_id, prefix)}

    async def _set_aside(self, site: EffectSite, task: str | None) -> None:
        """Remove a worktree that another machine has continued; where its files cannot be saved, move it aside."""
        place = worktree_names(site.run_id, task)
        path = os.path.join(site.run_folder, place.folder)
        try:
            await RemoveWorktree(task=task).perform(site)
        except Denied:
            if path_exists(path):
                os.rename(path, os.path.join(site.run_folder, f"moved-{place.leaf}-{site.effect_id}"))
            drop_entries(site.repository.common_dir, path)

    async def _push(self, site: EffectSite, remote: RemoteRefs) -> None:
        owner = await new_owner_commit(site.repository, site.run_id, self.epoch, 0)
        base = {f"heads/{worktree_names(site.run_id).leaf}": self.base} if self.base is not None else {}
        wanted = {**base, **await local_refs(site.repository, site.run_id), OWNER: owner}
        prefix = epoch_prefix(site.run_id, self.epoch)
        updates = [RefUpdate(prefix + name, oid, remote.everything.get(prefix + name)) for name, oid in wanted.items()]
        replaced = [ref for ref in remote.everything if ref.removeprefix(prefix) not in wanted]
        updates += [RefUpdate(ref, None, remote.everything[ref]) for ref in replaced]
        await push_updates(site.repository, self.url, site.run_id, self.epoch, updates)

    async def probe(self, site: EffectSite) -> ProbeResult:
        try:
            remote = await list_remote_refs(site.repository, self.url, site.run_id)
        except (GitFailed, TimedOut) as error:
            return unknown_outcome(str(error))
        return happened() if remote.epoch is not None and remote.epoch >= self.epoch else did_not_happen()

    async def repair(self, site: EffectSite) -> str | None:
        clear_ref_locks(site.repository.common_dir, f"{INCOMING_REFS}{site.run_id}")
        clear_own_locks(self.url, site.run_id)
        for task in self.tasks:
            with suppress(Denied):
                await RemoveWorktree(task=task).repair(site)
        return None

    def _write_epochs(self, site: EffectSite, remote: RemoteRefs) -> None:
        """Before the push: after a crash, this folder continues the remote's refs of either owner."""
        epochs = [epoch for epoch in (remote.epoch, self.epoch) if epoch is not None]
        _FAILPOINT_EPOCHS.before()
        replace(os.path.join(site.run_folder, EPOCHS_FILE), json.dumps(epochs).encode())
        _FAILPOINT_EPOCHS.after()


class DropClusterRefs(GitEffect, frozen=True, kw_only=True):
    """Delete the run's refs on the remote, at the end of the run, while this machine has everything."""

    kind: ClassVar[str] = "cluster.drop"
    url: str
    epoch: int

    async def perform(self, site: EffectSite) -> Result:
        remote = await list_remote_refs(site.repository, self.url, site.run_id)
        if remote.epoch is not None:
            if remote.epoch > self.epoch:
                raise RunFenced(f"run {site.run_id} was taken over by another machine (epoch {remote.epoch})")
            updates = [RefUpdate(ref, None, oid) for ref, oid in remote.everything.items()]
            await push_updates(site.repository, self.url, site.run_id, remote.epoch, updates)
        return {}

    async def probe(self, site: EffectSite) -> ProbeResult:
        try:
            remote = await list_remote_refs(site.repository, self.url, site.run_id)
        except (GitFailed, TimedOut) as error:
            return unknown_outcome(str(error))
        return did_not_happen() if remote.everything else happened()

    async def repair(self, site: EffectSite) -> str | None:
        clear_own_locks(self.url, site.run_id)
        return None


def read_epochs(run_folder: str) -> list[int]:
    """Return the owners whose files this folder continues; none when the run was never here."""
    try:
        with open(os.path.join(run_folder, EPOCHS_FILE), "rb") as file:
            found = json.loads(file.read())
    except (FileNotFoundError, ValueError):
        return []
    return [epoch for epoch in found if isinstance(epoch, int)] if isinstance(found, list) else []


def forget_epochs(run_folder: str) -> None:
    """From now on this folder continues no owner's files: it has none."""
    _FAILPOINT_FORGET.before()
    with suppress(FileNotFoundError):
        os.unlink(os.path.join(run_folder, EPOCHS_FILE))
    _FAILPOINT_FORGET.after()
