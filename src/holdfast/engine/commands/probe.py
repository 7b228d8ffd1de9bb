"""What an agent really can do, found out by killing it: the row of the matrix that the ladder trusts."""

import asyncio
import os
import secrets
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from typing import Literal, TypeVar

from acp.schema import TextContentBlock

from holdfast.agents.acp.client import Asked
from holdfast.agents.acp.driver import (
    Agent,
    AgentDied,
    AgentRefused,
    AgentSilent,
    Deadlines,
    Ended,
    Greeting,
    Opened,
    speaking,
)
from holdfast.agents.acp.recorder import Scribe
from holdfast.agents.launch import Launch
from holdfast.agents.registry import Entry, environment_for, find_agent, missing
from holdfast.core.conversation.states import Rung
from holdfast.core.events import Event
from holdfast.core.events.budget import UsageRecorded
from holdfast.core.events.conversation import MessageRecorded
from holdfast.engine.agents.matrix import Row, best_rung, keep
from holdfast.leaf.clock import now
from holdfast.leaf.errors import BadInput

T = TypeVar("T")
Say = Callable[[str], None]

_DEADLINES = Deadlines(start=60, session=60, silence=180)
_FAILED = (AgentDied, AgentSilent, AgentRefused)


async def probe(name: str, own: Mapping[str, Entry], say: Say) -> Row:
    """Start it, talk to it, kill it, bring it back, and ask what it remembers; once for each way it offers."""
    entry = find_agent(name, own)
    if not entry.found():
        raise BadInput(missing(entry))
    with tempfile.TemporaryDirectory(prefix="holdfast-probe-") as folder:
        return await _Probe(name, entry, folder, say).row()


