"""Restores conversations: starts an agent and restores its session by the best strategy that works.

Each strategy has a deadline. One that fails is recorded and the next is tried; the user is told which one worked.
"""

import asyncio
import os
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from functools import partial

from msgspec import structs

from holdfast.agents.acp.driver import (
    AgentConnection,
    AgentExited,
    AgentInfo,
    AgentRefused,
    AgentSession,
    AgentSilent,
    connect_agent,
)
from holdfast.agents.acp.messages import EnvironmentVariable, StdioMcpServer
from holdfast.agents.acp.recorder import EventRecorder
from holdfast.agents.launch import ANY_ROLE, Launch, Runtime, TmuxSlot, choose_runtime
from holdfast.agents.prices import find_price
from holdfast.agents.process.tree import finish_uncancelled, kill_survivors
from holdfast.agents.registry import AgentDefinition, environment_for, find_agent, install_advice
from holdfast.core.conversation.own_tools import SERVER as OWN_SERVER
from holdfast.core.conversation.states import (
    Capability,
    ConversationState,
    RecoveryStrategy,
    next_strategy,
    recovery_strategies,
)
from holdfast.core.decide.attribution import conversation_agent_name
from holdfast.core.decide.interrupted import after_failure
from holdfast.core.decide.transitions import conversation_change
from holdfast.core.events import Event
from holdfast.core.events.agent import AgentSpawned
from holdfast.core.events.conversation import (
    START_STEP,
    ConversationAttached,
    ConversationDetached,
    ConversationTokenStored,
    RecoveryStrategyFailed,
)
from holdfast.core.events.issue import WarningLogged
from holdfast.core.state import Conversation
from holdfast.core.work.names import worktree_names
from holdfast.engine.agents.context import (
    AGENT_ERRORS,
    AgentUnavailable,
    ConversationContext,
    LiveAgent,
    NoTextSink,
    TextSink,
    close_agent,
)
from holdfast.engine.agents.credentials import auth_advice, file_size, stderr_since
from holdfast.engine.agents.limits import LimitedTurn, limit_event, stand_in_problem, start_problem
from holdfast.engine.agents.listing_file import forget_listed, is_listed
from holdfast.engine.agents.options import choose_model, find_model, offered_models
from holdfast.engine.agents.own_session import fork_adopted, fork_at_message, is_adopted, require_known_session
from holdfast.engine.agents.permissions import PermissionBroker
from holdfast.engine.agents.prompt import AgentPaused
from holdfast.engine.agents.start_failure import is_permanent, start_failure_text
from holdfast.engine.agents.tmux import tmux_slot
from holdfast.engine.agents.tool_listing import wait_until_listed
from holdfast.engine.agents.transcript import conversation_lineage, history_of
from holdfast.engine.containers import record_engine
from holdfast.engine.workspace.repository import FD_MARKER_FILE
from holdfast.leaf.errors import BadInput, HoldfastError
from holdfast.leaf.failpoints import failpoint_pair
from holdfast.leaf.process.env_markers import CONVERSATION_MARK, RUN_MARK
from holdfast.leaf.process.load import load_factor
from holdfast.store.run import OwnedRun

_FAILPOINT = failpoint_pair("agent.spawn")


_NOTICES = {
    RecoveryStrategy.REATTACH: None,
    RecoveryStrategy.FORK: "continued in a copy of the agent's own session that ends at the point (session/fork)",
    RecoveryStrategy.RESUME: "resumed the agent's own session (session/resume)",
    RecoveryStrategy.LOAD: "resumed the agent's own session (session/load)",
    RecoveryStrategy.HISTORY: "started a new agent session; a digest of the conversation goes with the next message",
    RecoveryStrategy.FRESH: "started a new agent session; nothing had been said in the one before",
}

_OWN_SESSION = (RecoveryStrategy.RESUME, RecoveryStrategy.LOAD)
_FORKED_NOTICE = "continued in a copy of the agent's own session (session/fork)"


