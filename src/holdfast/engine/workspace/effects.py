"""Intent, effect, outcome: the one way in which a run changes the world outside its log.

The intent is durable before anything is done, and the outcome before anything builds on it. For what a crash left
between the two, `settle` first makes sure that nobody of the old process tree is still at it, then asks the world,
and then takes away what is half done, saving it first. What cannot be told is recorded as unknown and stays open,
for a person to look at.
"""

import asyncio
import os
from collections.abc import Mapping
from contextlib import suppress
from itertools import chain
from typing import Any, NamedTuple

import msgspec

from holdfast.agents.process.tree import seen_through
from holdfast.core.events import Event
from holdfast.core.events.branch import WorkspaceReconciled
from holdfast.core.events.effect import EffectDidNotHappen, EffectHappened, EffectIntended, EffectUnknown
from holdfast.core.events.issue import WarningLogged
from holdfast.core.log.anchors import Anchor
from holdfast.core.state import Branch, BranchStatus, Effect, EffectStatus
from holdfast.core.work.names import place_of, refs_of
from holdfast.core.work.reconciliation import Remedy
from holdfast.engine.containers import end_containers
from holdfast.engine.workspace.outcome_events import consequences
from holdfast.git.anchors import write_anchor
from holdfast.git.effects import (
    EFFECTS,
    GitEffect,
    Happened,
    Probe,
    Site,
    empty_trash,
)
from holdfast.git.locks import clear_ref_locks, clear_shared_locks
from holdfast.git.missing_objects import (
    are_whole,
    drop_empty_objects,
    forget_dropped,
    newest_whole,
    set_back,
    write_again,
)
from holdfast.git.process import GitFailed, GitKilled, LeftHalfDone
from holdfast.git.repository import Repository
from holdfast.git.worktree_admin import folders_of
from holdfast.git.worktrees.worktree import Worktree
from holdfast.leaf.errors import Denied, HoldfastError, StorageFailed, TimedOut
from holdfast.leaf.failpoints import Point, around
from holdfast.leaf.ids import new_effect_id
from holdfast.leaf.process.env_markers import RUN_MARK, each_marked
from holdfast.leaf.process.fd_marker import each_holding
from holdfast.leaf.process.identity import end_all
from holdfast.store.run import OwnedRun

_PATIENCE, _MOMENT = 2.0, 0.05  # seconds
_CRASH = {kind: around(f"effect.{kind}") for kind in EFFECTS}
_CRASH_IN_SETTLING = around("effect.settle")
_CRASH_AT_ANCHOR = around("anchor")
_CRASH_IN_MENDING = around("lost.mend")
_CRASH_BEFORE_SETTING_BACK = Point("lost.mend.set-back")

TETHER = "tether"  # in the run's folder: the file that its processes hold open


class Settled(NamedTuple):
    """What became of an effect that a crash had left open."""

    effect: str
    kind: str
    task: str | None
    probe: Probe
    salvaged: str | None = None


