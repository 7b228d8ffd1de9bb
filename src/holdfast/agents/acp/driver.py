"""Speaking ACP to one agent process: every call has a deadline, and every way to die ends in one of three errors.

`AgentDied`: its process is gone, or it hung up. `AgentSilent`: it did not answer in time. `AgentRefused`: it said no.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, TypeVar

from acp import PROTOCOL_VERSION, RequestError
from acp.client.connection import ClientSideConnection
from acp.schema import (
    AgentCapabilities,
    AudioContentBlock,
    ClientCapabilities,
    EmbeddedResourceContentBlock,
    FileSystemCapabilities,
    ImageContentBlock,
    Implementation,
    McpServerStdio,
    ResourceContentBlock,
    TextContentBlock,
)
from pydantic import ValidationError

from holdfast import __version__
from holdfast.agents.acp.client import ClientSide, Host
from holdfast.agents.acp.recorder import Scribe
from holdfast.agents.acp.transport import Transport
from holdfast.agents.launch import Launch
from holdfast.agents.process.terminals import Terminals
from holdfast.agents.process.tree import Tree, grown, seen_through
from holdfast.leaf.errors import HoldfastError, TimedOut
from holdfast.leaf.process.load import slowness

T = TypeVar("T")
Content = TextContentBlock | ImageContentBlock | AudioContentBlock | ResourceContentBlock | EmbeddedResourceContentBlock

_UNREADABLE = -32603  # what the protocol says of an internal error
_REASONS = ("details", "message", "error", "reason")  # where agents put the reason of a refusal
_REASON = 300  # characters of it
_LAST_WORDS = 2.0  # seconds for what a dead agent left in the pipe
_PAST = frozenset(  # updates that tell of earlier turns; commands, modes and the like a new session has too
    {"user_message_chunk", "agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update", "plan"}
)


class AgentDied(HoldfastError):
    """Its process is gone, or it hung up."""


class AgentSilent(TimedOut):
    """It did not answer in time."""


class AgentRefused(HoldfastError):
    """It said no. `code` and `data` are the protocol's."""

    def __init__(self, what: str, code: int, message: str, data: object) -> None:
        super().__init__(f"the agent refused {what}: {message}{_details(data)} ({code})")
        self.code = code
        self.data = data


class Deadlines(NamedTuple):
    """In seconds. A turn may last while the agent, or a command of ours that it waits for, says something now and then.

    `silence` is how long both may say nothing, be it a build that works. On a busy machine all others are longer.
    """

    start: float = 60.0
    session: float = 60.0
    silence: float = 1800.0
    cancel: float = 15.0


class Greeting(NamedTuple):
    """What an agent says of itself."""

    program: str | None
    version: str | None
    load: bool
    resume: bool
    fork: bool
    sessions: bool
    close: bool
    logins: tuple[str, ...]
    capabilities: AgentCapabilities

    @property
    def connects_late(self) -> bool:
        """It starts MCP servers when it needs them, and says so: our own scripted agent does."""
        own = (self.capabilities.field_meta or {}).get("holdfast")
        return isinstance(own, dict) and own.get("connects") == "on_demand"


class Model(NamedTuple):
    """A model that the agent offers: a value of one of its options."""

    option: str
    value: str
    name: str
    current: bool


class Opened(NamedTuple):
    """A session of the agent's. `replayed` counts what it told of earlier turns, which nobody wrote down.

    `elsewhere` counts what it told meanwhile under the id of another session.
    """

    session: str
    modes: tuple[str, ...]
    replayed: int = 0
    models: tuple["Model", ...] = ()
    elsewhere: int = 0


class _Replay:
    """What comes while a session is opened again: counted, not written."""

    def __init__(self, session: str | None) -> None:
        self._session = session  # None: any
        self.replayed = self.elsewhere = 0

    def count(self, session: str, update: dict[str, Any]) -> None:
        if self._session not in (None, session):
            self.elsewhere += 1
        elif update.get("sessionUpdate") in _PAST:
            self.replayed += 1


class Ended(NamedTuple):
    """How a turn ended, and what it cost by the agent's account; `detail` is what it said when it refused."""

    reason: str
    input_tokens: int = 0
    output_tokens: int = 0
    detail: str | None = None


