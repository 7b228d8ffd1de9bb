"""Actions that have to wait because no agent for them gets a prompt now: a limit of its provider, or an outage."""

from collections.abc import Sequence

from holdfast.core.decide.actions import Action, ActionKind, RuntimeFacts
from holdfast.core.end_reason import EndReason
from holdfast.core.state import RunState
from holdfast.core.work.agent_choice import EVALUATOR, RESEARCHER, WORKER
from holdfast.core.work.workflow import Workflow


def is_paused(state: RunState, workflow: Workflow, facts: RuntimeFacts, action: Action) -> bool:
    """Whether every agent that could do this gets no prompt now. False for an action without an agent."""
    if not facts.paused:
        return False
    agents = _agents_for(state, workflow, facts, action)
    return bool(agents) and all(agent in facts.paused for agent in agents)


def wait_or_park(state: RunState, workflow: Workflow, facts: RuntimeFacts, withheld: Sequence[Action]) -> list[Action]:
    """What to do while only these actions are left: nothing, or end the session if the wait is too long."""
    agents = {agent for action in withheld for agent in _agents_for(state, workflow, facts, action)}
    pauses = [pause for agent, pause in facts.paused.items() if agent in agents] or [*facts.paused.values()]
    first = min(pauses, key=lambda pause: pause.left_s)
    return [Action(ActionKind.STOP, reason=EndReason(first.kind))] if first.parks else []


def _agents_for(state: RunState, workflow: Workflow, facts: RuntimeFacts, action: Action) -> tuple[str, ...]:
    task = state.tasks.get(action.task or "")
    wanted = task.wants if task is not None else None
    match action.kind:
        case ActionKind.START if workflow.chat:
            return ()
        case ActionKind.START | ActionKind.WORK:
            return facts.agents.for_task(WORKER, wanted)
        case ActionKind.EVALUATE:
            return facts.agents.for_task(EVALUATOR)
        case ActionKind.PROMPT | ActionKind.REVIEW:
            spec = workflow.phase(action.phase)
            return facts.agents.for_phase(action.role or "agent", spec.agent if spec is not None else None)
        case ActionKind.RESEARCH:
            return facts.agents.for_phase(RESEARCHER)
        case ActionKind.CONVERSE | ActionKind.RESUME_AGENT:
            conversation = state.conversations.get(action.conversation or "")
            current = conversation.agent if conversation is not None else None
            return (current,) if current is not None else facts.agents.for_task(WORKER, wanted)[:1]
    return ()
