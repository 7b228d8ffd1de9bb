"""What the conversations of a run share: their context, a running agent, and the errors that an agent can end with."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import NamedTuple, Protocol

from holdfast.agents.acp.driver import AgentConnection, AgentExited, AgentRefused, AgentSession, AgentSilent, Deadlines
from holdfast.agents.acp.recorder import FLUSH_DELAY_S, EventRecorder
from holdfast.agents.launch import Runtime
from holdfast.agents.prices import TokenPrice
from holdfast.agents.registry import AgentDefinition
from holdfast.core.events import Event
from holdfast.core.messages.attachments import Attachment
from holdfast.core.state import Conversation
from holdfast.engine.agents.limits import LimitContext
from holdfast.leaf.errors import Denied, HoldfastError
from holdfast.leaf.process.identity import ProcessIdentity
from holdfast.store.base import Log

AGENT_ERRORS = (AgentExited, AgentSilent, AgentRefused)


class TextSink(Protocol):
    """Follows what agents say before it is in the log. The recorder has the open message of the conversation."""

    def text_added(self, conversation_id: str, recorder: EventRecorder, text: str, /) -> None: ...

    def text_taken(self, conversation_id: str, recorder: EventRecorder, speaker: str, text: str, /) -> None:
        """This text is about to be stored."""
        ...


class NoTextSink:
    def text_added(self, *_: object) -> None:
        pass

    def text_taken(self, *_: object) -> None:
        pass


class AgentUnavailable(HoldfastError):
    """No strategy worked, not even a new session. The conversation waits; nothing is lost.

    `is_permanent` when another attempt would end the same way.
    """

    def __init__(self, message: str, *, is_permanent: bool = False) -> None:
        super().__init__(message)
        self.is_permanent = is_permanent


async def _do_nothing(_: object) -> None:
    pass


class ConversationContext(NamedTuple):
    """What conversations need: the run's folder, its log, how agents are started, and how permissions are decided."""

    run_id: str
    folder: str
    log: Log
    agents: Mapping[str, AgentDefinition] = {}
    proven: Mapping[str, Mapping[str, bool]] = {}
    deadlines: Deadlines = Deadlines()
    environment: Mapping[str, str] = {}
    tools: Callable[[str, Conversation], Sequence[str]] | None = None  # the command of a conversation's MCP server
    fetch: Callable[[Attachment], Awaitable[object]] = _do_nothing  # makes a message's file available here
    spools_reports: bool = False  # no agent may reach the store: what starts without this process reports to files
    relay: Callable[[str, str, Sequence[str]], Sequence[str]] | None = None  # the same, by way of this process
    must_report: Callable[[Conversation], bool] = lambda _: False  # whether a turn without a report has no result
    runtimes: Mapping[str, Runtime] = {}  # by role; else the runtime of the agent's entry, else that of `ANY_ROLE`
    on_event: Callable[[Event], None] = lambda _: None  # called with agents' events, once they are in the log
    on_turn_start: Callable[[str], Awaitable[None]] = _do_nothing  # awaited before a conversation's prompt is sent,
    on_turn_end: Callable[[str], Awaitable[None]] = _do_nothing  # and when its turn is over
    text_delay_s: float = FLUSH_DELAY_S  # how long streamed text is buffered before it is stored
    limits: LimitContext = LimitContext()
    prices: Mapping[str, TokenPrice] = {}  # the user's own, by model
    models: Mapping[str, str] = {}  # by role, if the agent is not to choose itself


class LiveAgent(NamedTuple):
    """A running agent and its session."""

    agent: AgentConnection
    session: str
    stack: AsyncExitStack
    opened: AgentSession
    cwd: str
    accepts: frozenset[str] = frozenset()  # what its prompts may have beside text and links


async def close_agent(stack: AsyncExitStack) -> Denied | None:
    """Return the error to raise if something of an agent cannot be killed, once the log has the rest."""
    try:
        await stack.aclose()
    except Denied as error:
        return error
    return None


def recorded_process(state: Conversation) -> ProcessIdentity | None:
    """The last process of its agent that the log has."""
    if state.pid is None or state.start_time is None or state.boot_id is None:
        return None
    return ProcessIdentity(state.pid, state.start_time, state.boot_id)
