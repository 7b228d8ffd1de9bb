"""Intent, effect, outcome: the only way in which a run changes the world outside its log.

The intent is durable before the effect, and the outcome before anything builds on it. For what a crash left in between,
`settle` first makes sure that no process of the old tree is alive, then probes, then removes half-finished work after
saving it. What the probe cannot determine is recorded as unknown and stays open for a person.
"""

import asyncio
import os
from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple

import msgspec

from holdfast.agents.process.tree import finish_uncancelled
from holdfast.core.events import Event
from holdfast.core.events.branch import WorkspaceReconciled
from holdfast.core.events.effect import EffectDidNotHappen, EffectHappened, EffectIntended, EffectUnknown
from holdfast.core.events.issue import WarningLogged
from holdfast.core.log.anchors import Anchor
from holdfast.core.state import Branch, BranchStatus, Effect, EffectStatus
from holdfast.core.work.names import run_refs, worktree_names
from holdfast.core.work.reconciliation import Remedy
from holdfast.engine.containers import end_containers
from holdfast.engine.workspace.outcome_events import outcome_events
from holdfast.engine.workspace.transport import RefTransport
from holdfast.git.anchors import write_anchor
from holdfast.git.effects import (
    EFFECTS,
    DropClusterRefs,
    EffectSite,
    GitEffect,
    ProbeOutcome,
    ProbeResult,
    TakeOverRefs,
    empty_trash,
)
from holdfast.git.locks import clear_ref_locks, clear_shared_locks
from holdfast.git.missing_objects import (
    are_intact,
    delete_dropped,
    drop_empty_objects,
    newest_intact_commit,
    reset_branch,
    rewrite_missing_objects,
)
from holdfast.git.process import GitFailed, GitKilled, GitRollbackFailed
from holdfast.git.repository import Repository
from holdfast.git.worktree_admin import folders_of
from holdfast.git.worktrees.worktree import Worktree
from holdfast.leaf.errors import Denied, HoldfastError, StorageFailed, TimedOut
from holdfast.leaf.failpoints import Failpoint, failpoint_pair
from holdfast.leaf.ids import new_effect_id
from holdfast.leaf.process.env_markers import RUN_MARK, iter_marked_processes
from holdfast.leaf.process.fd_marker import iter_processes_holding
from holdfast.leaf.process.identity import kill_until_none_left
from holdfast.store.run import OwnedRun

_LOCK_WAIT_S, _POLL_INTERVAL_S = 2.0, 0.05  # seconds
_FAILPOINTS = {kind: failpoint_pair(f"effect.{kind}") for kind in EFFECTS}
_FAILPOINT_SETTLE = failpoint_pair("effect.settle")
_FAILPOINT_ANCHOR = failpoint_pair("anchor")
_FAILPOINT_REPAIR = failpoint_pair("lost.mend")
_FAILPOINT_RESET_BRANCH = Failpoint("lost.mend.set-back")


class SettledEffect(NamedTuple):
    """The outcome of an effect that a crash had left open."""

    effect_id: str
    kind: str
    task: str | None
    probe: ProbeResult
    salvaged: str | None = None


