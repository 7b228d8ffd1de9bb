"""Why an agent did not take a prompt: its provider's limit, an outage, a missing login, or another error."""

from holdfast.agents.acp.driver import AgentRefused, PromptResult
from holdfast.agents.limits.problem import problem_in_reply
from holdfast.agents.registry import find_agent
from holdfast.core.conversation.states import FINISHED_TURN_REASONS, REFUSAL, REFUSED
from holdfast.engine.agents.context import ConversationContext, LiveAgent
from holdfast.engine.agents.credentials import auth_advice


def refusal(error: AgentRefused, agent: str | None, context: ConversationContext) -> PromptResult:
    """The result of a prompt that the agent answered with an error."""
    from holdfast.agents.limits.recognize import problem_in_error  # noqa: PLC0415 - slow to import; most are answered

    problem = problem_in_error(str(error), context.limits.clock(), code=error.code, data=error.data)
    advice = auth_advice(agent, context.agents, str(error), code=error.code) if problem is None else ""
    return PromptResult(REFUSED, detail=f"{error}{advice}", problem=problem)


def with_limit(ended: PromptResult, live: LiveAgent, agent: str | None, context: ConversationContext) -> PromptResult:
    """Some agents report their provider's limit as a message, and end the turn as if it were finished."""
    if ended.reason not in (*FINISHED_TURN_REASONS, REFUSAL):
        return ended
    wording, text = find_agent(agent or "", context.agents).wording, live.agent.recorder.closing_text
    problem = problem_in_reply(text, context.limits.clock(), wording.quota, wording.outage)
    return ended if problem is None else ended._replace(reason=REFUSED, detail=text.strip(), problem=problem)
