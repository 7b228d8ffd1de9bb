"""Carries a cluster run's refs to its remote, so that another machine can continue with them.

What the log names is on the remote first: after each effect, and before its outcome is recorded, every ref of the run
that changed is pushed. A run of this machine alone has no transport.
"""

import asyncio

from holdfast.core.work.cluster_refs import OWNER, epoch_prefix
from holdfast.git.cluster.remote_refs import (
    RefUpdate,
    list_remote_refs,
    local_refs,
    new_owner_commit,
    push_updates,
)
from holdfast.git.repository import Repository
from holdfast.leaf.errors import RunFenced


class RefTransport:
    """Publishes the refs of one run, for its owner. Does nothing before `begin`."""

    def __init__(self, repository: Repository, run_id: str, url: str, epoch: int) -> None:
        self.url = url
        self.epoch = epoch
        self._repository = repository
        self._run_id = run_id
        self._pushed: dict[str, str] | None = None
        self._pushes = 0
        self._lock = asyncio.Lock()

    async def begin(self) -> None:
        """Start publishing: the refs on the remote are those of our epoch now."""
        remote = await list_remote_refs(self._repository, self.url, self._run_id)
        if remote.epoch != self.epoch:
            raise RunFenced(f"run {self._run_id} was taken over by another machine (epoch {remote.epoch})")
        self._pushed = dict(remote.named)

    def end(self) -> None:
        """Stop publishing: the refs on the remote are deleted, or belong to another owner."""
        self._pushed = None

    async def publish(self) -> None:
        """Push the refs that changed since the last push. Raises `RunFenced` when another machine owns the run."""
        async with self._lock:
            if self._pushed is None:
                return
            there = self._pushed
            wanted = await local_refs(self._repository, self._run_id)
            changed = {name for name in {*wanted, *there} - {OWNER} if wanted.get(name) != there.get(name)}
            if not changed:
                return
            self._pushes += 1
            owner = await new_owner_commit(self._repository, self._run_id, self.epoch, self._pushes)
            prefix = epoch_prefix(self._run_id, self.epoch)
            updates = [RefUpdate(prefix + name, wanted.get(name), there.get(name)) for name in sorted(changed)]
            updates.append(RefUpdate(prefix + OWNER, owner, there[OWNER]))
            await push_updates(self._repository, self.url, self._run_id, self.epoch, updates)
            self._pushed = {**wanted, OWNER: owner}