class EffectRunner:
    """Performs the effects of a run for its owner."""

    def __init__(self, run: OwnedRun, run_id: str, repository: Repository, folder: str) -> None:
        """`repository` must carry the run's mark; `folder` is the run's own."""
        self.run = run
        self.run_id = run_id
        self.repository = repository
        self.folder = folder
        self.moved = False  # another machine had the run since this one
        self._worktree_locks: dict[str, asyncio.Lock] = {}

    @cached_property
    def _transport(self) -> RefTransport | None:
        """Of a cluster run; asked for the first time when the log says whether it is one."""
        info = self.run.state.run
        url = info.remote if info is not None else None
        return RefTransport(self.repository, self.run_id, url, self.run.epoch) if url is not None else None

    async def perform(
        self, effect: GitEffect, *, task: str | None = None, effect_id: str | None = None
    ) -> Mapping[str, Any]:
        """Perform an effect exactly once; returns its result, or raises after the log has the outcome.

        Effects in one worktree run one at a time: git keeps its state there. A caller that has built an object that
        names the effect gives its `effect_id`.
        """
        async with self._worktree_locks.setdefault(effect.exclusive_folder(self.site("")), asyncio.Lock()):
            return await self._perform(effect, task, effect_id or new_effect_id())

    async def _perform(self, effect: GitEffect, task: str | None, effect_id: str) -> Mapping[str, Any]:
        arguments = msgspec.to_builtins(effect)
        await self.run.append(EffectIntended(effect=effect_id, kind=effect.kind, task=task, arguments=arguments))
        site = self.site(effect_id)
        try:
            await _wait_for_unlock(effect, site)
            _FAILPOINTS[effect.kind].before()
            result = await effect.perform(site)
            _FAILPOINTS[effect.kind].after()
            await effect.sync(site)
            await self._publish()
        except asyncio.CancelledError:
            await finish_uncancelled(self._settle(effect_id, self.run.state.effects[effect_id]))
            raise
        except (HoldfastError, OSError) as error:
            probe = await _probe(effect, site)
            if isinstance(
                error, OSError | GitKilled | GitRollbackFailed | TimedOut
            ):  # the crash of git is an error like any other
                probe = await _mend(effect, site, probe)
            probe = await self._sync_outcome(effect, site, probe)
            reported = error if isinstance(error, HoldfastError) else StorageFailed.from_os_error(error)
            await self._record_outcome(effect, effect_id, probe, reason=str(reported))
            if probe.outcome is ProbeOutcome.YES:  # git failed after the effect
                return probe.result
            raise reported from error
        await self._record_outcome(effect, effect_id, ProbeResult(ProbeOutcome.YES, result))
        return result

    async def settle(self) -> list[SettledEffect]:
        """Probe every effect without an outcome, and record the result."""
        if not self.run.was_created_by_this_process():
            fence(self.run_id, self.repository.fd_marker)
            end_containers(self.folder, self.run_id)
        self._clear_locks()
        await self.take_over_refs()
        await self._repair_lost_objects()
        settled = await self.settle_open_effects()
        self.delete_trash()
        return settled

    def delete_trash(self) -> None:
        """Delete again what could not be deleted when its removal ended."""
        empty_trash(self.folder)

    async def settle_open_effects(self) -> list[SettledEffect]:
        """Probe unknown effects again: a branch or a worktree may have been restored since."""
        return [await self._settle(effect_id, left) for effect_id, left in list(self.run.state.effects.items())]

    def _clear_locks(self) -> None:
        """Remove locks of dead git processes.

        The caller has fenced the run, so no process of an earlier session is alive.
        """
        clear_ref_locks(self.repository.common_dir, *run_refs(self.run_id))
        clear_shared_locks(self.repository.common_dir)
        for branch in self.run.state.branches.values():
            with suppress(Denied, OSError):  # no worktree, or the user works there: the step that needs it reports that
                self.site("").worktree(worktree_names(self.run_id, branch.task)).clear_locks()

    async def _repair_lost_objects(self) -> None:
        """Repair objects that a power cut left empty, and the refs of the run that name them."""
        dropped = drop_empty_objects(self.repository.common_dir)
        own = [branch for branch in self.run.state.branches.values() if branch.status is BranchStatus.IN_PROGRESS]
        trees = {branch.task: self.site("").worktree(worktree_names(self.run_id, branch.task)) for branch in own}
        cut_off = any(not session.ended for session in list(self.run.state.sessions.values())[-2:-1])
        known = [commit for branch in own for commit in (branch.base, *([] if cut_off else [branch.tip])) if commit]
        intact = not dropped and await are_intact(self.repository, list(trees.values()), known)
        if intact and not cut_off:
            return
        _FAILPOINT_REPAIR.before()
        everybody = folders_of(self.repository.common_dir)[1:] if dropped else []
        through = True
        for path in filter(os.path.isdir, {*everybody, *(tree.path for tree in trees.values())}):
            try:
                through &= await rewrite_missing_objects(self.repository, path)
            except GitKilled:
                through = False
            except HoldfastError:
                pass  # missing, or unreadable for git: the step that needs it reports that
        for branch in [] if intact else own:
            with suppress(Denied, GitFailed, OSError):  # the step that needs it reports that
                await self._reset_branch(trees[branch.task], branch)
        if through:  # otherwise it is retried
            delete_dropped(dropped)
        _FAILPOINT_REPAIR.after()

    async def _reset_branch(self, worktree: Worktree, branch: Branch) -> None:
        """Record the reset first: a branch that was reset is valid, so a later check would not notice it."""
        task = self.run.state.tasks.get(branch.task or "")
        known = [commit for commit in (branch.tip, task.commit if task is not None else None) if commit is not None]
        whole = await newest_intact_commit(worktree, branch.base, known) if branch.base is not None else None
        if whole is not None:
            message = f"commits of {worktree.branch} were lost in a power cut; the branch was reset to {whole}"
            notice = WorkspaceReconciled(
                subject=worktree.branch, action=Remedy.RESET_BRANCH, message=message, task=branch.task
            )
            await self.run.append(WarningLogged(message=message), notice)
            _FAILPOINT_RESET_BRANCH()
            await reset_branch(worktree, whole)

    async def _settle(self, effect_id: str, open_effect: Effect) -> SettledEffect:
        effect, salvaged = _decode_effect(open_effect), None
        _FAILPOINT_SETTLE.before()
        probe = await _probe(effect, self.site(effect_id))
        if effect is not None and probe.outcome is not ProbeOutcome.UNKNOWN:
            try:
                effect.clear_locks(self.site(effect_id))
                salvaged = await effect.repair(self.site(effect_id))
                probe = await _probe_repaired(effect, self.site(effect_id), probe)
            except (HoldfastError, OSError) as error:
                if probe.outcome is ProbeOutcome.NO:  # something blocks it: it stays open and is probed again
                    probe = ProbeResult(ProbeOutcome.UNKNOWN, reason=str(error))
            probe = await self._sync_outcome(effect, self.site(effect_id), probe)
        _FAILPOINT_SETTLE.after()
        if salvaged is not None and probe.outcome is ProbeOutcome.YES:
            probe = probe._replace(result={**probe.result, "salvaged": salvaged})
        if probe.outcome is not ProbeOutcome.UNKNOWN or (open_effect.status, open_effect.reason) != (
            EffectStatus.UNKNOWN,
            probe.reason,
        ):
            reason = f"it was interrupted; its partial result is {salvaged}" if salvaged else "it was interrupted"
            await self._record_outcome(effect, effect_id, probe, by="probe", reason=reason)
        return SettledEffect(effect_id, open_effect.kind, open_effect.task, probe, salvaged)

    async def _sync_outcome(self, effect: GitEffect, site: EffectSite, probe: ProbeResult) -> ProbeResult:
        """Sync the result: an effect counts as done only when it would survive a power cut.

        In a cluster run it must survive the loss of the machine: its refs are on the remote, too.
        """
        if probe.outcome is ProbeOutcome.YES:
            try:
                await effect.sync(site)
            except OSError as error:
                return ProbeResult(ProbeOutcome.UNKNOWN, reason=f"it could not be synced to the disk: {error}")
            try:
                await self._publish()
            except (GitFailed, TimedOut) as error:
                return ProbeResult(ProbeOutcome.UNKNOWN, reason=f"it could not be pushed to the remote: {error}")
        return probe

    async def _publish(self) -> None:
        if self._transport is not None:
            await self._transport.publish()

    async def take_over_refs(self) -> None:
        """Make the refs of a cluster run ours before anything here is trusted; from then on publish every change."""
        if self._transport is None:
            return
        tasks = (None, *(branch.task for branch in self.run.state.branches.values() if branch.task is not None))
        effect = TakeOverRefs(url=self._transport.url, epoch=self.run.epoch, tasks=tasks)
        self.moved = "moved" in await self.perform(effect)
        await self._transport.begin()

    async def share_base(self, base: str) -> None:
        """Push the commit from which a new cluster run starts, out of the user's own repository."""
        if self._transport is not None:
            await self.perform(TakeOverRefs(url=self._transport.url, epoch=self.run.epoch, base=base))
            await self._transport.begin()

    def stop_publishing(self) -> None:
        if self._transport is not None:
            self._transport.end()

    async def drop_cluster_refs(self) -> None:
        """Delete the refs of a cluster run on its remote."""
        if self._transport is None:
            return
        await self.perform(DropClusterRefs(url=self._transport.url, epoch=self.run.epoch))
        self._transport.end()

    async def _record_outcome(
        self, effect: GitEffect | None, effect_id: str, probe: ProbeResult, *, by: str = "run", reason: str = ""
    ) -> None:
        """Record the outcome and its consequences in one commit, whether it was observed or found by a probe."""
        meaning = (
            outcome_events(self.run.state, self.run_id, effect, probe) if probe.outcome is ProbeOutcome.YES else []
        )
        await self.run.append(_outcome_event(effect_id, probe, by=by, reason=reason), *meaning)

    def site(self, effect_id: str) -> EffectSite:
        return EffectSite(self.run_id, effect_id, self.repository, self.folder, Anchor(*self.run.head))

    async def write_anchor(self) -> None:
        """Record the log's current state in the repository, at the end of a session.

        This is not an effect with an intent and an outcome, because the anchor must cover the session's last event. If
        it is interrupted or fails, the previous anchor stays valid. A newer owner of the run writes its own.
        """
        if self.run.is_lost:
            return
        with suppress(HoldfastError, OSError):
            _FAILPOINT_ANCHOR.before()
            await write_anchor(self.repository, self.run_id, Anchor(*self.run.head))
            _FAILPOINT_ANCHOR.after()
            await self._publish()


