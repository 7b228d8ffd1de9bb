"""Measures what an agent can do by killing it and restoring it. Recovery strategies are chosen from the results."""

import asyncio
import os
import secrets
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from typing import Literal, TypeVar

from holdfast.agents.acp.client import PermissionQuestion
from holdfast.agents.acp.driver import (
    AgentConnection,
    AgentExited,
    AgentInfo,
    AgentRefused,
    AgentSession,
    AgentSilent,
    Deadlines,
    PromptResult,
    connect_agent,
)
from holdfast.agents.acp.recorder import EventRecorder
from holdfast.agents.launch import Launch
from holdfast.agents.registry import AgentDefinition, environment_for, find_agent, install_advice
from holdfast.core.conversation.states import RecoveryStrategy
from holdfast.core.events import Event
from holdfast.core.events.budget import UsageRecorded
from holdfast.core.events.conversation import MessageRecorded
from holdfast.engine.agents.matrix import AgentMeasurement, best_strategy, save_measurement
from holdfast.engine.home import Home
from holdfast.leaf.clock import now
from holdfast.leaf.errors import BadInput

T = TypeVar("T")
ReportStep = Callable[[str], None]

_DEADLINES = Deadlines(start=60, session=60, silence=180)
_AGENT_ERRORS = (AgentExited, AgentSilent, AgentRefused)


async def probe(agent_name: str, user_agents: Mapping[str, AgentDefinition], report: ReportStep) -> AgentMeasurement:
    """Start the agent, send it a word, kill it, restore it, and ask for the word.

    Once per recovery strategy it offers.
    """
    entry = find_agent(agent_name, user_agents)
    if not entry.is_installed():
        raise BadInput(install_advice(entry))
    with tempfile.TemporaryDirectory(prefix="holdfast-probe-") as folder:
        return await _Probe(agent_name, entry, folder, report).measure()


