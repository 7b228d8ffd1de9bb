"""Forks a run: a new run that begins with the past of another, up to a point, and shares nothing that can change.

The past is imported as events of the new log, in one append with the event that names the parent, so a fork that was
killed has all of it or none; without it, it is no run that could be started. Branches, worktrees and snapshots follow
by effects; the next start finishes them.
"""

import os
from collections.abc import Collection
from typing import NamedTuple

import msgspec

from holdfast.core.end_reason import EndReason
from holdfast.core.events import Draft, Event
from holdfast.core.events.budget import UsageRecorded
from holdfast.core.events.chat import RuleRevoked
from holdfast.core.events.conversation import ConversationAttached, ConversationDetached, ConversationTokenStored
from holdfast.core.events.effect import EffectHappened, EffectIntended
from holdfast.core.events.inbox import InboxHandled, InboxRejected, InboxReread
from holdfast.core.events.log import LogRepaired
from holdfast.core.events.phase import WorkPublished
from holdfast.core.events.rewind import BranchPoint, RewindFinished, RunForked, RunRewound
from holdfast.core.events.session import RunArchived, RunCreated, RunMoved, SessionEnd, SessionStart
from holdfast.core.log import chain
from holdfast.core.log.codec import CODEC, InvalidEventData, Line, parse
from holdfast.core.state import RunInfo, RunState
from holdfast.core.work.names import BRANCH_PREFIX, worktree_names
from holdfast.engine.config.of_run import run_config_for
from holdfast.engine.home import Home
from holdfast.engine.queries.logs import view_run
from holdfast.engine.queries.points import Point, find_point, points_back
from holdfast.engine.workspace.confinement import confine
from holdfast.engine.workspace.effects import EffectRunner
from holdfast.engine.workspace.rewind import branch_targets, finish_rewind
from holdfast.engine.workspace.workspace import Workspace, repository_of
from holdfast.leaf.errors import Denied, NothingToDo
from holdfast.leaf.failpoints import failpoint_pair
from holdfast.leaf.ids import new_run_id
from holdfast.store.base import Log, Position
from holdfast.store.fold import fold_prefix
from holdfast.store.live_log import LiveLog
from holdfast.store.run import open_run

_FAILPOINT = failpoint_pair("run.fork")
# What is about the parent itself: its sessions, its spending, its place, its agents' processes, what it published
_LEFT_OUT: tuple[type[Event], ...] = (
    *(SessionStart, SessionEnd, RunCreated, RunMoved, RunArchived, RunRewound, RunForked, RewindFinished),
    *(LogRepaired, InboxRejected, InboxReread, UsageRecorded, WorkPublished, ConversationTokenStored),
)


class Fork(NamedTuple):
    run_id: str
    parent: str
    point: str
    position: Position


async def fork_run(home: Home, parent: str, at: str | None = None, name: str | None = None) -> Fork:
    """Create a run with the past of another, by default up to its newest point, and do not start it."""
    state = (await view_run(home, parent)).state
    info, log = _info_of(parent, state), home.store.log(parent)
    point = await find_point(log, state, at) if at is not None else await _newest_point(parent, log, state)
    then = await fold_prefix(log, point.position, state.rewinds)
    if any(task.conflicts for task in then.tasks.values()):
        raise Denied(f"at {point.name}, a merge was being resolved; choose a point before or after it")
    branches = await branch_targets(repository_of(info, parent), parent, then)
    run_id = new_run_id(name or parent[:-7])
    await home.store.create(run_id)
    async with open_run(home.store, run_id, feature=run_id[:-7]) as run:
        begin = SessionStart(
            command="plan",
            feature=run_id[:-7],
            branch=worktree_names(run_id).branch,
            mode=info.workflow,
            pid=os.getpid(),
        )
        created = RunCreated(
            run_id=run_id,
            goal=info.goal,
            workflow=info.workflow,
            repo=info.repo,
            base=info.base,
            branch=worktree_names(run_id).branch,
        )
        await run.begin_session(begin, created)
        past = _Past(parent, run_id)
        await past.read(LiveLog(log, state.rewinds), point.position)
        forked = RunForked(
            parent=parent,
            position=point.position,
            chain=past.link,
            point=point.name,
            branches=[_renamed_point(parent, run_id, branch) for branch in branches],
            snapshots=past.snapshots,
        )
        _FAILPOINT.before()
        await run.append(*past.drafts, *_fresh_start(then, state.rules), forked)
        _FAILPOINT.after()
        folder = home.folder(run_id)
        repository = repository_of(run.state.run, run_id, folder)
        confine(repository, run_id, folder, lambda: run.state, run_config_for(home, run.state))
        workspace = Workspace(EffectRunner(run, run_id, repository, folder))
        await finish_rewind(workspace)
        await run.append(SessionEnd(reason=EndReason.PLANNED))
        await workspace.effects.write_anchor()
    return Fork(run_id, parent, point.name, point.position)


