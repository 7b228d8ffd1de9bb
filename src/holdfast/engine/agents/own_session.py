"""The agent's own session: evidence that it is the requested one, and copies of a session.

A copy is made of a session that another tool began, and of one that remembers what was rewound.
"""

from collections.abc import Sequence
from contextlib import suppress

from holdfast.agents.acp.driver import AgentConnection, AgentInfo, AgentRefused, AgentSession
from holdfast.agents.acp.messages import StdioMcpServer
from holdfast.core.conversation.states import SESSION_UNVERIFIED_CODE, RecoveryStrategy
from holdfast.core.state import Conversation, ForkSource


def is_adopted(state: Conversation) -> bool:
    """Whether its session was begun without Holdfast, and no agent was started for it since."""
    return state.token is not None and not state.started


async def fork_adopted(
    agent: AgentConnection, greeting: AgentInfo, token: str, servers: Sequence[StdioMcpServer]
) -> AgentSession | None:
    """Continue in a copy of the session, because its file is another tool's; None if the agent refuses that.

    The copy counts only if the agent lists the session, or if the copy replays it.
    """
    with suppress(AgentRefused):
        is_known = greeting.can_list_sessions and await agent.has_session(token, anywhere=True)
        forked = await agent.fork_session(token, servers)
        if is_known or forked.replayed or not greeting.can_load:
            return forked if is_known or forked.replayed else None
        copy = await agent.load_session(forked.session_id, servers)
        return copy if copy.replayed else None
    return None


async def fork_at_message(
    agent: AgentConnection, source: ForkSource, servers: Sequence[StdioMcpServer]
) -> AgentSession:
    """Continue in a copy of the session that ends with a message, as its replay must prove.

    Raises `AgentRefused` if the agent copies more or less than that: the copy is not used then.
    """
    forked = await agent.fork_session(source.token, servers, source.message)
    copy = await agent.load_session(forked.session_id, servers)
    if copy.last_message != source.message:
        raise AgentRefused(RecoveryStrategy.FORK, 0, "the copy of its session does not end at the point", None)
    return copy


async def require_known_session(agent: AgentConnection, greeting: AgentInfo, token: str, *, proven: bool) -> None:
    """Require that the agent lists the session; without a list, a probe must have shown that it remembers."""
    listed = await _lists_session(agent, token) if greeting.can_list_sessions else None
    if listed is False:
        raise AgentRefused(
            RecoveryStrategy.RESUME, 0, "it does not know the session: its list of sessions lacks it", None
        )
    if listed is None and not proven:
        unproven = "it may be another session: the agent lists no sessions, and no probe tested it"
        raise AgentRefused(RecoveryStrategy.RESUME, SESSION_UNVERIFIED_CODE, unproven, None)


async def _lists_session(agent: AgentConnection, token: str) -> bool | None:
    """Return None if it refuses to list its sessions."""
    try:
        return await agent.has_session(token)
    except AgentRefused:
        return None
