"""A cluster run's refs on its remote: listed, pushed all or none, and fetched.

A push is atomic, and names for each ref what the remote must have now. With every push the ref `owner` of the epoch
changes, so the remote itself refuses a push of an owner that another one replaced.
"""

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import NamedTuple

from holdfast.core.work.cluster_refs import (
    INCOMING_REFS,
    OWNER,
    cluster_prefix,
    epoch_of,
    epoch_prefix,
    local_ref,
    shared_name,
)
from holdfast.core.work.names import run_refs
from holdfast.git.locks import clear_shared_locks
from holdfast.git.process import GitFailed
from holdfast.git.repository import Repository
from holdfast.git.snapshot import SNAPSHOT_IDENTITY
from holdfast.leaf.errors import HoldfastError, RunFenced, TimedOut
from holdfast.leaf.failpoints import failpoint_pair

PUSH_TIMEOUT_S = 600.0
_QUIET_HOOKS = ("-c", f"core.hooksPath={os.devnull}")  # the user's pre-push hook is for the user's branches
_FAILPOINT_PUSH = failpoint_pair("cluster.push")
_PUSH_ATTEMPTS = 3


class RemoteRefs(NamedTuple):
    """A run's refs on the remote: the epoch of its newest owner, that owner's refs by name, and all refs of the run."""

    epoch: int | None
    named: Mapping[str, str]
    everything: Mapping[str, str]

    @property
    def owner(self) -> str | None:
        """Return the commit that the newest owner pushed last; None when the remote has nothing of the run."""
        return self.named.get(OWNER)


class RefUpdate(NamedTuple):
    """A ref of the remote, its new commit (None deletes it) and the one it must have now (None: it must not exist)."""

    ref: str
    new: str | None
    old: str | None


async def list_remote_refs(repository: Repository, url: str, run_id: str) -> RemoteRefs:
    answer = await repository.git.query(
        "ls-remote", "--refs", url, f"{cluster_prefix(run_id)}*", timeout_s=PUSH_TIMEOUT_S
    )
    everything = {name: oid for oid, _, name in (line.partition("\t") for line in answer.lines)}
    owners = [epoch_of(run_id, ref) for ref in everything if ref.endswith(f"/{OWNER}")]
    epoch = max((found for found in owners if found is not None), default=None)
    if epoch is None:
        return RemoteRefs(None, {}, everything)
    prefix = epoch_prefix(run_id, epoch)
    named = {ref.removeprefix(prefix): oid for ref, oid in everything.items() if ref.startswith(prefix)}
    return RemoteRefs(epoch, named, everything)


async def local_refs(repository: Repository, run_id: str) -> dict[str, str]:
    """Return the run's refs in a repository, by their names on the remote."""
    refs = await repository.refs(*run_refs(run_id))
    named = {shared_name(run_id, ref): oid for ref, oid in refs.items()}
    return {name: oid for name, oid in named.items() if name is not None}


async def new_owner_commit(repository: Repository, run_id: str, epoch: int, number: int) -> str:
    """Create the commit that `owner` points to after a push. It has no files and no parent."""
    message = f"holdfast: {run_id}, epoch {epoch}, push {number}"
    tree = await repository.empty_tree()
    return (await repository.git.execute("commit-tree", "-m", message, tree, extra_env=SNAPSHOT_IDENTITY)).text


async def push_updates(repository: Repository, url: str, run_id: str, epoch: int, updates: Iterable[RefUpdate]) -> None:
    """Push all updates or none; one of them moves the `owner` of this epoch.

    Raises `RunFenced` when the remote has another owner. After a failure it asks the remote whether the push arrived.
    """
    updates = list(updates)
    owner = next(update for update in updates if update.ref == f"{epoch_prefix(run_id, epoch)}{OWNER}")
    leases = [f"--force-with-lease={update.ref}:{update.old or ''}" for update in updates]
    specs = [f"{update.new or ''}:{update.ref}" for update in updates]
    for attempts_left in reversed(range(_PUSH_ATTEMPTS)):
        clear_own_locks(url, run_id)
        _FAILPOINT_PUSH.before()
        try:
            options = ("--quiet", "--atomic", "--no-verify", *leases)
            await repository.git.execute(*_QUIET_HOOKS, "push", *options, url, *specs, timeout_s=PUSH_TIMEOUT_S)
        except (GitFailed, TimedOut) as error:
            if await _has_arrived(repository, url, run_id, owner, error):
                break
            if not attempts_left:
                raise
        else:
            break
    _FAILPOINT_PUSH.after()


