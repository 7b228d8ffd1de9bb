"""Speaks ACP to one agent process. Every call has a deadline, and every failure is one of three errors.

`AgentExited`: its process died, or it closed its output. `AgentSilent`: it did not answer in time. `AgentRefused`: it
answered with an error.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, TypeVar

import msgspec

from holdfast import __version__
from holdfast.agents.acp.client import AcpClient, Host
from holdfast.agents.acp.messages import (
    PROTOCOL_VERSION,
    AcpMessage,
    Authenticate,
    ClientAbilities,
    ContentBlock,
    FileAccess,
    ForkSession,
    Initialize,
    Initialized,
    ListSessions,
    NewSession,
    Program,
    Prompt,
    PromptAnswer,
    ReopenSession,
    SessionCreated,
    SessionList,
    SessionSettings,
    SessionTarget,
    SetMode,
    SetModel,
    SetOption,
    StdioMcpServer,
    TextContent,
    read_message,
    to_wire,
)
from holdfast.agents.acp.recorder import COMMANDS_UPDATE, EventRecorder
from holdfast.agents.acp.transport import Transport
from holdfast.agents.jsonrpc.connection import INTERNAL_ERROR_CODE, JsonRpcConnection, JsonRpcError
from holdfast.agents.launch import Launch
from holdfast.agents.limits.problem import ProviderProblem
from holdfast.agents.process.terminals import Terminals
from holdfast.agents.process.tree import ProcessTree, finish_uncancelled, spawn
from holdfast.core.messages.attachments import AUDIO, EMBEDDED, IMAGE
from holdfast.leaf.errors import HoldfastError, TimedOut
from holdfast.leaf.process.load import load_factor

M = TypeVar("M", bound=AcpMessage)

_REASON_KEYS = ("details", "message", "error", "reason")  # where agents put the reason of a refusal
_MAX_REASON_CHARS = 300
_EXIT_WAIT_S = 2.0  # for the last output of a dead agent
_REPLAYED_UPDATES = frozenset(  # about earlier turns; a new session sends the other kinds too (commands, modes)
    {"user_message_chunk", "agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update", "plan"}
)


class AgentExited(HoldfastError):
    """Its process died, or it closed its output. `code` is its exit code, if it ended by itself."""

    def __init__(self, message: str, how: str = "", code: int | None = None) -> None:
        super().__init__(message)
        self.how = how.removeprefix("it ").replace("exited with code", "exit code").replace("was killed", "killed")
        self.code = code


class AgentSilent(TimedOut):
    """It did not answer in time."""


class AgentRefused(HoldfastError):
    """It answered with an error. `code` and `data` are the protocol's."""

    def __init__(self, method: str, code: int, message: str, data: object) -> None:
        super().__init__(f"the agent refused {method}: {message}{_error_detail(data)} ({code})")
        self.code = code
        self.data = data


class Deadlines(NamedTuple):
    """In seconds. A turn can last as long as the agent, or a terminal that it waits for, sends something now and then.

    `silence` is how long both can be silent, for example during a build. On a busy machine the others are longer.
    """

    start: float = 60.0
    session: float = 60.0
    silence: float = 1800.0
    cancel: float = 15.0


class AgentInfo(NamedTuple):
    """What an agent reports about itself."""

    program: str | None
    version: str | None
    can_load: bool
    can_resume: bool
    can_fork: bool
    can_list_sessions: bool
    can_close: bool
    login_methods: tuple[str, ...]
    connects_late: bool  # it starts MCP servers on demand and says so, as our scripted agent does
    accepts: frozenset[str] = frozenset()  # what a prompt may have beside text and links


class AgentModel(NamedTuple):
    """A model that the agent offers: a value of one of its options, or one of `session/set_model` (no option)."""

    option_id: str | None
    value: str
    name: str
    is_current: bool


class AgentSession(NamedTuple):
    """An agent session. `replayed` counts its updates about earlier turns, which are not recorded again.

    `foreign_updates` counts updates that came meanwhile with the id of another session.
    """

    session_id: str
    modes: tuple[str, ...]
    replayed: int = 0
    models: tuple["AgentModel", ...] = ()
    foreign_updates: int = 0
    mode_option: str | None = None  # the option that is the mode, for an agent without `session/set_mode`
    last_message: str | None = None  # the agent's id of the message with which what it replayed ends


