"""What an agent really can do, found out by killing it: the row of the matrix that the ladder trusts."""

import asyncio
import os
import secrets
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from acp.schema import TextContentBlock

from holdfast.agents.client import Asked
from holdfast.agents.driver import Agent, AgentDied, AgentRefused, AgentSilent, Deadlines, Opened, speaking
from holdfast.agents.frames import Scribe
from holdfast.agents.launch import Launch
from holdfast.agents.registry import Entry, environment_for, find_agent, missing
from holdfast.core.events import Event
from holdfast.core.events.conversation import MessageRecorded
from holdfast.engine.matrix import Row, keep
from holdfast.leaf.clock import now
from holdfast.leaf.errors import BadInput

_DEADLINES = Deadlines(start=60, session=60, silence=180)

Say = Callable[[str], None]


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
        os.mkdir(self._cwd)

    async def row(self) -> Row:
        began = time.monotonic()
        async with self._agent() as agent:
            greeting = await agent.greet()
            took = int((time.monotonic() - began) * 1000)
            self._say(f"{greeting.program or self._name} {greeting.version or ''} answered in {took} ms")
            unknown = await self._refusal(agent, greeting.load)
        ways = {"load": greeting.load, "resume": greeting.resume}
        turn, replayed = False, None
        showed: dict[str, bool | None] = dict.fromkeys(ways)
        for way, offered in ways.items():
            if offered or (way == "load" and not any(ways.values())):
                turn, showed[way], seen = await self._killed_and_back(way if offered else None)
                replayed = seen if way == "load" and offered else replayed
        return Row(
            agent=self._name,
            when=now(),
            program=greeting.program,
            version=greeting.version,
            start_ms=took,
            turn=turn,
            load=showed["load"] if greeting.load else None,
            resume=showed["resume"] if greeting.resume else None,
            fork=greeting.fork,
            sessions=greeting.sessions,
            replayed=replayed,
            unknown_session=unknown,
            notes=self._notes,
        )

    async def _killed_and_back(self, way: str | None) -> tuple[bool, bool | None, int | None]:
        """Whether a turn worked, whether it came back with its memory, and how much it told of the past."""
        word = f"kelp-{secrets.token_hex(3)}"
        async with self._agent() as agent:
            await agent.greet()
            opened = await self._step("session/new", agent.new())
            if opened is None:
                return False, None, None
            told = await self._turn(agent, opened, f"Remember this word: {word}. Answer with OK and nothing else.")
            if told is None:
                return False, None, None
            self._say("a turn worked; now it is killed")
            await agent.tree.kill()
        if way is None:
            return True, None, None
        async with self._agent() as agent:
            await agent.greet()
            call = agent.load(opened.session) if way == "load" else agent.resume(opened.session)
            back = await self._step(f"session/{way}", call)
            if back is None:
                return True, False, None
            answer = await self._turn(agent, back, "Which word did I ask you to remember? Answer with it alone.")
            remembers = answer is not None and word in answer
            self._say(f"session/{way}: it {'remembers' if remembers else 'does not remember'}")
            return True, remembers, back.replayed

    async def _turn(self, agent: Agent, opened: Opened, text: str) -> str | None:
        self._said.clear()
        ended = await self._step("a turn", agent.prompt(opened.session, [TextContentBlock(type="text", text=text)]))
        await agent.scribe.flush()
        return "".join(self._said) if ended is not None else None

    async def _step(self, what: str, call: Awaitable[Any]) -> Any:
        try:
            return await call
        except (AgentDied, AgentSilent, AgentRefused) as error:
            self._notes.append(f"{what}: {error}")
            self._say(f"{what}: {error}")
            return None

    async def _refusal(self, agent: Agent, load: bool) -> str | None:  # noqa: FBT001 - what it offers
        """How it says that it does not know a session."""
        if not load:
            return None
        try:
            await agent.load("00000000-0000-4000-8000-000000000000")
        except AgentRefused as error:
            return str(error.code)
        except (AgentSilent, AgentDied) as error:
            return str(error)
        return "no error"

    def _agent(self) -> Any:
        self._said: list[str] = []
        scribe = Scribe("probe", self._heard, lambda *_: None)
        launch = Launch(
            command=self._entry.command,
            cwd=self._cwd,
            environment=environment_for(self._entry),
            mark=f"probe/{secrets.token_hex(6)}",
            stderr=self._stderr,
            runtime=self._entry.runtime,
        )
        return speaking(launch, scribe, _Willing(), _DEADLINES)

    async def _heard(self, *events: Event) -> None:
        self._said += [
            event.text for event in events if isinstance(event, MessageRecorded) and event.speaker == "agent"
        ]
        await asyncio.sleep(0)


class _Willing:
    """Allows what it is asked for: the folder is empty, and goes away."""

    async def permit(self, asked: Asked) -> str | None:
        return next((one[0] for one in asked.options if one[2].startswith("allow")), None)

    async def veto(self, *_: object) -> str | None:
        return None


async def probe_agent(home: str, name: str, say: Say, own: Mapping[str, Entry] | None = None) -> Row:
    """Probe it, and keep what was measured."""
    row = await probe(name, own or {}, say)
    keep(home, row)
    return row