async def _has_arrived(repository: Repository, url: str, run_id: str, owner: RefUpdate, error: HoldfastError) -> bool:
    """Ask the remote after a failed push. Raises `RunFenced` when another owner has replaced this one."""
    try:
        there = await list_remote_refs(repository, url, run_id)
    except (GitFailed, TimedOut):
        raise error from None
    found = there.everything.get(owner.ref)
    if found not in (owner.new, owner.old) or (there.epoch or 0) > (epoch_of(run_id, owner.ref) or 0):
        raise RunFenced(
            f"run {run_id} was taken over by another machine (epoch {there.epoch}); its remote refused this push"
        ) from error
    return found == owner.new


async def fetch_incoming(repository: Repository, url: str, run_id: str, remote: RemoteRefs) -> None:
    """Fetch everything that the newest owner pushed, under refs that nothing else uses."""
    assert remote.epoch is not None, "there is something to fetch"
    refspec = f"+{epoch_prefix(run_id, remote.epoch)}*:{INCOMING_REFS}{run_id}/*"
    options = ("--quiet", "--no-tags", "--no-write-fetch-head", "--refmap=", "--prune")
    await repository.git.execute(*_QUIET_HOOKS, "fetch", *options, url, refspec, timeout_s=PUSH_TIMEOUT_S)


async def accept_incoming(repository: Repository, run_id: str, salvage_prefix: str) -> list[str]:
    """Make the fetched refs those of the run, in one transaction. Returns the refs that keep what was only here."""
    prefix = f"{INCOMING_REFS}{run_id}/"
    incoming = await repository.refs(prefix)
    wanted = {local_ref(run_id, ref.removeprefix(prefix)): oid for ref, oid in incoming.items()}
    there = await repository.refs(*run_refs(run_id))
    commands, kept = [], []
    for ref, oid in there.items():
        name, new = shared_name(run_id, ref) or "", wanted.get(ref)
        is_kept_anyway = name.startswith("salvage/") or new == oid
        if is_kept_anyway:
            continue
        if name != "chain" and not (new is not None and await repository.is_ancestor(oid, new)):
            kept.append(f"{salvage_prefix}/{name}")
            commands.append(f"update {kept[-1]} {oid}")
        if new is None:
            commands.append(f"delete {ref} {oid}")
    commands += [f"update {ref} {oid}" for ref, oid in wanted.items() if ref is not None and there.get(ref) != oid]
    commands += [f"delete {ref} {oid}" for ref, oid in incoming.items()]
    if commands:
        await repository.git.execute("update-ref", "--stdin", stdin="\n".join([*commands, ""]).encode())
    return kept


def clear_own_locks(url: str, run_id: str) -> None:
    """Remove what a killed push left in a remote that is a folder of this machine.

    Such a remote is written by a child process of ours, which may have been killed.
    """
    folder = remote_folder_at(url)
    if folder is not None:
        with suppress(OSError):
            clear_shared_locks(folder, cluster_prefix(run_id))


def remote_folder_at(url: str) -> str | None:
    """Return the git directory of a URL that is a folder on this machine; None for any other URL."""
    path = url.removeprefix("file://")
    if not os.path.isabs(path):
        return None
    found = (folder for folder in (os.path.join(path, ".git"), path) if os.path.isdir(os.path.join(folder, "refs")))
    return next(found, None)