class _Replay:
    """Counts the updates that come while a session is reopened. They are not recorded."""

    def __init__(self, session_id: str | None) -> None:
        self._session_id = session_id  # None: any
        self.replayed = self.foreign_updates = 0
        self.last_message: str | None = None

    def count(self, session_id: str, update: dict[str, Any]) -> None:
        kind = update.get("sessionUpdate")
        if self._session_id not in (None, session_id):
            self.foreign_updates += 1
        elif kind in _REPLAYED_UPDATES:
            self.replayed += 1
            message = update.get("messageId")
            is_agents = kind == "agent_message_chunk" and isinstance(message, str)
            self.last_message = message if is_agents else None


class PromptResult(NamedTuple):
    """How a turn ended, and the tokens that the agent reports.

    `detail` is the message of a refusal; `problem` its provider's limit, if that is the reason.
    """

    reason: str
    input_tokens: int = 0
    output_tokens: int = 0
    detail: str | None = None
    problem: ProviderProblem | None = None


class AgentConnection:
    """A connection to a running agent."""

    def __init__(
        self, tree: ProcessTree, recorder: EventRecorder, launch: Launch, host: Host, deadlines: Deadlines
    ) -> None:
        self.tree = tree
        self.recorder = recorder
        self.cwd = launch.cwd
        self._reads = launch.reads
        self._deadlines = deadlines
        self._replay: _Replay | None = None
        self._transport = Transport(tree, self._on_update, recorder.record_oddity)
        self.terminals = Terminals(launch)
        recorder.terminal_output = self.terminals.last_output
        self._client = AcpClient(
            launch.cwd, host, self.terminals, recorder.record_allowed_call, recorder.look_up_call, recorder.flush
        )
        self._connection = JsonRpcConnection(self._client.handle, self._transport.send)
        disconnected = ConnectionError("the agent disconnected")
        self._serving = asyncio.ensure_future(self._connection.serve(self._transport.receive, disconnected))

    async def initialize(self) -> AgentInfo:
        request = Initialize(
            protocol_version=PROTOCOL_VERSION,
            client_capabilities=ClientAbilities(
                fs=FileAccess(read_text_file=self._reads, write_text_file=True), terminal=True
            ),
            client_info=Program(name="holdfast", title="Holdfast", version=__version__),
        )
        answer = await self._ask("initialize", request, Initialized, self._deadlines.start)
        offered, program = answer.agent_capabilities, answer.agent_info
        sessions, own = offered.session_capabilities, offered.meta.get("holdfast")
        return AgentInfo(
            program=program.name if program is not None else None,
            version=program.version if program is not None else None,
            can_load=offered.load_session,
            can_resume=sessions.resume is not None,
            can_fork=sessions.fork is not None,
            can_list_sessions=sessions.list is not None,
            can_close=sessions.close is not None,
            login_methods=tuple(method.id for method in answer.auth_methods),
            connects_late=isinstance(own, dict) and own.get("connects") == "on_demand",
            accepts=frozenset(name for name in (IMAGE, AUDIO, EMBEDDED) if getattr(offered.prompt_capabilities, name)),
        )

    @property
    def frames_received(self) -> int:
        """Return how many messages the agent has sent."""
        return self._transport.frames_received

    async def log_in(self, method: str) -> None:
        await self._call("authenticate", Authenticate(method_id=method))

    async def new_session(self, servers: Sequence[StdioMcpServer] = ()) -> AgentSession:
        request = NewSession(cwd=self.cwd, mcp_servers=tuple(servers))
        answer = await self._ask("session/new", request, SessionCreated)
        modes, models = _modes(answer), _models(answer)
        return AgentSession(answer.session_id, modes, models=models, mode_option=_mode_option(answer))

    async def resume_session(self, session_id: str, servers: Sequence[StdioMcpServer] = ()) -> AgentSession:
        return await self._reopen_session("session/resume", session_id, servers)

    async def load_session(self, session_id: str, servers: Sequence[StdioMcpServer] = ()) -> AgentSession:
        return await self._reopen_session("session/load", session_id, servers)

    async def fork_session(
        self, session_id: str, servers: Sequence[StdioMcpServer] = (), message: str | None = None
    ) -> AgentSession:
        """Create a new session that starts with the history of this one, up to a message of the agent.

        The protocol has no field for the message: agents that know `_meta` of this name copy no more than that, and
        others copy all of it.
        """
        point = {"jetbrains": {"air": {"fork": {"version": 1, "messageId": message}}}} if message is not None else None
        request = ForkSession(session_id=session_id, cwd=self.cwd, mcp_servers=tuple(servers), meta=point)
        replay = self._replay = _Replay(None)
        try:
            answer = await self._ask("session/fork", request, SessionCreated)
            return AgentSession(answer.session_id, _modes(answer), replay.replayed)
        finally:
            self._replay = None

    async def has_session(self, session_id: str, *, anywhere: bool = False) -> bool:
        """True when the agent lists this session, among those of its folder or of all folders."""
        cwd = None if anywhere else self.cwd
        cursor: str | None = None
        seen_cursors: set[str | None] = set()
        while cursor not in seen_cursors:  # an agent may return the same cursors forever
            seen_cursors.add(cursor)
            answer = await self._ask("session/list", ListSessions(cwd=cwd, cursor=cursor), SessionList)
            if any(session.session_id == session_id for session in answer.sessions):
                return True
            cursor = answer.next_cursor or None
        return False

    async def prompt(self, session_id: str, text: str, files: Sequence[ContentBlock] = ()) -> PromptResult:
        """Run one turn. It has no time limit, but a limit on silence."""
        method, request = "session/prompt", Prompt(session_id=session_id, prompt=(TextContent(text=text), *files))
        call = asyncio.ensure_future(self._connection.request(method, to_wire(request)))
        try:
            answer = _read_answer(method, await self._wait_while_active(method, call), PromptAnswer)
        finally:
            call.cancel()
        usage = answer.usage
        tokens = (usage.input_tokens, usage.output_tokens) if usage is not None else (0, 0)
        return PromptResult(answer.stop_reason, *tokens)

    async def cancel(self, session_id: str) -> None:
        method = "session/cancel"
        call = self._connection.notify(method, to_wire(SessionTarget(session_id=session_id)))
        await self._with_deadline(method, call, self._deadlines.cancel)

    async def set_mode(self, session_id: str, mode: str) -> None:
        await self._call("session/set_mode", SetMode(session_id=session_id, mode_id=mode))

    async def set_model(self, session_id: str, model_id: str) -> None:
        await self._call("session/set_model", SetModel(session_id=session_id, model_id=model_id))

    async def set_option(self, session_id: str, option_id: str, value: str | bool) -> None:  # noqa: FBT001 - the option's value
        kind = "boolean" if isinstance(value, bool) else None
        request = SetOption(session_id=session_id, config_id=option_id, value=value, type=kind)
        await self._call("session/set_config_option", request)

    async def close_session(self, session_id: str) -> None:
        await self._call("session/close", SessionTarget(session_id=session_id))

    async def close(self) -> None:
        """End the agent first: while it is alive, it can create another terminal."""
        try:
            await self.tree.end()
        finally:
            await self._stop_serving()
            await self.terminals.close()

    async def _stop_serving(self) -> None:
        self._connection.disconnect(ConnectionError("the connection is closed"))
        try:
            await self._transport.close()
        finally:
            self._serving.cancel()
            await asyncio.wait({self._serving})
            await self._connection.stop()

    async def _call(self, method: str, request: AcpMessage, timeout_s: float | None = None) -> Any:
        call = self._connection.request(method, to_wire(request))
        return await self._with_deadline(method, call, self._deadlines.session if timeout_s is None else timeout_s)

    async def _ask(self, method: str, request: AcpMessage, kind: type[M], timeout_s: float | None = None) -> M:
        return _read_answer(method, await self._call(method, request, timeout_s), kind)

    async def _reopen_session(self, method: str, session_id: str, servers: Sequence[StdioMcpServer]) -> AgentSession:
        """Reopen a session. Updates about the past are not recorded: the log has them."""
        request = ReopenSession(session_id=session_id, cwd=self.cwd, mcp_servers=tuple(servers))
        replay = self._replay = _Replay(session_id)
        try:
            result = await self._call(method, request)
            answer = _read_answer(method, result if isinstance(result, dict) else {}, SessionSettings)
            return AgentSession(
                session_id,
                _modes(answer),
                replay.replayed,
                _models(answer),
                replay.foreign_updates,
                _mode_option(answer),
                replay.last_message,
            )
        finally:
            self._replay = None

    async def _on_update(self, session_id: str, update: dict[str, Any]) -> None:
        if self._replay is None or update.get("sessionUpdate") == COMMANDS_UPDATE:
            await self.recorder.update(update)
        else:
            self._replay.count(session_id, update)

    async def _wait_while_active(self, method: str, call: "asyncio.Future[Any]") -> Any:
        """Wait while the agent, or a terminal that it waits for, sends something now and then."""
        loop = asyncio.get_running_loop()
        start = loop.time()
        while True:
            awaited = self.terminals.awaited_terminals
            if self._transport.unanswered_requests > len(awaited):  # the agent waits for us: it is not silent
                start = loop.time()
            last = max(start, self._transport.last_frame_at, *(terminal.last_output_at for terminal in awaited))
            time_left_s = last + self._deadlines.silence - loop.time()
            if time_left_s <= 0:
                command = ", nor did the command that it waits for" if awaited else ""
                raise AgentSilent(f"the agent sent nothing for {self._deadlines.silence:.0f} s in {method}{command}")
            if await self._wait_for_outcome(method, call, time_left_s):
                return await _call_result(method, call)

    async def _with_deadline(self, method: str, call: Awaitable[Any], timeout_s: float) -> Any:
        future, timeout_s = asyncio.ensure_future(call), timeout_s * load_factor()
        try:
            if not await self._wait_for_outcome(method, future, timeout_s):
                raise AgentSilent(f"the agent did not answer {method} within {timeout_s:.0f} s")
            return await _call_result(method, future)
        finally:
            future.cancel()

    async def _wait_for_outcome(self, method: str, call: "asyncio.Future[Any]", timeout_s: float) -> bool:
        """True when the call has an outcome, False after the timeout; raises `AgentExited` when the agent is dead."""
        death = asyncio.ensure_future(self.tree.wait_for_exit())
        try:
            waiting: set[asyncio.Future[Any]] = {call, death}
            await asyncio.wait(waiting, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
            if death.done() and not call.done():
                await asyncio.wait({call}, timeout=_EXIT_WAIT_S * load_factor())
                if not call.done():
                    raise self._exited(method, death.result())
            if call.done() and isinstance(call.exception(), ConnectionError):
                if self._transport.failure is not None:
                    raise self._transport.failure
                raise self._exited(method, await self._exit_reason())
            return call.done()
        finally:
            death.cancel()

    def _exited(self, method: str, how: str) -> AgentExited:
        code = self.tree.exit_code
        by_itself = code if code is not None and code >= 0 else None
        return AgentExited(f"the agent died in {method}: {how}", how, by_itself)

    async def _exit_reason(self) -> str:
        try:
            return await asyncio.wait_for(self.tree.wait_for_exit(), _EXIT_WAIT_S * load_factor())
        except TimeoutError:
            return "it closed its output, but is still running"


async def _call_result(method: str, call: "asyncio.Future[Any]") -> Any:
    try:
        return await call
    except JsonRpcError as error:
        raise AgentRefused(method, error.code, str(error), error.data) from None


def _read_answer(method: str, result: Any, kind: type[M]) -> M:
    try:
        return read_message(kind, result)
    except msgspec.ValidationError as error:
        problem = "its answer does not follow the protocol"
        raise AgentRefused(method, INTERNAL_ERROR_CODE, problem, str(error)) from None


@asynccontextmanager
async def connect_agent(
    launch: Launch, recorder: EventRecorder, host: Host, deadlines: Deadlines
) -> AsyncIterator[AgentConnection]:
    """Start an agent and connect to it. None of its processes is alive afterwards."""
    async with spawn(launch) as tree:
        agent = AgentConnection(tree, recorder, launch, host, deadlines)
        try:
            yield agent
        finally:
            await finish_uncancelled(agent.close())


def _models(settings: SessionSettings) -> tuple[AgentModel, ...]:
    """Return the models, as values of an option if there is one, else those of `session/set_model`."""
    options = tuple(
        AgentModel(option.id, choice.value, choice.name, choice.value == option.current_value)
        for option in settings.config_options
        if option.category == "model" and option.type == "select"
        for entry in option.options
        for choice in entry.options or (entry,)
        if choice.value is not None
    )
    if options or settings.models is None:
        return options
    current = settings.models.current_model_id
    return tuple(
        AgentModel(None, model.model_id, model.name, model.model_id == current)
        for model in settings.models.available_models
    )


def _error_detail(data: object) -> str:
    """Return the reason from the error's data: many agents put it there, and a generic text in the message."""
    reason = data if isinstance(data, str) else None
    if isinstance(data, dict):
        reason = next((data[key] for key in _REASON_KEYS if isinstance(data.get(key), str)), None)
    return f": {' '.join(reason.split())[:_MAX_REASON_CHARS]}" if reason else ""


def _modes(settings: SessionSettings) -> tuple[str, ...]:
    return tuple(mode.id for mode in settings.modes.available_modes) if settings.modes is not None else ()


def _mode_option(settings: SessionSettings) -> str | None:
    return next((option.id for option in settings.config_options if option.category == "mode"), None)