class Agent:
    """A connection to a living agent."""

    def __init__(self, tree: Tree, scribe: Scribe, launch: Launch, host: Host, deadlines: Deadlines) -> None:
        self.tree = tree
        self.scribe = scribe
        self._cwd = launch.cwd
        self._reads = launch.reads
        self._deadlines = deadlines
        self._replay: _Replay | None = None
        self._transport = Transport(tree, self._told, scribe.odd)
        self.terminals = Terminals(launch)
        scribe.terminal_output = self.terminals.last_output
        self._client = ClientSide(launch.cwd, host, self.terminals, scribe.begun, scribe.told)
        speaker: Any = self._client
        self._connection = ClientSideConnection(speaker, self._transport)

    async def greet(self) -> Greeting:
        offered = ClientCapabilities(
            fs=FileSystemCapabilities(read_text_file=self._reads, write_text_file=True), terminal=True
        )
        about = Implementation(name="holdfast", title="Holdfast", version=__version__)
        call = self._connection.initialize(PROTOCOL_VERSION, client_capabilities=offered, client_info=about)
        said = await self._within("initialize", call, self._deadlines.start)
        can = said.agent_capabilities or AgentCapabilities()
        sessions = can.session_capabilities
        return Greeting(
            program=said.agent_info.name if said.agent_info is not None else None,
            version=said.agent_info.version if said.agent_info is not None else None,
            load=bool(can.load_session),
            resume=sessions is not None and sessions.resume is not None,
            fork=sessions is not None and sessions.fork is not None,
            sessions=sessions is not None and sessions.list is not None,
            close=sessions is not None and sessions.close is not None,
            logins=tuple(method.id for method in said.auth_methods or ()),
            capabilities=can,
        )

    @property
    def frames(self) -> int:
        """How many messages came from the agent so far."""
        return self._transport.seen

    async def log_in(self, method: str) -> None:
        await self._within("authenticate", self._connection.authenticate(method), self._deadlines.session)

    async def new(self, servers: Sequence[McpServerStdio] = ()) -> Opened:
        call = self._connection.new_session(self._cwd, mcp_servers=list(servers))
        said = await self._within("session/new", call, self._deadlines.session)
        return Opened(said.session_id, _modes(said.modes), models=_models(said.config_options))

    async def resume(self, session: str, servers: Sequence[McpServerStdio] = ()) -> Opened:
        call = self._connection.resume_session(session, self._cwd, mcp_servers=list(servers))
        return await self._returned("session/resume", call, session)

    async def load(self, session: str, servers: Sequence[McpServerStdio] = ()) -> Opened:
        call = self._connection.load_session(self._cwd, session, mcp_servers=list(servers))
        return await self._returned("session/load", call, session)

    async def fork(self, session: str, servers: Sequence[McpServerStdio] = ()) -> Opened:
        """A session of its own that begins with all that was said in this one."""
        call = self._connection.fork_session(session, self._cwd, mcp_servers=list(servers))
        replay = self._replay = _Replay(None)
        try:
            said = await self._within("session/fork", call, self._deadlines.session)
            return Opened(said.session_id, _modes(said.modes), replay.replayed)
        finally:
            self._replay = None

    async def knows(self, session: str) -> bool:
        """True when the agent lists this session among its own."""
        cursor: str | None = None
        asked: set[str | None] = set()
        while cursor not in asked:  # an agent may lead us in a circle
            asked.add(cursor)
            call = self._connection.list_sessions(cwd=self._cwd, cursor=cursor)
            said = await self._within("session/list", call, self._deadlines.session)
            if any(one.session_id == session for one in said.sessions):
                return True
            cursor = said.next_cursor or None
        return False

    async def prompt(self, session: str, content: Sequence[Content]) -> Ended:
        """One turn. It may last, but not in silence."""
        call = asyncio.ensure_future(self._connection.prompt(session, list(content)))
        try:
            said = await self._while_it_speaks("session/prompt", call)
        finally:
            call.cancel()
        usage = said.usage
        spent = (usage.input_tokens or 0, usage.output_tokens or 0) if usage is not None else (0, 0)
        return Ended(str(said.stop_reason), *spent)

    async def cancel(self, session: str) -> None:
        await self._within("session/cancel", self._connection.cancel(session), self._deadlines.cancel)

    async def set_mode(self, session: str, mode: str) -> None:
        call = self._connection.set_session_mode(session, mode)
        await self._within("session/set_mode", call, self._deadlines.session)

    async def set_option(self, session: str, name: str, value: str | bool) -> None:  # noqa: FBT001 - the option's value
        call = self._connection.set_config_option(name, session, value)
        await self._within("session/set_config_option", call, self._deadlines.session)

    async def close_session(self, session: str) -> None:
        await self._within("session/close", self._connection.close_session(session), self._deadlines.session)

    async def close(self) -> None:
        """The agent first: while it lives, it can ask for one more terminal."""
        try:
            await self.tree.end()
        finally:
            await self._connection.close()
            await self.terminals.close()

    async def _returned(self, what: str, call: Awaitable[Any], session: str) -> Opened:
        """A session that comes back. What the agent tells of the past is not written again: the log has it."""
        replay = self._replay = _Replay(session)
        try:
            said = await self._within(what, call, self._deadlines.session)
            models = _models(getattr(said, "config_options", None))
            return Opened(session, _modes(getattr(said, "modes", None)), replay.replayed, models, replay.elsewhere)
        finally:
            self._replay = None

    async def _told(self, session: str, update: dict[str, Any]) -> None:
        if self._replay is None:
            await self.scribe.update(update)
        else:
            self._replay.count(session, update)

    async def _while_it_speaks(self, what: str, call: "asyncio.Future[T]") -> T:
        """Wait as long as something comes at least now and then, of the agent or of a command that it waits for."""
        loop = asyncio.get_running_loop()
        since = loop.time()
        while True:
            awaited = self.terminals.awaited
            if self._transport.owing > len(awaited):  # it waits for an answer of ours: the silence is not its own
                since = loop.time()
            last = max(since, self._transport.last, *(terminal.last for terminal in awaited))
            left = last + self._deadlines.silence - loop.time()
            if left <= 0:
                nor = ", nor did the command that it waits for" if awaited else ""
                raise AgentSilent(f"the agent said nothing for {self._deadlines.silence:.0f} s in {what}{nor}")
            answered = await self._settled(what, call, left)
            if answered:
                return await _outcome(what, call)

    async def _within(self, what: str, call: Awaitable[T], limit: float) -> T:
        future, limit = asyncio.ensure_future(call), limit * slowness()
        try:
            if not await self._settled(what, future, limit):
                raise AgentSilent(f"the agent did not answer {what} within {limit:.0f} s")
            return await _outcome(what, future)
        finally:
            future.cancel()

    async def _settled(self, what: str, call: "asyncio.Future[T]", limit: float) -> bool:
        """True when the call has an outcome, False when the time is up; `AgentDied` when the agent is dead."""
        death = asyncio.ensure_future(self.tree.death())
        try:
            waiting: set[asyncio.Future[Any]] = {call, death}
            await asyncio.wait(waiting, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
            if death.done() and not call.done():
                await asyncio.wait({call}, timeout=_LAST_WORDS * slowness())
                if not call.done():
                    raise AgentDied(f"the agent died in {what}: {death.result()}")
            if call.done() and isinstance(call.exception(), ConnectionError):
                if self._transport.failure is not None:
                    raise self._transport.failure
                how = await self._how_it_ended()
                raise AgentDied(f"the agent died in {what}: {how}")
            return call.done()
        finally:
            death.cancel()

    async def _how_it_ended(self) -> str:
        try:
            return await asyncio.wait_for(self.tree.death(), _LAST_WORDS * slowness())
        except TimeoutError:
            return "it hung up, and lives on"


async def _outcome(what: str, call: "asyncio.Future[T]") -> T:
    try:
        return await call
    except RequestError as error:
        raise AgentRefused(what, error.code, str(error), error.data) from None
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False)
        raise AgentRefused(what, _UNREADABLE, "its answer is not as the protocol has it", problem) from None


@asynccontextmanager
async def speaking(launch: Launch, scribe: Scribe, host: Host, deadlines: Deadlines) -> AsyncIterator[Agent]:
    """Start an agent and speak to it; afterwards nothing of it is alive."""
    async with grown(launch) as tree:
        agent = Agent(tree, scribe, launch, host, deadlines)
        try:
            yield agent
        finally:
            await seen_through(agent.close())


def _models(options: Any) -> tuple[Model, ...]:
    found = []
    for option in options or ():
        if option.category == "model" and option.type == "select":
            choices = [one for entry in option.options for one in getattr(entry, "options", [entry])]
            found += [Model(option.id, one.value, one.name, one.value == option.current_value) for one in choices]
    return tuple(found)


def _details(data: object) -> str:
    """The reason, of an agent that gives it beside a message that says nothing."""
    told = data if isinstance(data, str) else None
    if isinstance(data, dict):
        told = next((data[key] for key in _REASONS if isinstance(data.get(key), str)), None)
    return f": {' '.join(told.split())[:_REASON]}" if told else ""


def _modes(modes: Any) -> tuple[str, ...]:
    return tuple(mode.id for mode in modes.available_modes) if modes is not None else ()