def _info_of(parent: str, state: RunState) -> RunInfo:
    if state.run is None or state.run.repo is None or not state.has_plan:
        raise NothingToDo(f"run {parent} has no past to fork from")
    return state.run


async def _newest_point(parent: str, log: Log, state: RunState) -> Point:
    async for point in points_back(log, state):
        return point
    raise NothingToDo(f"run {parent} has no point to fork from yet; `holdfast show {parent} --points` lists them")


def _fresh_start(then: RunState, rules: Collection[str]) -> list[Event]:
    """The fork has no agents of its own, an empty inbox, and nothing that waits for the parent's agents.

    Of the parent's permanent permissions it has only those that are still among `rules`: none that was revoked since.
    """
    revoked = [RuleRevoked(rule=rule, by="fork") for rule in then.rules if rule not in rules]
    handled = [InboxHandled(message=message) for message in then.messages]
    inbox = [InboxReread(cursor=0)] if then.inbox_consumed else []
    detached = [
        ConversationDetached(conversation=name, reason="the run was forked")
        for name, conversation in then.conversations.items()
        if conversation.started
    ]
    return [*revoked, *handled, *inbox, *detached]


def _renamed_point(parent: str, run_id: str, point: BranchPoint) -> BranchPoint:
    branch = point.branch.replace(f"{BRANCH_PREFIX}{parent}/", f"{BRANCH_PREFIX}{run_id}/", 1)
    return msgspec.structs.replace(point, branch=branch)


class _Past:
    """The events of a parent, as those of a fork: with its branches under the names of the fork."""

    def __init__(self, parent: str, run_id: str) -> None:
        self.drafts: list[Draft] = []
        self.snapshots: dict[str, str] = {}
        self.link: str | None = None
        self._old, self._new = (f"{BRANCH_PREFIX}{each}/".encode() for each in (parent, run_id))
        self._run_id = run_id
        self._taken: dict[str, EffectIntended] = {}

    async def read(self, log: Log, end: Position) -> None:
        async for batch in log.read():
            if batch.start >= end:
                return
            for raw in batch.data[: end - batch.start].split(b"\n")[:-1]:
                self._add(raw)

    def _add(self, raw: bytes) -> None:
        line = parse(raw)
        if not isinstance(line, Line):
            return
        self.link = chain.carried_link(raw) or self.link
        data = msgspec.Raw(bytes(line.data).replace(self._old, self._new))
        try:
            event = CODEC.event(msgspec.structs.replace(line, data=data))
        except InvalidEventData as unfit:
            event = unfit.partial_event
        if event is None or isinstance(event, _LEFT_OUT):
            return
        if isinstance(event, ConversationAttached):  # its process is not the fork's
            event = msgspec.structs.replace(event, pid=None, start_time=None, boot_id=None, container=None)
        self._note_snapshot(event)
        self.drafts.append(Draft(event, agent=line.agent))

    def _note_snapshot(self, event: Event) -> None:
        if isinstance(event, EffectIntended) and event.kind in ("snapshot.take", "tree.capture"):
            self._taken[event.effect] = event
        elif isinstance(event, EffectHappened) and event.effect in self._taken:
            intended = self._taken.pop(event.effect)
            task = str(intended.task) if intended.task is not None else None
            ref = f"{worktree_names(self._run_id, task).snapshot_refs}/{intended.arguments['name']}"
            self.snapshots[ref] = event.result["commit"]


__all__ = ["Fork", "fork_run"]