async def _wait_for_unlock(effect: GitEffect, site: EffectSite) -> None:
    """Remove locks of dead git processes, and wait briefly for live ones, such as an editor's."""
    until = asyncio.get_running_loop().time() + _LOCK_WAIT_S
    while True:
        try:
            return effect.clear_locks(site)
        except Denied:
            if asyncio.get_running_loop().time() > until:
                raise
            await asyncio.sleep(_POLL_INTERVAL_S)


def fence(run_id: str, fd_marker: str | None = None) -> None:
    """Kill every process of an earlier session of this run, so that none writes while this session runs."""
    left = kill_until_none_left(
        lambda: chain(iter_marked_processes(RUN_MARK, run_id), iter_processes_holding(fd_marker))
    )
    if left:
        pids = ", ".join(str(process.pid) for process in left)
        raise Denied(
            f"processes of an earlier session of {run_id} could not be killed (pid {pids}); kill them, then resume"
        )


def _decode_effect(open_effect: Effect) -> GitEffect | None:
    kind = EFFECTS.get(open_effect.kind)
    try:
        return msgspec.convert(open_effect.arguments, kind) if kind is not None else None
    except msgspec.ValidationError:
        return None


async def _probe(effect: GitEffect | None, site: EffectSite) -> ProbeResult:
    if effect is None:
        return ProbeResult(ProbeOutcome.UNKNOWN, reason="this version of Holdfast does not know how to ask")
    try:
        return await effect.probe(site)
    except (HoldfastError, OSError) as error:
        return ProbeResult(ProbeOutcome.UNKNOWN, reason=str(error))