class Recovery:
    """Restores the conversations of one run."""

    def __init__(
        self, run: OwnedRun, context: ConversationContext, permissions: PermissionBroker, text_sink: TextSink | None
    ) -> None:
        self._run = run
        self._context = context
        self._permissions = permissions
        self._text_sink = text_sink or NoTextSink()
        self._report_files: dict[str, str] = {}  # the files to which agents report that cannot write to the inbox
        self._confined: set[str] = set()  # conversations whose agents reach nothing but these files
        self._connects_late: set[str] = set()  # agents that request the tools only when they need them

    async def restore(self, conversation_id: str, cwd: str) -> LiveAgent:
        state = self._state(conversation_id)
        entry = find_agent(state.agent or "", self._context.agents)
        await self._run.append(*conversation_change(self._run.state, conversation_id, ConversationState.STARTING))
        stack = AsyncExitStack()
        stderr_path = self._stderr_path(conversation_id)
        before = file_size(stderr_path)
        try:
            live = await self._try_strategies(conversation_id, entry, cwd, stack)
            await self._wait_for_tools(conversation_id, entry, live)
            return live
        except AGENT_ERRORS as error:
            await self._record_failure(conversation_id, stack, str(error))
            code = error.code if isinstance(error, AgentRefused) else None
            stderr = stderr_since(stderr_path, before)
            await self._raise_if_limited(conversation_id, entry, error, stderr)
            complaint = stderr if code is None else ""
            advice = auth_advice(state.agent, self._context.agents, str(error), code=code, stderr=complaint)
            where = f"; its stderr is in {stderr_path}" if stderr else ""
            text = f"{start_failure_text(state.agent, error, stderr)}{where}{advice}"
            raise AgentUnavailable(text, is_permanent=is_permanent(error, stderr)) from error
        except HoldfastError as error:
            await self._record_failure(conversation_id, stack, str(error))
            raise
        except asyncio.CancelledError:
            await finish_uncancelled(self._record_failure(conversation_id, stack, "the session ended"))
            raise
        except BaseException:
            await stack.aclose()
            raise

    async def _raise_if_limited(
        self, conversation_id: str, entry: AgentDefinition, error: Exception, stderr: str
    ) -> None:
        """An agent may meet its provider's limit, or find it away, before it can start a session."""
        limits = self._context.limits
        agent, detail = self._state(conversation_id).agent or "", start_failure_text(entry.title, error, stderr)
        problem = None if is_permanent(error, stderr) else start_problem(error, stderr, limits.clock())
        problem = problem or stand_in_problem(self._run.state, limits, agent)
        if problem is None:
            return
        limited = LimitedTurn(agent, entry, conversation_id, None, detail)
        await self._run.append(await limit_event(self._run.state, limits, limited, problem))
        raise AgentPaused(detail) from error

    def lacks_tools(self, name: str) -> bool:
        """Return whether a prompt would reach its agent without Holdfast's tools."""
        return name not in self._connects_late and not is_listed(self._listed(name))

    async def _wait_for_tools(self, name: str, entry: AgentDefinition, live: LiveAgent) -> None:
        """Wait until the agent has them or the deadline passes. Then it is prompted anyway, and the result shows."""
        seconds = entry.tools_wait * load_factor()
        if not self.lacks_tools(name):
            return
        if not await wait_until_listed(self._listed(name), seconds, live.agent.tree.wait_for_exit()):
            agent = self._state(name).agent
            message = (
                f"{agent} did not ask for Holdfast's tools within {seconds:.0f} s, and is prompted without them; "
                f"agents.{agent}.tools_wait sets how long to wait"
            )
            await self._run.append(WarningLogged(message=message))

    async def ensure_dead(self, conversation_id: str) -> None:
        """Make sure that nothing of an earlier agent is alive; raises `Denied` while something is."""
        await kill_survivors(self._mark(conversation_id))

    async def _try_strategies(
        self, conversation_id: str, entry: AgentDefinition, cwd: str, stack: AsyncExitStack
    ) -> LiveAgent:
        history = bool(await history_of(self._context.log, conversation_lineage(self._run.state, conversation_id)))
        failed: list[tuple[RecoveryStrategy, int | None]] = []
        agent, greeting = await self._start_with_retry(conversation_id, entry, cwd, stack)
        while True:
            strategy = self._next_strategy(conversation_id, greeting, failed, has_history=history)
            assert strategy is not None, "the last one's failure is raised"
            try:
                opened = await self._try_strategy(conversation_id, agent, greeting, strategy, has_history=history)
                return await self._record_attached(conversation_id, agent, opened, greeting, strategy, stack)
            except AGENT_ERRORS as error:
                failed.append((strategy, error.code if isinstance(error, AgentRefused) else None))
                following = self._next_strategy(conversation_id, greeting, failed, has_history=history)
                after = after_failure(failed, following)
                await self._record_failed_strategy(conversation_id, strategy, error, session_lost=after.session_lost)
                if after.gives_up or start_problem(error, "", self._context.limits.clock()) is not None:
                    raise
                if after.restarts_agent:  # it may be dead or hang
                    await stack.aclose()
                    agent, greeting = await self._start_with_retry(conversation_id, entry, cwd, stack)

    async def _record_failed_strategy(
        self, conversation_id: str, strategy: RecoveryStrategy, error: Exception, *, session_lost: bool
    ) -> None:
        """With `lost`, the agent's own session is gone and is not tried again."""
        events: list[Event] = [RecoveryStrategyFailed(conversation=conversation_id, rung=strategy, reason=str(error))]
        if session_lost and self._state(conversation_id).token is not None:
            events.append(ConversationTokenStored(conversation=conversation_id, token=None))
        await self._run.append(*events)

    async def _record_failure(self, conversation_id: str, stack: AsyncExitStack, reason: str) -> None:
        alive = await close_agent(stack)
        attached = self._state(conversation_id).pid is not None
        await self._run.append(
            *([ConversationDetached(conversation=conversation_id, reason=reason)] if attached else []),
            *conversation_change(self._run.state, conversation_id, ConversationState.WAITING, reason),
        )
        if alive is not None:
            raise alive

    async def _start_with_retry(
        self, conversation_id: str, entry: AgentDefinition, cwd: str, stack: AsyncExitStack
    ) -> tuple[AgentConnection, AgentInfo]:
        """Start the agent, with one retry unless that would end the same way."""
        said = self._stderr_path(conversation_id)
        before = file_size(said)
        try:
            return await self._start_agent(conversation_id, entry, cwd, stack)
        except (AgentExited, AgentSilent) as error:
            await self._run.append(
                RecoveryStrategyFailed(conversation=conversation_id, rung=START_STEP, reason=str(error))
            )
            await stack.aclose()
            if is_permanent(error, stderr_since(said, before)):
                raise
            return await self._start_agent(conversation_id, entry, cwd, stack)

    async def _start_agent(
        self, conversation_id: str, entry: AgentDefinition, cwd: str, stack: AsyncExitStack
    ) -> tuple[AgentConnection, AgentInfo]:
        entry = structs.replace(entry, runtime=self._runtime(conversation_id, entry))
        if not entry.is_installed():
            raise BadInput(install_advice(entry))
        record_engine(self._context.folder, entry.runtime)
        complaints = self._stderr_path(conversation_id)
        os.makedirs(os.path.dirname(complaints), exist_ok=True)
        self._report_files.pop(conversation_id, None)
        forget_listed(self._listed(conversation_id))
        (self._confined.add if entry.runtime.is_confined else self._confined.discard)(conversation_id)
        if self._context.tools is not None and (entry.runtime.is_confined or self._context.spools_reports):
            self._report_files[conversation_id] = await self._run.create_report_file(conversation_id)
        launch = Launch(
            command=entry.command,
            cwd=cwd,
            environment={
                **self._context.environment,
                **environment_for(entry),
                **self._model_environment(conversation_id, entry),
                RUN_MARK: self._context.run_id,
            },
            mark=self._mark(conversation_id),
            stderr=complaints,
            fd_marker=os.path.join(self._context.folder, FD_MARKER_FILE),
            runtime=entry.runtime,
            reads=entry.reads,
            tmux_slot=self._tmux_slot(conversation_id, entry),
            reports=self._report_files.get(conversation_id),
        )
        recorder = EventRecorder(
            conversation_id,
            self._append_and_notify,
            lambda _, text: self._text_sink.text_added(conversation_id, recorder, text),
            flush_delay_s=self._context.text_delay_s,
            task_id=self._state(conversation_id).task,
        )
        recorder.redactor = self._run.redactor
        recorder.estimate = partial(self._estimate, conversation_id)
        recorder.set_known_commands(self._state(conversation_id).commands)
        recorder.on_text_taken = partial(self._text_sink.text_taken, conversation_id, recorder)
        host = self._permissions.for_agent(conversation_id, cwd)
        _FAILPOINT.before()
        agent = await stack.enter_async_context(connect_agent(launch, recorder, host, self._context.deadlines))
        _FAILPOINT.after()
        greeting = await agent.initialize()
        late = self._context.tools is None or entry.runtime.kind == "tmux" or entry.tools_wait <= 0
        (self._connects_late.add if late or greeting.connects_late else self._connects_late.discard)(conversation_id)
        if entry.login is not None and entry.login in greeting.login_methods:
            await agent.log_in(entry.login)
        return agent, greeting

    def _estimate(self, conversation_id: str, input_tokens: int, output_tokens: int) -> float | None:
        """What tokens cost by the price of the model; None if that is unknown, or the agent reports costs."""
        state = self._state(conversation_id)
        wanted = state.options.get("model") or state.model or self._model(conversation_id)
        price = None if state.priced else find_price(wanted, self._context.prices)
        return price.cost(input_tokens, output_tokens) if price is not None else None

    def _next_strategy(
        self,
        conversation_id: str,
        greeting: AgentInfo,
        failed: Sequence[tuple[RecoveryStrategy, int | None]],
        *,
        has_history: bool,
    ) -> RecoveryStrategy | None:
        state = self._state(conversation_id)
        proven = self._context.proven.get(state.agent or "", {})
        rungs = recovery_strategies(
            None if state.blank else state.token,
            resume=Capability(greeting.can_resume, proven.get("resume")),
            load=Capability(greeting.can_load, proven.get("load")),
            is_alive=False,
            has_history=has_history,
            can_fork=state.fork_source is not None and greeting.can_fork and greeting.can_load,
        )
        return next_strategy(rungs, [strategy for strategy, _ in failed])

    async def _try_strategy(
        self,
        conversation_id: str,
        agent: AgentConnection,
        greeting: AgentInfo,
        strategy: RecoveryStrategy,
        *,
        has_history: bool,
    ) -> AgentSession:
        """Restore by one strategy.

        The agent's own session counts only if there is evidence that it is the requested one. Some agents answer a
        request for an unknown session with a new one. A replay shows that; without one, the agent's own list of
        sessions does, before the request.
        """
        state, servers = self._state(conversation_id), self._mcp_servers(conversation_id)
        token = state.token or ""
        if is_adopted(state) and greeting.can_fork and strategy in _OWN_SESSION:
            forked = await fork_adopted(agent, greeting, token, servers)
            if forked is not None:
                return forked
        match strategy:
            case RecoveryStrategy.FORK:
                assert state.fork_source is not None, "only then it is a strategy"
                return await fork_at_message(agent, state.fork_source, servers)
            case RecoveryStrategy.RESUME:
                proven = self._context.proven.get(state.agent or "", {}).get("resume", False)
                await require_known_session(agent, greeting, token, proven=proven)
                opened = await agent.resume_session(token, servers)
            case RecoveryStrategy.LOAD:
                opened = await agent.load_session(token, servers)
                if has_history and not opened.replayed and not opened.foreign_updates:
                    raise AgentRefused(strategy, 0, "it answered without replaying the conversation", None)
            case _:
                return await agent.new_session(servers)
        if opened.foreign_updates and not opened.replayed:
            raise AgentRefused(strategy, 0, "it opened another session instead", None)
        return opened

    async def _record_attached(
        self,
        conversation_id: str,
        agent: AgentConnection,
        opened: AgentSession,
        greeting: AgentInfo,
        strategy: RecoveryStrategy,
        stack: AsyncExitStack,
    ) -> LiveAgent:
        state = self._state(conversation_id)
        notice = _NOTICES[strategy] if state.started or is_adopted(state) else None
        if is_adopted(state) and strategy in _OWN_SESSION and opened.session_id != state.token:
            notice = _FORKED_NOTICE
        events: list[Event] = []
        if opened.session_id != state.token:
            events.append(ConversationTokenStored(conversation=conversation_id, token=opened.session_id))
        identity = agent.tree.identity
        runtime = self._runtime(conversation_id, find_agent(state.agent or "", self._context.agents))
        container = await self._container_id(conversation_id, runtime) if runtime.kind == "container" else None
        events.append(
            ConversationAttached(
                conversation=conversation_id,
                rung=strategy,
                notice=notice,
                pid=identity.pid,
                start_time=identity.start_time,
                boot_id=identity.boot_id,
                program=greeting.program,
                version=greeting.version,
                runtime=runtime.kind,
                container=container,
                model=next((model.value for model in opened.models if model.is_current), None)
                or self._model(conversation_id),
            )
        )
        events.append(
            AgentSpawned(
                name=conversation_agent_name(state),
                role=state.role,
                task=state.task,
                branch=worktree_names(self._context.run_id, state.task).branch,
                pid=identity.pid,
            )
        )
        events += conversation_change(self._run.state, conversation_id, ConversationState.WAITING)
        await self._run.append(*await self._choose_model(conversation_id, agent, opened), *events)
        agent.recorder.set_prior_cost(self._state(conversation_id).dollars)
        return LiveAgent(agent, opened.session_id, stack, opened, agent.cwd, greeting.accepts)

    async def _choose_model(self, conversation_id: str, agent: AgentConnection, opened: AgentSession) -> list[Event]:
        """Set the model of the role; adds a remark if the agent does not offer it."""
        model = self._model(conversation_id)
        entry = find_agent(self._state(conversation_id).agent or "", self._context.agents)
        if model is None or entry.model_variable:
            return []
        found = find_model(opened, model)
        if found is None:
            problem = f"offers no model {model!r}; it offers {offered_models(opened)}"
            return [WarningLogged(message=f"the agent of {conversation_id} {problem}")]
        try:
            if not found.is_current:
                await choose_model(agent, opened, found)
        except AgentRefused as error:
            return [WarningLogged(message=f"the agent of {conversation_id} did not set the model {model!r}: {error}")]
        return []

    def _model(self, conversation_id: str) -> str | None:
        """Return the model that is chosen for its role."""
        models = self._context.models
        return models.get(self._state(conversation_id).role or ANY_ROLE, models.get(ANY_ROLE))

    def _model_environment(self, conversation_id: str, entry: AgentDefinition) -> dict[str, str]:
        """For an agent that must know its model before it starts."""
        model = self._model(conversation_id)
        return {entry.model_variable: model} if entry.model_variable and model is not None else {}

    async def _container_id(self, conversation_id: str, runtime: Runtime) -> str | None:
        """Return its agent's container; None if the engine does not answer: the labels still find it."""
        from holdfast.agents.runtimes.container import find_container  # noqa: PLC0415 - few agents are in one

        with suppress(HoldfastError):
            return await asyncio.to_thread(find_container, runtime, self._mark(conversation_id))
        return None

    def _stderr_path(self, conversation_id: str) -> str:
        """Return the file for an agent's stderr. It may contain anything, so its content is not passed on."""
        return os.path.join(self._context.folder, "agents", f"{conversation_id}.stderr")

    def _state(self, conversation_id: str) -> Conversation:
        return self._run.state.conversations[conversation_id]

    async def _append_and_notify(self, *events: Event) -> None:
        await self._run.append(*events)
        for event in events:
            self._context.on_event(event)

    def _runtime(self, conversation_id: str, entry: AgentDefinition) -> Runtime:
        """Return the runtime of its agent, which must be able to report."""
        chosen, folder = self._context.runtimes, self._context.folder
        runtime = choose_runtime(chosen, self._state(conversation_id).role, entry.runtime)
        if self._context.tools is None:
            return runtime
        return structs.replace(runtime, readable=(*runtime.readable, folder))

    def _tmux_slot(self, conversation_id: str, entry: AgentDefinition) -> TmuxSlot | None:
        if entry.runtime.kind != "tmux":
            return None
        if self._context.tools is None:
            raise BadInput("an agent in tmux answers through its reporting tools, and it has none")
        if self._context.spools_reports:
            raise BadInput("an agent in tmux works only on runs that are kept in files; choose another runtime")
        return tmux_slot(
            self._context.folder, self._context.run_id, conversation_id, self._state(conversation_id), entry
        )

    def _mcp_servers(self, conversation_id: str) -> list[StdioMcpServer]:
        if self._context.tools is None:
            return []
        listed = self._listed(conversation_id)
        server: Sequence[str] = (
            *self._context.tools(conversation_id, self._state(conversation_id)),
            "--listed",
            listed,
        )
        if conversation_id in self._report_files:
            server = (*server, "--reports", self._report_files[conversation_id])
        if self._context.relay is not None and conversation_id not in self._confined:
            server = self._context.relay(conversation_id, listed, server)
        command, *arguments = server
        marks = {RUN_MARK: self._context.run_id, CONVERSATION_MARK: self._mark(conversation_id)}
        environment = tuple(EnvironmentVariable(name=mark, value=value) for mark, value in marks.items())
        return [StdioMcpServer(name=OWN_SERVER, command=command, args=tuple(arguments), env=environment)]

    def _listed(self, name: str) -> str:
        """Return the file in which its MCP server records that it listed the tools.

        It is the only file that a confined agent can write.
        """
        return self._report_files.get(name) or os.path.join(self._context.folder, "agents", f"{name}.tools")

    def _mark(self, conversation_id: str) -> str:
        return f"{self._context.run_id}/{conversation_id}"
