"""The ladder back into a conversation: an agent is started, and its session found again by the best way that holds.

Each rung has a deadline. One that does not hold is recorded, the next is tried once, and whoever looks is told by which
the conversation came back.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from typing import NamedTuple

from acp.schema import EnvVariable, McpServerStdio
from msgspec import structs

from holdfast.agents.acp.driver import (
    Agent,
    AgentDied,
    AgentRefused,
    AgentSilent,
    Deadlines,
    Greeting,
    Opened,
    speaking,
)
from holdfast.agents.acp.recorder import Scribe
from holdfast.agents.launch import ANY_ROLE, Berth, Launch, Runtime, choose_runtime
from holdfast.agents.process.tree import see_dead, seen_through
from holdfast.agents.registry import Entry, environment_for, find_agent, missing
from holdfast.agents.runtimes.container import container_of
from holdfast.core.conversation.own_tools import SERVER as OWN_SERVER
from holdfast.core.conversation.states import (
    NATIVE,
    NOT_NOW,
    UNVERIFIED,
    Ability,
    Phase,
    Rung,
    is_rejection,
    ladder,
    must_go,
    next_rung,
)
from holdfast.core.decide.attribution import agent_in
from holdfast.core.events import Event
from holdfast.core.events.agent import AgentSpawned
from holdfast.core.events.conversation import (
    ConversationAttached,
    ConversationDetached,
    ConversationStateChanged,
    ConversationTokenStored,
    RungFailed,
)
from holdfast.core.events.issue import WarningLogged
from holdfast.core.state import Conversation
from holdfast.core.work.names import place_of
from holdfast.engine.agents.credentials import auth_advice, complaints_since, size_of
from holdfast.engine.agents.permissions import Desk
from holdfast.engine.agents.tmux import berth
from holdfast.engine.agents.tool_listing import forget_listed, is_listed, wait_until_listed
from holdfast.engine.agents.transcript import history_of
from holdfast.engine.containers import remember
from holdfast.engine.workspace.effects import TETHER
from holdfast.leaf.errors import BadInput, Denied, HoldfastError
from holdfast.leaf.failpoints import around
from holdfast.leaf.process.env_markers import CONVERSATION_MARK, RUN_MARK
from holdfast.leaf.process.load import slowness
from holdfast.store.base import Log
from holdfast.store.run import OwnedRun

Failed = (AgentDied, AgentSilent, AgentRefused)
_START = "start"  # no rung: before it can be asked anything, an agent has to be there

_CRASH = around("agent.spawn")

Hint = Callable[[str, str, str], None]

_NOTICES = {
    Rung.REATTACH: None,
    Rung.RESUME: "resumed the agent's own session (session/resume)",
    Rung.LOAD: "resumed the agent's own session (session/load)",
    Rung.INJECT: "started a new agent session; a digest of the conversation goes with the next message",
    Rung.FRESH: "started a new agent session; nothing had been said in the one before",
}


class AgentUnavailable(HoldfastError):
    """No rung held, not even a fresh start. The conversation waits; nothing of it is lost."""


async def _nothing(_: str) -> None:
    pass


class Ground(NamedTuple):
    """What conversations stand on: the run's folder, its log, and how agents are started and asked."""

    run_id: str
    folder: str
    log: Log
    agents: Mapping[str, Entry] = {}
    proven: Mapping[str, Mapping[str, bool]] = {}
    deadlines: Deadlines = Deadlines()
    environment: Mapping[str, str] = {}
    tools: Callable[[str, Conversation], Sequence[str]] | None = None
    must_report: Callable[[Conversation], bool] = lambda _: False  # whether a turn without a report comes to nothing
    runtimes: Mapping[str, Runtime] = {}  # by role; else what the agent's entry says, else that of `ANY_ROLE`
    heard: Callable[[Event], None] = lambda _: None  # called with what agents told, once it is in the log
    turn_begins: Callable[[str], Awaitable[None]] = _nothing  # awaited before a conversation's prompt is sent,
    turn_ended: Callable[[str], Awaitable[None]] = _nothing  # and when its turn is over
    models: Mapping[str, str] = {}  # by role, where the agent is not to choose itself


class Live(NamedTuple):
    """An agent that listens, and its session."""

    agent: Agent
    session: str
    stack: AsyncExitStack