async def _mend(effect: GitEffect, site: EffectSite, probe: ProbeResult) -> ProbeResult:
    """Repair a half-finished effect.

    If that fails now, as on a full disk, the effect stays open and is settled later.
    """
    if probe.outcome is not ProbeOutcome.UNKNOWN:
        try:
            await effect.repair(site)
            return await _probe_repaired(effect, site, probe)
        except (HoldfastError, OSError) as error:
            if probe.outcome is ProbeOutcome.NO:
                return ProbeResult(ProbeOutcome.UNKNOWN, reason=f"its partial result could not be undone: {error}")
    return probe


async def _probe_repaired(effect: GitEffect, site: EffectSite, probe: ProbeResult) -> ProbeResult:
    """Ask again when the repair may have finished what had not happened."""
    return await _probe(effect, site) if effect.repair_completes and probe.outcome is ProbeOutcome.NO else probe


def _outcome_event(effect_id: str, probe: ProbeResult, *, by: str = "run", reason: str = "") -> Event:
    match probe.outcome:
        case ProbeOutcome.YES:
            return EffectHappened(effect=effect_id, settled_by=by, result=dict(probe.result))
        case ProbeOutcome.NO:
            return EffectDidNotHappen(effect=effect_id, settled_by=by, reason=reason or None)
        case ProbeOutcome.UNKNOWN:
            return EffectUnknown(effect=effect_id, reason=probe.reason)