class Hands:
    """What a run's owner changes the world with: its log, and its places in a repository."""

    def __init__(self, run: OwnedRun, run_id: str, repository: Repository, folder: str) -> None:
        """`repository` must carry the run's mark; `folder` is the run's own."""
        self.run = run
        self.run_id = run_id
        self.repository = repository
        self.folder = folder
        self._busy: dict[str, asyncio.Lock] = {}

    async def perform(self, effect: GitEffect, *, task: str | None = None) -> Mapping[str, Any]:
        """Do it once, whatever happens: returns its result, or raises after the log says what became of it.

        In one worktree one thing is done at a time: git keeps its notes there.
        """
        async with self._busy.setdefault(effect.where(self.site("")), asyncio.Lock()):
            return await self._perform(effect, task)

    async def _perform(self, effect: GitEffect, task: str | None) -> Mapping[str, Any]:
        effect_id = new_effect_id()
        arguments = msgspec.to_builtins(effect)
        await self.run.append(EffectIntended(effect=effect_id, kind=effect.kind, task=task, arguments=arguments))
        site = self.site(effect_id)
        try:
            await _unlocked(effect, site)
            _CRASH[effect.kind].before()
            result = await effect.perform(site)
            _CRASH[effect.kind].after()
            await effect.sync(site)
        except asyncio.CancelledError:
            await seen_through(self._settle(effect_id, self.run.state.effects[effect_id]))
            raise
        except (HoldfastError, OSError) as error:
            probe = await _probed(effect, site)
            if isinstance(error, OSError | GitKilled | LeftHalfDone | TimedOut):  # the crash of a git is as any other
                probe = await _mended(effect, site, probe)
            probe = await _on_disk(effect, site, probe)
            told = error if isinstance(error, HoldfastError) else StorageFailed.by(error)
            await self._record(effect, effect_id, probe, reason=str(told))
            if probe.happened is Happened.YES:  # what failed came after it
                return probe.result
            raise told from error
        await self._record(effect, effect_id, Probe(Happened.YES, result))
        return result

    async def settle(self) -> list[Settled]:
        """Ask the world about every effect without an outcome, and write down what it says."""
        fence(self.run_id, self.repository.tether)
        end_containers(self.folder, self.run_id)
        self._unlock()
        await self._mend_what_is_lost()
        settled = await self.settle_again()
        self.tidy()
        return settled

    def tidy(self) -> None:
        """Once more, what could not be deleted when its removal was over."""
        empty_trash(self.folder)

    async def settle_again(self) -> list[Settled]:
        """What could not be told, once more: since then a branch or a worktree may have been made again."""
        return [await self._settle(effect_id, left) for effect_id, left in list(self.run.state.effects.items())]

    def _unlock(self) -> None:
        """Whoever worked for the run is dead, and their git with them: its locks would stop those who come now."""
        clear_ref_locks(self.repository.common_dir, *refs_of(self.run_id))
        clear_shared_locks(self.repository.common_dir)
        for branch in self.run.state.branches.values():
            with suppress(Denied, OSError):  # no worktree, or the user is at work there: whoever needs it will be told
                self.site("").worktree(place_of(self.run_id, branch.task)).clear_locks()

    async def _mend_what_is_lost(self) -> None:
        """Objects that a power cut left empty, and whatever of the run names them."""
        dropped = drop_empty_objects(self.repository.common_dir)
        own = [branch for branch in self.run.state.branches.values() if branch.status is BranchStatus.IN_PROGRESS]
        trees = {branch.task: self.site("").worktree(place_of(self.run_id, branch.task)) for branch in own}
        cut_off = any(not sitting.ended for sitting in list(self.run.state.sessions.values())[-2:-1])
        synced = [commit for branch in own for commit in (branch.base, branch.tip) if commit is not None]
        if not dropped and not cut_off and await are_whole(self.repository, list(trees.values()), synced):
            return
        _CRASH_IN_MENDING.before()
        everybody = folders_of(self.repository.common_dir)[1:] if dropped else []
        through = True
        for path in filter(os.path.isdir, {*everybody, *(tree.path for tree in trees.values())}):
            try:
                through &= await write_again(self.repository, path)
            except GitKilled:
                through = False
            except HoldfastError:
                pass  # it is not there, or git cannot read it: whoever needs it will be told
        for branch in own:
            with suppress(Denied, GitFailed, OSError):  # whoever needs it will be told
                await self._set_back(trees[branch.task], branch)
        if through:  # else it is tried again
            forget_dropped(dropped)
        _CRASH_IN_MENDING.after()

    async def _set_back(self, tree: Worktree, branch: Branch) -> None:
        """Told before it is done: a branch that went back is whole, and nobody would look at it again."""
        task = self.run.state.tasks.get(branch.task or "")
        known = [commit for commit in (branch.tip, task.commit if task is not None else None) if commit is not None]
        whole = await newest_whole(tree, branch.base, known) if branch.base is not None else None
        if whole is not None:
            told = f"commits of {tree.branch} were lost in a power cut; it is set back to {whole}"
            notice = WorkspaceReconciled(subject=tree.branch, action=Remedy.SET_BACK, message=told, task=branch.task)
            await self.run.append(WarningLogged(message=told), notice)
            _CRASH_BEFORE_SETTING_BACK()
            await set_back(tree, whole)

    async def _settle(self, effect_id: str, left: Effect) -> Settled:
        effect, salvaged = _understood(left), None
        _CRASH_IN_SETTLING.before()
        probe = await _probed(effect, self.site(effect_id))
        if effect is not None and probe.happened is not Happened.UNKNOWN:
            try:
                effect.unlock(self.site(effect_id))
                salvaged = await effect.mend(self.site(effect_id))
            except (HoldfastError, OSError) as error:
                if probe.happened is Happened.NO:  # somebody is in the way: it stays open, and is asked again
                    probe = Probe(Happened.UNKNOWN, reason=str(error))
            probe = await _on_disk(effect, self.site(effect_id), probe)
        _CRASH_IN_SETTLING.after()
        if salvaged is not None and probe.happened is Happened.YES:
            probe = probe._replace(result={**probe.result, "salvaged": salvaged})
        if probe.happened is not Happened.UNKNOWN or (left.status, left.reason) != (EffectStatus.UNKNOWN, probe.reason):
            reason = f"it was cut off; what it had begun is kept as {salvaged}" if salvaged else "it was cut off"
            await self._record(effect, effect_id, probe, by="probe", reason=reason)
        return Settled(effect_id, left.kind, left.task, probe, salvaged)

    async def _record(
        self, effect: GitEffect | None, effect_id: str, probe: Probe, *, by: str = "run", reason: str = ""
    ) -> None:
        """The outcome and what it means, in one commit: the same whether it was seen at once or after a crash."""
        meaning = consequences(self.run.state, self.run_id, effect, probe) if probe.happened is Happened.YES else []
        await self.run.append(_outcome(effect_id, probe, by=by, reason=reason), *meaning)

    def site(self, effect_id: str) -> Site:
        return Site(self.run_id, effect_id, self.repository, self.folder, Anchor(*self.run.head))

    async def write_anchor(self) -> None:
        """Record in the repository what the log is now, at the end of a session.

        This is no effect with an intent and an outcome: the session's last event must be covered by it. Killed or
        failed here, the anchor before it stays, and is still true.
        """
        with suppress(HoldfastError, OSError):
            _CRASH_AT_ANCHOR.before()
            await write_anchor(self.repository, self.run_id, Anchor(*self.run.head))
            _CRASH_AT_ANCHOR.after()


