"""Handlers of changes outside the log: effects, branches, agents."""

import re
from typing import Any

from holdfast.core.events.agent import AgentCompleted, AgentDied, AgentSpawned
from holdfast.core.events.branch import BranchCreated, BranchDeleted, BranchMerged
from holdfast.core.events.effect import EffectDidNotHappen, EffectHappened, EffectIntended, EffectUnknown
from holdfast.core.fold.handlers.base import on, optional_id
from holdfast.core.log.codec import Line
from holdfast.core.state import Agent, Branch, BranchStatus, Effect, EffectStatus, Publication, RunState
from holdfast.core.task_state import TaskStage
from holdfast.core.work.names import DURING_TURN, SNAPSHOT_REFS, worktree_names, worktree_names_at

_TURN_SNAPSHOT = re.compile(r"turn-(\d{1,9})(?:-|$)")  # see `core.work.names.turn_snapshot`


@on(AgentSpawned)
def _agent_spawned(state: RunState, line: Line, event: AgentSpawned) -> None:
    state.agents[event.name] = Agent(line.sid, event.role, optional_id(event.task), event.branch)
    if event.branch is not None:
        state.branches.setdefault(event.branch, Branch(BranchStatus.IN_PROGRESS, task=optional_id(event.task)))


@on(AgentCompleted)
def _agent_completed(state: RunState, line: Line, event: AgentCompleted) -> None:
    agent = state.agents.setdefault(event.name, Agent(line.sid))
    agent.active, agent.result = False, event.result


@on(AgentDied)
def _agent_died(state: RunState, line: Line, event: AgentDied) -> None:
    agent = state.agents.setdefault(event.name, Agent(line.sid))
    agent.active, agent.result = False, event.reason


@on(BranchCreated)
def _branch_created(state: RunState, _: Line, event: BranchCreated) -> None:
    branch = state.branches.setdefault(event.name, Branch(BranchStatus.IN_PROGRESS))
    branch.status, branch.target, branch.committed = BranchStatus.IN_PROGRESS, None, None
    branch.task, branch.base = optional_id(event.task), event.base


@on(BranchMerged)
def _branch_merged(state: RunState, _: Line, event: BranchMerged) -> None:
    branch = state.branches.setdefault(event.name, Branch(BranchStatus.IN_PROGRESS))
    task = state.tasks.get(branch.task) if branch.task is not None else None
    if task is None or not state.is_chat or task.finishing:  # the next iteration of a chat continues on its branch
        branch.status, branch.target = BranchStatus.MERGED, event.target
    if task is not None and task.stage is TaskStage.MERGE:
        task.stage = TaskStage.COMPLETE


@on(BranchDeleted)
def _branch_deleted(state: RunState, _: Line, event: BranchDeleted) -> None:
    branch = state.branches.setdefault(event.name, Branch(BranchStatus.DELETED))
    branch.status, branch.turn, branch.turn_files = BranchStatus.DELETED, 0, None


@on(EffectIntended)
def _effect_intended(state: RunState, _: Line, event: EffectIntended) -> None:
    state.effects[event.effect] = Effect(event.kind, optional_id(event.task), event.arguments)


@on(EffectHappened)
def _effect_happened(state: RunState, line: Line, event: EffectHappened) -> None:
    left = state.effects.get(event.effect)
    own = state.branches.get(state.run.branch or "") if state.run is not None else None
    if left is not None and own is not None and (left.kind == "merge" or (left.kind == "commit" and not left.task)):
        own.tip = _str_or_none(event.result.get("commit")) or own.tip
    if left is not None and state.run is not None:
        _note_last_seen(state, state.run.run_id, left, event.result)
        _note_publication(state, line, left, event.result)
    _settle(state, event.effect)


def _note_last_seen(state: RunState, run_id: str, effect: Effect, result: dict[str, Any]) -> None:
    """Record the last snapshot of a worktree, from the effects in it."""
    folder = _str_or_none(effect.arguments.get("folder"))
    place = worktree_names(run_id, effect.task) if folder is None else worktree_names_at(run_id, folder)
    branch = state.branches.get(place.branch, Branch(BranchStatus.DELETED))
    match effect.kind:
        case "snapshot.take" | "tree.capture":
            branch.unsaved = _str_or_none(result.get("commit"))
            branch.during = branch.unsaved if effect.arguments.get("name") == DURING_TURN else None
            _note_turn(branch, str(effect.arguments.get("name")))
        case "snapshot.restore" | "worktree.rewind":
            branch.unsaved, branch.during = _str_or_none(effect.arguments.get("commit")), None
            if effect.kind == "worktree.rewind":  # a lost worktree is restored from there, not from what was abandoned
                branch.turn_files = branch.unsaved
        case "commit.unwind":
            branch.unsaved = _str_or_none(result.get("unwound")) or branch.unsaved
            branch.theirs = _str_or_none(result.get("theirs")) or branch.theirs
        case "branch.take_over" if effect.arguments.get("own") and effect.arguments.get("was") not in branch.agents:
            branch.agents = [*branch.agents, str(effect.arguments.get("was"))]
        case "worktree.make":
            branch.prepared = None
        case "commit" | "commit.failed" | "worktree.remove":
            branch.unsaved = branch.during = None
            branch.committed = _str_or_none(result.get("commit")) or branch.committed
        case "refs.drop" if effect.arguments.get("prefix") == f"{SNAPSHOT_REFS}{run_id}/":
            for each in state.branches.values():
                each.unsaved = None


def _note_publication(state: RunState, line: Line, effect: Effect, result: dict[str, Any]) -> None:
    match effect.kind:
        case "merge.into":
            where = effect.arguments.get("target")
        case "push":
            where = effect.arguments.get("remote")
        case "pull_request":
            where = result.get("url")
        case _:
            return
    commit = _str_or_none(effect.arguments.get("commit"))
    state.published = {**state.published, effect.kind: Publication(str(where), commit, line.ts)}


def _note_turn(branch: Branch, snapshot_name: str) -> None:
    turn = _TURN_SNAPSHOT.match(snapshot_name)
    if turn is not None and branch.unsaved is not None:
        branch.turn, branch.turn_files = int(turn[1]), branch.unsaved


def _str_or_none(value: Any) -> str | None:
    return value if isinstance(value, str) else None


@on(EffectDidNotHappen)
def _effect_did_not_happen(state: RunState, _: Line, event: EffectDidNotHappen) -> None:
    _settle(state, event.effect)


def _settle(state: RunState, effect_id: str) -> None:
    if state.effects.pop(effect_id, None) is not None:
        state.effects_settled += 1


@on(EffectUnknown)
def _effect_unknown(state: RunState, _: Line, event: EffectUnknown) -> None:
    effect = state.effects.get(event.effect)
    if effect is not None:
        effect.status, effect.reason = EffectStatus.UNKNOWN, event.reason