class Ladder:
    """The ways back into the conversations of one run."""

    def __init__(self, run: OwnedRun, ground: Ground, desk: Desk, hint: Hint) -> None:
        self._run = run
        self._ground = ground
        self._desk = desk
        self._hint = hint
        self._reports: dict[str, str] = {}  # the files to which confined agents report
        self._connects_late: set[str] = set()  # agents that ask for the tools when they need them

    async def climb(self, name: str, cwd: str) -> Live:
        state = self._state(name)
        entry = find_agent(state.agent or "", self._ground.agents)
        must_go(name, state.state, Phase.STARTING)
        await self._run.append(ConversationStateChanged(conversation=name, state=Phase.STARTING))
        stack = AsyncExitStack()
        said = self._complaints(name)
        before = size_of(said)
        try:
            live = await self._climbed(name, entry, cwd, stack)
            await self._wait_for_tools(name, entry, live)
            return live
        except Failed as error:
            await self._given_up(name, stack, str(error))
            words = f"; what it complained of is in {said}" if size_of(said) else ""
            code = error.code if isinstance(error, AgentRefused) else None
            stderr = complaints_since(said, before) if code is None else ""
            words += auth_advice(state.agent, self._ground.agents, str(error), code=code, stderr=stderr)
            raise AgentUnavailable(f"{state.agent} cannot be spoken to: {error}{words}") from error
        except HoldfastError as error:
            await self._given_up(name, stack, str(error))
            raise
        except asyncio.CancelledError:
            await seen_through(self._given_up(name, stack, "the sitting let go of it"))
            raise
        except BaseException:
            await stack.aclose()
            raise

    def lacks_tools(self, name: str) -> bool:
        """Whether a prompt would find its agent without Holdfast's tools."""
        return name not in self._connects_late and not is_listed(self._listed(name))

    async def _wait_for_tools(self, name: str, entry: Entry, live: Live) -> None:
        """Until the agent has them, or its time for that is over: then it is prompted, and what comes of it is seen."""
        seconds = entry.tools_wait * slowness()
        if not self.lacks_tools(name):
            return
        if not await wait_until_listed(self._listed(name), seconds, live.agent.tree.death()):
            agent = self._state(name).agent
            message = (
                f"{agent} did not ask for Holdfast's tools within {seconds:.0f} s, and is prompted without them; "
                f"agents.{agent}.tools_wait sets how long to wait"
            )
            await self._run.append(WarningLogged(message=message))

    async def see_dead(self, name: str) -> None:
        """Nothing of an agent that was there before is alive; `Denied` while something is."""
        await see_dead(self._mark(name))

    async def _climbed(self, name: str, entry: Entry, cwd: str, stack: AsyncExitStack) -> Live:
        history = bool(await history_of(self._ground.log, name))
        tried: list[Rung] = []
        rejected = False
        agent, greeting = await self._started_somehow(name, entry, cwd, stack)
        while True:
            rung = self._next_rung(name, greeting, tried, history=history)
            assert rung is not None, "the last one's failure is raised"
            try:
                opened = await self._try(name, agent, greeting, rung, history=history)
                return await self._attached(name, agent, opened, greeting, rung, stack)
            except Failed as error:
                tried.append(rung)
                code = error.code if isinstance(error, AgentRefused) else None
                rejected = rejected or is_rejection(rung, code)
                after = self._next_rung(name, greeting, tried, history=history)
                await self._fallen(name, rung, error, lost=rejected and after not in NATIVE)
                withheld = rung in NATIVE and code == NOT_NOW  # a new session would take its place for good
                if after is None or (withheld and after not in NATIVE):
                    raise
                if code is None or after in tried:  # it may be dead or stuck: the next rung gets a new one
                    await stack.aclose()
                    agent, greeting = await self._started_somehow(name, entry, cwd, stack)

    async def _fallen(self, name: str, rung: Rung, error: Exception, *, lost: bool) -> None:
        """`lost` when the agent's own session is: nobody asks for it again."""
        events: list[Event] = [RungFailed(conversation=name, rung=rung, reason=str(error))]
        if lost and self._state(name).token is not None:
            events.append(ConversationTokenStored(conversation=name, token=None))
        await self._run.append(*events)

    async def _given_up(self, name: str, stack: AsyncExitStack, reason: str) -> None:
        alive = await hang_up(stack)
        attached = self._state(name).pid is not None
        await self._run.append(
            *([ConversationDetached(conversation=name, reason=reason)] if attached else []),
            ConversationStateChanged(conversation=name, state=Phase.WAITING, reason=reason),
        )
        if alive is not None:
            raise alive

    async def _started_somehow(
        self, name: str, entry: Entry, cwd: str, stack: AsyncExitStack
    ) -> tuple[Agent, Greeting]:
        """An agent that does not come up is started once more."""
        try:
            return await self._started(name, entry, cwd, stack)
        except (AgentDied, AgentSilent) as error:
            await self._run.append(RungFailed(conversation=name, rung=_START, reason=str(error)))
            await stack.aclose()
            return await self._started(name, entry, cwd, stack)

    async def _started(self, name: str, entry: Entry, cwd: str, stack: AsyncExitStack) -> tuple[Agent, Greeting]:
        entry = structs.replace(entry, runtime=self._runtime(name, entry))
        if not entry.found():
            raise BadInput(missing(entry))
        remember(self._ground.folder, entry.runtime)
        complaints = self._complaints(name)
        os.makedirs(os.path.dirname(complaints), exist_ok=True)
        self._reports.pop(name, None)
        forget_listed(self._listed(name))
        if entry.runtime.is_confined and self._ground.tools is not None:
            self._reports[name] = await self._run.report_file(name)
        launch = Launch(
            command=entry.command,
            cwd=cwd,
            environment={
                **self._ground.environment,
                **environment_for(entry),
                RUN_MARK: self._ground.run_id,
            },
            mark=self._mark(name),
            stderr=complaints,
            tether=os.path.join(self._ground.folder, TETHER),
            runtime=entry.runtime,
            reads=entry.reads,
            berth=self._berth(name, entry),
            reports=self._reports.get(name),
        )
        scribe = Scribe(
            name,
            self._stored,
            lambda speaker, text: self._hint(name, speaker, text),
            task=self._state(name).task,
        )
        scribe.redactor = self._run.redactor
        host = self._desk.for_agent(name, cwd)
        _CRASH.before()
        agent = await stack.enter_async_context(speaking(launch, scribe, host, self._ground.deadlines))
        _CRASH.after()
        greeting = await agent.greet()
        late = self._ground.tools is None or entry.runtime.kind == "tmux" or entry.tools_wait <= 0
        (self._connects_late.add if late or greeting.connects_late else self._connects_late.discard)(name)
        if entry.login is not None and entry.login in greeting.logins:
            await agent.log_in(entry.login)
        return agent, greeting

    def _next_rung(self, name: str, greeting: Greeting, tried: Sequence[Rung], *, history: bool) -> Rung | None:
        state = self._state(name)
        proven = self._ground.proven.get(state.agent or "", {})
        rungs = ladder(
            None if state.blank else state.token,
            resume=Ability(greeting.resume, proven.get("resume")),
            load=Ability(greeting.load, proven.get("load")),
            alive=False,
            history=history,
        )
        return next_rung(rungs, tried)

    async def _try(self, name: str, agent: Agent, greeting: Greeting, rung: Rung, *, history: bool) -> Opened:
        """The agent's own session counts only when something shows that it is the one that was asked for.

        Some agents answer a session that they do not know with a new one. By a replay that shows; without one, by the
        agent's own list of sessions, before it is asked.
        """
        state, servers = self._state(name), self._servers(name)
        token = state.token or ""
        match rung:
            case Rung.RESUME:
                proven = self._ground.proven.get(state.agent or "", {}).get("resume", False)
                await _must_know(agent, greeting, token, proven=proven)
                opened = await agent.resume(token, servers)
            case Rung.LOAD:
                opened = await agent.load(token, servers)
                if history and not opened.replayed and not opened.elsewhere:
                    raise AgentRefused(rung, 0, "it answered, but told nothing of what was said", None)
            case _:
                return await agent.new(servers)
        if opened.elsewhere and not opened.replayed:
            raise AgentRefused(rung, 0, "it answered, but opened another session", None)
        return opened

    async def _attached(
        self, name: str, agent: Agent, opened: Opened, greeting: Greeting, rung: Rung, stack: AsyncExitStack
    ) -> Live:
        state = self._state(name)
        first = not state.started
        events: list[Event] = []
        if opened.session != state.token:
            events.append(ConversationTokenStored(conversation=name, token=opened.session))
        identity = agent.tree.identity
        runtime = self._runtime(name, find_agent(state.agent or "", self._ground.agents))
        container = await self._container(name, runtime) if runtime.kind == "container" else None
        events.append(
            ConversationAttached(
                conversation=name,
                rung=rung,
                notice=None if first else _NOTICES[rung],
                pid=identity.pid,
                start_time=identity.start_time,
                boot_id=identity.boot_id,
                program=greeting.program,
                version=greeting.version,
                runtime=runtime.kind,
                container=container,
            )
        )
        events.append(
            AgentSpawned(
                name=agent_in(state),
                role=state.role,
                task=state.task,
                branch=place_of(self._ground.run_id, state.task).branch,
                pid=identity.pid,
            )
        )
        events.append(ConversationStateChanged(conversation=name, state=Phase.WAITING))
        await self._run.append(*await self._model_chosen(name, agent, opened), *events)
        agent.scribe.carry_on(self._state(name).dollars)
        return Live(agent, opened.session, stack)

    async def _model_chosen(self, name: str, agent: Agent, opened: Opened) -> list[Event]:
        """Set the model that its role is to have; a remark, when the agent does not offer it."""
        wanted = self._ground.models.get(self._state(name).role or ANY_ROLE)
        if wanted is None:
            return []
        fits = [one for one in opened.models if wanted.casefold() in (one.value.casefold(), one.name.casefold())]
        if not fits:
            offered = ", ".join(one.value for one in opened.models) or "none to choose from"
            return [WarningLogged(message=f"the agent of {name} offers no model {wanted!r}; it offers {offered}")]
        if not fits[0].current:
            await agent.set_option(opened.session, fits[0].option, fits[0].value)
        return []

    async def _container(self, name: str, runtime: Runtime) -> str | None:
        """Which container its agent is in; None when the engine does not tell: its labels find it all the same."""
        with suppress(HoldfastError):
            return await asyncio.to_thread(container_of, runtime, self._mark(name))
        return None

    def _complaints(self, name: str) -> str:
        """Where an agent's stderr goes. It may hold anything, so nothing of it is told further."""
        return os.path.join(self._ground.folder, "agents", f"{name}.stderr")

    def _state(self, name: str) -> Conversation:
        return self._run.state.conversations[name]

    async def _stored(self, *events: Event) -> None:
        await self._run.append(*events)
        for event in events:
            self._ground.heard(event)

    def _runtime(self, name: str, entry: Entry) -> Runtime:
        """What its agent runs in, which must let it report to us."""
        chosen, folder = self._ground.runtimes, self._ground.folder
        runtime = choose_runtime(chosen, self._state(name).role, entry.runtime)
        if self._ground.tools is None:
            return runtime
        return structs.replace(runtime, readable=(*runtime.readable, folder))

    def _berth(self, name: str, entry: Entry) -> Berth | None:
        if entry.runtime.kind != "tmux":
            return None
        if self._ground.tools is None:
            raise BadInput("an agent in tmux answers by its reports; without the tools for that it cannot work there")
        return berth(self._ground.folder, self._ground.run_id, name, self._state(name), entry)

    def _servers(self, name: str) -> list[McpServerStdio]:
        if self._ground.tools is None:
            return []
        command, *arguments = self._ground.tools(name, self._state(name))
        if name in self._reports:
            arguments += ["--reports", self._reports[name]]
        arguments += ["--listed", self._listed(name)]
        marks = {RUN_MARK: self._ground.run_id, CONVERSATION_MARK: self._mark(name)}
        environment = [EnvVariable(name=mark, value=value) for mark, value in marks.items()]
        return [McpServerStdio(name=OWN_SERVER, command=command, args=arguments, env=environment)]

    def _listed(self, name: str) -> str:
        """Where its MCP server writes that it has listed the tools: the only file that a confined one can write."""
        return self._reports.get(name) or os.path.join(self._ground.folder, "agents", f"{name}.tools")

    def _mark(self, name: str) -> str:
        return f"{self._ground.run_id}/{name}"


async def hang_up(stack: AsyncExitStack) -> Denied | None:
    """What is to be said when something of an agent will not die: once the log knows that we are done with it."""
    try:
        await stack.aclose()
    except Denied as error:
        return error
    return None


async def _must_know(agent: Agent, greeting: Greeting, token: str, *, proven: bool) -> None:
    """That the agent has the session, by its own list; without a list, a probe must have shown that it remembers."""
    listed = await _lists(agent, token) if greeting.sessions else None
    if listed is False:
        raise AgentRefused(Rung.RESUME, 0, "it does not know the session: its list of sessions lacks it", None)
    if listed is None and not proven:
        told = "nothing would show whether it is the same session: it lists none, and no probe proved it"
        raise AgentRefused(Rung.RESUME, UNVERIFIED, told, None)


async def _lists(agent: Agent, token: str) -> bool | None:
    """None when it refuses to list its sessions."""
    try:
        return await agent.knows(token)
    except AgentRefused:
        return None
