"""What was changed outside the log: effects, branches, agents at work."""

from holdfast.core.codec import Line
from holdfast.core.events.agent import AgentCompleted, AgentDied, AgentSpawned
from holdfast.core.events.branch import BranchCreated, BranchDeleted, BranchMerged
from holdfast.core.events.effect import EffectDidNotHappen, EffectHappened, EffectIntended, EffectUnknown
from holdfast.core.handlers.base import name_of, on
from holdfast.core.state import Agent, Branch, BranchStatus, Effect, EffectStatus, RunState, Stage


@on(AgentSpawned)
def _agent_spawned(state: RunState, line: Line, event: AgentSpawned) -> None:
    state.agents[event.name] = Agent(line.sid, event.role, name_of(event.task), event.branch)
    if event.branch is not None:
        state.branches.setdefault(event.branch, Branch(BranchStatus.IN_PROGRESS, task=name_of(event.task)))


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
    known = state.branches.get(event.name)
    tip = known.tip if known is not None else None
    state.branches[event.name] = Branch(BranchStatus.IN_PROGRESS, task=name_of(event.task), base=event.base, tip=tip)


@on(BranchMerged)
def _branch_merged(state: RunState, _: Line, event: BranchMerged) -> None:
    branch = state.branches.setdefault(event.name, Branch(BranchStatus.IN_PROGRESS))
    branch.status, branch.target = BranchStatus.MERGED, event.target
    task = state.tasks.get(branch.task) if branch.task is not None else None
    if task is not None and task.stage is Stage.MERGE:
        task.stage = Stage.COMPLETE


@on(BranchDeleted)
def _branch_deleted(state: RunState, _: Line, event: BranchDeleted) -> None:
    state.branches.setdefault(event.name, Branch(BranchStatus.DELETED)).status = BranchStatus.DELETED


@on(EffectIntended)
def _effect_intended(state: RunState, _: Line, event: EffectIntended) -> None:
    state.effects[event.effect] = Effect(event.kind, name_of(event.task), event.arguments)


@on(EffectHappened)
def _effect_happened(state: RunState, _: Line, event: EffectHappened) -> None:
    left = state.effects.get(event.effect)
    own = state.branches.get(state.run.branch or "") if state.run is not None else None
    if left is not None and own is not None and (left.kind == "merge" or (left.kind == "commit" and not left.task)):
        own.tip = event.result.get("commit") or own.tip
    _settle(state, event.effect)


@on(EffectDidNotHappen)
def _effect_did_not_happen(state: RunState, _: Line, event: EffectDidNotHappen) -> None:
    _settle(state, event.effect)


def _settle(state: RunState, effect: str) -> None:
    if state.effects.pop(effect, None) is not None:
        state.effects_settled += 1


@on(EffectUnknown)
def _effect_unknown(state: RunState, _: Line, event: EffectUnknown) -> None:
    effect = state.effects.get(event.effect)
    if effect is not None:
        effect.status, effect.reason = EffectStatus.UNKNOWN, event.reason