class _Probe:
    def __init__(self, name: str, entry: Entry, folder: str, say: Say) -> None:
        self._name = name
        self._entry = entry
        self._cwd = os.path.join(folder, "work")
        self._stderr = os.path.join(folder, "stderr")
        self._say = say
        self._notes: list[str] = []
        self._said: list[str] = []
        self._speaks = asyncio.Event()
        self._memory: int | None = None
        self._replayed: int | None = None
        self._lists: bool | None = None
        self._forks: bool | None = None
        self._priced = False
        os.mkdir(self._cwd)

    async def row(self) -> Row:
        began = time.monotonic()
        async with self._agent() as agent:
            greeting = await agent.greet()
            took = int((time.monotonic() - began) * 1000)
            self._say(f"{greeting.program or self._name} {greeting.version or ''} answered in {took} ms")
            unknown = await self._refusal(agent, greeting)
        showed = {
            rung: await self._killed_and_back(rung, greeting)
            for rung, offered in ((Rung.LOAD, greeting.load), (Rung.RESUME, greeting.resume))
            if offered
        }
        if not showed:
            await self._killed_and_back(None, greeting)
        best = best_rung(showed.get(Rung.LOAD), showed.get(Rung.RESUME))
        after_cut = await self._cut_off_and_back(best) if showed.get(best) else None
        return Row(
            agent=self._name,
            when=now(),
            program=greeting.program,
            version=greeting.version,
            start_ms=took,
            memory_mb=self._memory,
            turn=self._memory is not None,
            load=showed.get(Rung.LOAD),
            resume=showed.get(Rung.RESUME),
            fork=self._forks,
            sessions=self._lists,
            cost=self._priced if self._memory is not None else None,
            after_cut=after_cut,
            replayed=self._replayed,
            unknown_session=unknown,
            notes=self._notes,
        )

    async def _killed_and_back(self, rung: Rung | None, greeting: Greeting) -> bool | None:
        """Whether it came back this way, and remembered; None when there was no turn to remember."""
        word = _word()
        async with self._agent() as agent:
            session = await self._told(agent, word)
            if session is None:
                return None
            self._memory = agent.tree.memory() // 1_000_000
            self._say("a turn worked; now it is killed")
            await agent.tree.kill()
        if rung is None:
            return None
        async with self._agent() as agent:
            back = await self._brought_back(agent, session, rung)
            if back is None:
                return False
            remembers = word in await self._remembered(agent, back)
            self._say(f"{rung}: it {'remembers' if remembers else 'does not remember'}")
            if rung is Rung.LOAD:
                self._replayed = back.replayed
            if greeting.sessions:
                self._lists = await self._step("session/list", agent.knows(session)) or False
            if greeting.fork and remembers:
                forked = await self._step("session/fork", agent.fork(session))
                self._forks = forked is not None and word in await self._remembered(agent, forked)
                self._say(f"session/fork: it {'remembers' if self._forks else 'does not remember'}")
        return remembers

    async def _cut_off_and_back(self, rung: Rung) -> Literal["all", "earlier turns", "nothing"] | None:
        """What it knows after a kill in the middle of its second turn."""
        first, second = _word(), _word()
        async with self._agent() as agent:
            session = await self._told(agent, first)
            if session is None:
                return None
            self._speaks.clear()
            text = f"Remember this word too: {second}. Then write a story of a thousand words."
            turn = asyncio.ensure_future(agent.prompt(session, [TextContentBlock(type="text", text=text)]))
            speaks = asyncio.ensure_future(self._speaks.wait())
            await asyncio.wait({turn, speaks}, return_when=asyncio.FIRST_COMPLETED)
            speaks.cancel()
            whole = turn.done()
            await agent.tree.kill()
            with suppress(*_FAILED):
                await turn
            if whole:
                self._notes.append("the turn was over before it could be cut off")
                return None
            self._say("it was killed in the middle of a turn")
        async with self._agent() as agent:
            back = await self._brought_back(agent, session, rung)
            answer = await self._remembered(agent, back) if back is not None else ""
        knows = (first in answer, second in answer)
        self._say(f"of two words, it remembers {sum(knows)}")
        return "all" if all(knows) else "earlier turns" if knows[0] else "nothing"

    async def _told(self, agent: Agent, word: str) -> str | None:
        """A new session in which it was told the word."""
        await agent.greet()
        opened = await self._step("session/new", agent.new())
        if opened is None:
            return None
        answer = await self._turn(
            agent, opened.session, f"Remember this word: {word}. Answer with OK and nothing else."
        )
        return opened.session if answer is not None else None

    async def _brought_back(self, agent: Agent, session: str, rung: Rung) -> Opened | None:
        await agent.greet()
        if self._entry.by_the_minute:
            self._say("its sessions are named by the minute: waiting for the next one")
            await asyncio.sleep(60 - time.time() % 60)
        call = agent.load(session) if rung is Rung.LOAD else agent.resume(session)
        return await self._step(rung, call)

    async def _remembered(self, agent: Agent, opened: Opened) -> str:
        asked = "Which words did I ask you to remember? Answer with them alone."
        return await self._turn(agent, opened.session, asked) or ""

    async def _turn(self, agent: Agent, session: str, text: str) -> str | None:
        self._said.clear()
        ended: Ended | None = await self._step(
            "a turn", agent.prompt(session, [TextContentBlock(type="text", text=text)])
        )
        await agent.scribe.flush()
        return "".join(self._said) if ended is not None else None

    async def _step(self, what: str, call: Awaitable[T]) -> T | None:
        try:
            return await call
        except _FAILED as error:
            self._notes.append(f"{what}: {error}")
            self._say(f"{what}: {error}")
            return None

    async def _refusal(self, agent: Agent, greeting: Greeting) -> str | None:
        """How it says that it does not know a session."""
        if not greeting.load:
            return None
        try:
            await agent.load("00000000-0000-4000-8000-000000000000")
        except AgentRefused as error:
            return str(error.code)
        except (AgentSilent, AgentDied) as error:
            return str(error)
        return "no error"

    def _agent(self) -> AbstractAsyncContextManager[Agent]:
        scribe = Scribe("probe", self._heard, lambda *_: self._speaks.set())
        launch = Launch(
            command=self._entry.command,
            cwd=self._cwd,
            environment=environment_for(self._entry),
            mark=f"probe/{secrets.token_hex(6)}",
            stderr=self._stderr,
            runtime=self._entry.runtime,
            reads=self._entry.reads,
        )
        return speaking(launch, scribe, _Willing(), _DEADLINES)

    async def _heard(self, *events: Event) -> None:
        self._said += [
            event.text for event in events if isinstance(event, MessageRecorded) and event.speaker == "agent"
        ]
        self._priced = self._priced or any(isinstance(event, UsageRecorded) and event.priced for event in events)
        await asyncio.sleep(0)


def _word() -> str:
    return f"kelp-{secrets.token_hex(3)}"


class _Willing:
    """Allows what it is asked for: the folder is empty, and goes away."""

    async def permit(self, asked: Asked) -> str | None:
        return next((one[0] for one in asked.options if one[2].startswith("allow")), None)

    async def veto(self, *_: object) -> str | None:
        return None


async def probe_agent(home: str, name: str, say: Say, own: Mapping[str, Entry] | None = None) -> Row:
    """Probe it, and keep what was measured."""
    row = await probe(name, own or {}, say)
    aside = keep(home, row)
    if aside is not None:
        say(f"what was measured before could not be read: it is kept as {aside}, and a new table was begun")
    return row