class _Probe:
    def __init__(self, agent_name: str, entry: AgentDefinition, folder: str, report: ReportStep) -> None:
        self._agent_name = agent_name
        self._entry = entry
        self._cwd = os.path.join(folder, "work")
        self._stderr = os.path.join(folder, "stderr")
        self._report = report
        self._notes: list[str] = []
        self._replies: list[str] = []
        self._first_output = asyncio.Event()
        self._memory_mb: int | None = None
        self._replayed: int | None = None
        self._lists_sessions: bool | None = None
        self._can_fork: bool | None = None
        self._reports_cost = False
        os.mkdir(self._cwd)

    async def measure(self) -> AgentMeasurement:
        started = time.monotonic()
        async with self._start_agent() as agent:
            greeting = await agent.initialize()
            duration_ms = int((time.monotonic() - started) * 1000)
            self._report(
                f"{greeting.program or self._agent_name} {greeting.version or ''} answered in {duration_ms} ms"
            )
            unknown = await self._unknown_session_error(agent, greeting)
        showed = {
            strategy: await self._kill_and_restore(strategy, greeting)
            for strategy, offered in (
                (RecoveryStrategy.LOAD, greeting.can_load),
                (RecoveryStrategy.RESUME, greeting.can_resume),
            )
            if offered
        }
        if not showed:
            await self._kill_and_restore(None, greeting)
        best = best_strategy(showed.get(RecoveryStrategy.LOAD), showed.get(RecoveryStrategy.RESUME))
        after_cut = await self._interrupt_and_restore(best) if showed.get(best) else None
        return AgentMeasurement(
            agent=self._agent_name,
            when=now(),
            program=greeting.program,
            version=greeting.version,
            start_ms=duration_ms,
            memory_mb=self._memory_mb,
            turn=self._memory_mb is not None,
            load=showed.get(RecoveryStrategy.LOAD),
            resume=showed.get(RecoveryStrategy.RESUME),
            fork=self._can_fork,
            sessions=self._lists_sessions,
            cost=self._reports_cost if self._memory_mb is not None else None,
            after_cut=after_cut,
            replayed=self._replayed,
            unknown_session=unknown,
            notes=self._notes,
        )

    async def _kill_and_restore(self, strategy: RecoveryStrategy | None, greeting: AgentInfo) -> bool | None:
        """Return whether the agent was restored this way and remembered; None if there was no turn to remember."""
        word = _random_word()
        async with self._start_agent() as agent:
            session = await self._open_session_with_word(agent, word)
            if session is None:
                return None
            self._memory_mb = agent.tree.memory_bytes() // 1_000_000
            self._report("a turn worked; killing the agent")
            await agent.tree.kill()
        if strategy is None:
            return None
        async with self._start_agent() as agent:
            back = await self._restore_session(agent, session, strategy)
            if back is None:
                return False
            remembers = word in await self._ask_for_words(agent, back)
            self._report(f"{strategy}: it {'remembers' if remembers else 'does not remember'}")
            if strategy is RecoveryStrategy.LOAD:
                self._replayed = back.replayed
            if greeting.can_list_sessions:
                self._lists_sessions = await self._attempt("session/list", agent.has_session(session)) or False
            if greeting.can_fork and remembers:
                forked = await self._attempt("session/fork", agent.fork_session(session))
                self._can_fork = forked is not None and word in await self._ask_for_words(agent, forked)
                self._report(f"session/fork: it {'remembers' if self._can_fork else 'does not remember'}")
        return remembers

    async def _interrupt_and_restore(
        self, strategy: RecoveryStrategy
    ) -> Literal["all", "earlier turns", "nothing"] | None:
        """Measure what the agent remembers after a kill in the middle of its second turn."""
        first, second = _random_word(), _random_word()
        async with self._start_agent() as agent:
            session = await self._open_session_with_word(agent, first)
            if session is None:
                return None
            self._first_output.clear()
            text = f"Remember this word too: {second}. Then write a story of a thousand words."
            turn = asyncio.ensure_future(agent.prompt(session, text))
            first_output = asyncio.ensure_future(self._first_output.wait())
            await asyncio.wait({turn, first_output}, return_when=asyncio.FIRST_COMPLETED)
            first_output.cancel()
            whole = turn.done()
            await agent.tree.kill()
            with suppress(*_AGENT_ERRORS):
                await turn
            if whole:
                self._notes.append("the turn was over before it could be interrupted")
                return None
            self._report("killed it in the middle of a turn")
        async with self._start_agent() as agent:
            back = await self._restore_session(agent, session, strategy)
            answer = await self._ask_for_words(agent, back) if back is not None else ""
        knows = (first in answer, second in answer)
        self._report(f"of two words, it remembers {sum(knows)}")
        return "all" if all(knows) else "earlier turns" if knows[0] else "nothing"

    async def _open_session_with_word(self, agent: AgentConnection, word: str) -> str | None:
        """Open a new session and send the word to remember."""
        await agent.initialize()
        opened = await self._attempt("session/new", agent.new_session())
        if opened is None:
            return None
        answer = await self._run_turn(
            agent, opened.session_id, f"Remember this word: {word}. Answer with OK and nothing else."
        )
        return opened.session_id if answer is not None else None

    async def _restore_session(
        self, agent: AgentConnection, session: str, strategy: RecoveryStrategy
    ) -> AgentSession | None:
        await agent.initialize()
        if self._entry.by_the_minute:
            self._report("its sessions are named by the minute: waiting for the next one")
            await asyncio.sleep(60 - time.time() % 60)
        call = agent.load_session(session) if strategy is RecoveryStrategy.LOAD else agent.resume_session(session)
        return await self._attempt(strategy, call)

    async def _ask_for_words(self, agent: AgentConnection, opened: AgentSession) -> str:
        prompt = "Which words did I ask you to remember? Answer with them alone."
        return await self._run_turn(agent, opened.session_id, prompt) or ""

    async def _run_turn(self, agent: AgentConnection, session: str, text: str) -> str | None:
        self._replies.clear()
        ended: PromptResult | None = await self._attempt("a turn", agent.prompt(session, text))
        await agent.recorder.flush()
        return "".join(self._replies) if ended is not None else None

    async def _attempt(self, step: str, call: Awaitable[T]) -> T | None:
        try:
            return await call
        except _AGENT_ERRORS as error:
            self._notes.append(f"{step}: {error}")
            self._report(f"{step}: {error}")
            return None

    async def _unknown_session_error(self, agent: AgentConnection, greeting: AgentInfo) -> str | None:
        """Return the error with which the agent reports an unknown session."""
        if not greeting.can_load:
            return None
        try:
            await agent.load_session("00000000-0000-4000-8000-000000000000")
        except AgentRefused as error:
            return str(error.code)
        except (AgentSilent, AgentExited) as error:
            return str(error)
        return "no error"

    def _start_agent(self) -> AbstractAsyncContextManager[AgentConnection]:
        recorder = EventRecorder("probe", self._collect, lambda *_: self._first_output.set())
        launch = Launch(
            command=self._entry.command,
            cwd=self._cwd,
            environment=environment_for(self._entry),
            mark=f"probe/{secrets.token_hex(6)}",
            stderr=self._stderr,
            runtime=self._entry.runtime,
            reads=self._entry.reads,
        )
        return connect_agent(launch, recorder, _AllowEverything(), _DEADLINES)

    async def _collect(self, *events: Event) -> None:
        self._replies += [
            event.text for event in events if isinstance(event, MessageRecorded) and event.speaker == "agent"
        ]
        self._reports_cost = self._reports_cost or any(
            isinstance(event, UsageRecorded) and event.priced for event in events
        )
        await asyncio.sleep(0)


def _random_word() -> str:
    return f"kelp-{secrets.token_hex(3)}"


class _AllowEverything:
    """Allows every tool call: the folder is empty and temporary."""

    async def permit(self, request: PermissionQuestion) -> str | None:
        return next((option[0] for option in request.options if option[2].startswith("allow")), None)

    async def veto(self, *_: object) -> str | None:
        return None


async def probe_agent(
    home: Home, agent_name: str, report: ReportStep, user_agents: Mapping[str, AgentDefinition] | None = None
) -> AgentMeasurement:
    """Probe an agent and store the result."""
    row = await probe(agent_name, user_agents or {}, report)
    aside = save_measurement(home, row)
    if aside is not None:
        report(f"what was measured before could not be read: it is kept as {aside}, and a new table was created")
    return row