async def _unlocked(effect: GitEffect, site: Site) -> None:
    """Clear what a dead git left; and wait a little for one that is alive, as an editor's."""
    until = asyncio.get_running_loop().time() + _PATIENCE
    while True:
        try:
            return effect.unlock(site)
        except Denied:
            if asyncio.get_running_loop().time() > until:
                raise
            await asyncio.sleep(_MOMENT)


def fence(run_id: str, tether: str | None = None) -> None:
    """Nothing that an earlier session of this run started may still be writing when this one begins."""
    left = end_all(lambda: chain(each_marked(RUN_MARK, run_id), each_holding(tether)))
    if left:
        pids = ", ".join(str(process.pid) for process in left)
        raise Denied(f"processes of an earlier session of {run_id} will not die (pid {pids}); end them, then resume")


def _understood(left: Effect) -> GitEffect | None:
    kind = EFFECTS.get(left.kind)
    try:
        return msgspec.convert(left.arguments, kind) if kind is not None else None
    except msgspec.ValidationError:
        return None


async def _probed(effect: GitEffect | None, site: Site) -> Probe:
    if effect is None:
        return Probe(Happened.UNKNOWN, reason="this version of Holdfast does not know how to ask")
    try:
        return await effect.probe(site)
    except (HoldfastError, OSError) as error:
        return Probe(Happened.UNKNOWN, reason=str(error))


async def _mended(effect: GitEffect, site: Site, probe: Probe) -> Probe:
    """What cannot be mended now, as on a full disk, stays open: whoever settles it tries again."""
    if probe.happened is not Happened.UNKNOWN:
        try:
            await effect.mend(site)
        except (HoldfastError, OSError) as error:
            if probe.happened is Happened.NO:
                return Probe(Happened.UNKNOWN, reason=f"what it had begun could not be taken back: {error}")
    return probe


async def _on_disk(effect: GitEffect, site: Site, probe: Probe) -> Probe:
    """What happened counts when it would survive a power cut, be it seen at once or found later."""
    if probe.happened is Happened.YES:
        try:
            await effect.sync(site)
        except OSError as error:
            return Probe(Happened.UNKNOWN, reason=f"it cannot be brought to the disk: {error}")
    return probe


def _outcome(effect_id: str, probe: Probe, *, by: str = "run", reason: str = "") -> Event:
    match probe.happened:
        case Happened.YES:
            return EffectHappened(effect=effect_id, settled_by=by, result=dict(probe.result))
        case Happened.NO:
            return EffectDidNotHappen(effect=effect_id, settled_by=by, reason=reason or None)
        case Happened.UNKNOWN:
            return EffectUnknown(effect=effect_id, reason=probe.reason)
