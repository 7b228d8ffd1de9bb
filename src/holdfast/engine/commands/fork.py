"""Forks a run: a new run that begins with the past of another, up to a point, and shares nothing that can change.

The past is imported as events of the new log, in one append with the event that names the parent, so a fork that was
killed has all of it or none; without it, it is no run that could be started. Branches, worktrees and snapshots follow
by effects; the next start finishes them.
"""

import os
import re
from collections.abc import Collection

import msgspec

from holdfast.core.end_reason import EndReason
from holdfast.core.events import Draft, Event
from holdfast.core.events.agent import AgentSpawned
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
from holdfast.engine.queries.points import Point, PointSearch, newest_point
from holdfast.engine.session.projections import write_projections
from holdfast.engine.workspace.confinement import confine
from holdfast.engine.workspace.effects import EffectRunner
from holdfast.engine.workspace.repository import open_owned_repository, open_repository
from holdfast.engine.workspace.rewind import branch_targets, finish_rewind
from holdfast.engine.workspace.workspace import Workspace
from holdfast.leaf.errors import Denied, NothingToDo
from holdfast.leaf.failpoints import failpoint_pair
from holdfast.leaf.ids import MAX_SLUG_CHARS, new_run_id
from holdfast.store.base import Log, Position
from holdfast.store.fold import fold_prefix
from holdfast.store.live_log import LiveLog
from holdfast.store.run import open_run

_FAILPOINT = failpoint_pair("run.fork")
_FORK_NAME = re.compile(r"-fork(-\d+)?$")
# What is about the parent itself: its sessions, its spending, its place, its agents' processes, what it published
_LEFT_OUT: tuple[type[Event], ...] = (
    *(SessionStart, SessionEnd, RunCreated, RunMoved, RunArchived, RunRewound, RunForked, RewindFinished),
    *(LogRepaired, InboxRejected, InboxReread, UsageRecorded, WorkPublished, ConversationTokenStored),
)


class Fork(msgspec.Struct, frozen=True):
    """A new run, and the point of its parent from which it was forked."""

    run_id: str
    parent: str
    point: str
    position: Position


async def fork_run(
    home: Home, parent: str, at: str | None = None, name: str | None = None, key: str | None = None
) -> Fork:
    """Create a run with the past of another, by default up to its newest point, and do not start it.

    With a key, the end of its id follows from that.
    """
    state = (await view_run(home, parent)).state
    info, log = _info_of(parent, state), home.store.log(parent)
    point = await PointSearch(log, state).find(at) if at is not None else await _newest_point(parent, log, state)
    then = await fold_prefix(log, point.position, state.rewinds)
    if any(task.conflicts for task in then.tasks.values()):
        raise Denied(f"at {point.name}, a merge was being resolved; choose a point before or after it")
    branches = await branch_targets(await open_repository(home, info, parent), parent, then)
    run_id = new_run_id(name or _unused_name(home, parent), key)
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
            remote=info.remote,
            needs=info.needs,
        )
        await run.begin_session(begin, created)
        past = _Past(parent, run_id)
        await past.read(LiveLog(log, state.rewinds), point.position)
        fresh = _fresh_start(then, state.rules)
        forked = RunForked(
            parent=parent,
            position=point.position,
            chain=past.link,
            point=point.name,
            branches=[_renamed_point(parent, run_id, branch) for branch in branches],
            snapshots=past.snapshots,
            after_planning=len(past.drafts) + len(fresh) - past.planned if past.planned is not None else None,
        )
        _FAILPOINT.before()
        await run.append(*past.drafts, *fresh, forked)
        _FAILPOINT.after()
        folder = home.folder(run_id)
        repository = await open_owned_repository(home, run.state.run, run_id)
        confine(repository, run_id, folder, lambda: run.state, run_config_for(home, run.state))
        workspace = Workspace(EffectRunner(run, run_id, repository, folder))
        await workspace.effects.take_over_refs()
        await finish_rewind(workspace)
        write_projections(folder, run.state)
        await run.append(SessionEnd(reason=EndReason.PLANNED))
        await workspace.effects.write_anchor()
    return Fork(run_id, parent, point.name, point.position)


def _info_of(parent: str, state: RunState) -> RunInfo:
    if state.run is None or state.run.repo is None or not state.has_plan:
        raise NothingToDo(f"run {parent} has no past to fork from")
    return state.run


async def _newest_point(parent: str, log: Log, state: RunState) -> Point:
    point = await newest_point(log, state)
    if point is None:
        raise NothingToDo(f"run {parent} has no point to fork from yet; `holdfast show {parent} --points` lists them")
    return point


def _unused_name(home: Home, parent: str) -> str:
    """A name by which the fork can be told from its parent, and from other forks of it."""
    slugs = {run_id[:-7] for run_id in home.run_ids()}
    base = _FORK_NAME.sub("", parent[:-7])
    number = 1
    while True:
        suffix = "-fork" if number == 1 else f"-fork-{number}"
        name = f"{base[: MAX_SLUG_CHARS - len(suffix)].rstrip('-')}{suffix}"
        if name not in slugs:
            return name
        number += 1


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
        self.planned: int | None = None  # how many of the events were written by the end of its planning
        self._added: list[int] = []  # events so far, after each line
        self._first_sid: str | None = None
        self._is_forked = False
        self._old, self._new = (f"{BRANCH_PREFIX}{each}/".encode() for each in (parent, run_id))
        self._run_id = run_id
        self._taken: dict[str, EffectIntended] = {}

    async def read(self, log: Log, end: Position) -> None:
        async for batch in log.read():
            if batch.start >= end:
                return
            for raw in batch.data[: end - batch.start].split(b"\n")[:-1]:
                self._add(raw)
                self._added.append(len(self.drafts))

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
        self._note_planning(line.sid, event)
        if event is None or isinstance(event, _LEFT_OUT):
            return
        if isinstance(event, ConversationAttached):  # its process is not the fork's
            event = msgspec.structs.replace(event, pid=None, start_time=None, boot_id=None, container=None)
        if isinstance(event, AgentSpawned):
            event = msgspec.structs.replace(event, pid=None)
        self._note_snapshot(event)
        self.drafts.append(Draft(event, agent=line.agent))

    def _note_planning(self, sid: str, event: Event | None) -> None:
        """The first session planned the run; that of a fork had a past with planning."""
        self._first_sid = self._first_sid or sid
        if isinstance(event, RunForked):
            self._is_forked = True
            if event.after_planning is not None:
                self.planned = self._added[-1 - event.after_planning]
        elif isinstance(event, SessionEnd) and sid == self._first_sid and not self._is_forked:
            self.planned = len(self.drafts)

    def _note_snapshot(self, event: Event) -> None:
        if isinstance(event, EffectIntended) and event.kind in ("snapshot.take", "tree.capture"):
            self._taken[event.effect] = event
        elif isinstance(event, EffectHappened) and event.effect in self._taken:
            intended = self._taken.pop(event.effect)
            task = str(intended.task) if intended.task is not None else None
            ref = f"{worktree_names(self._run_id, task).snapshot_refs}/{intended.arguments['name']}"
            self.snapshots[ref] = event.result["commit"]


__all__ = ["Fork", "fork_run"]
