"""What a driver needs around it: a place, a log in memory, and a host who answers as he is told."""

import asyncio
import os
import secrets
import sys
import textwrap
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from msgspec import structs

from holdfast.agents.acp.client import PermissionQuestion
from holdfast.agents.acp.driver import AgentConnection, AgentSession, Deadlines, connect_agent
from holdfast.agents.acp.recorder import EventRecorder
from holdfast.agents.launch import LOCAL, Launch
from holdfast.core.conversation.tool_call import ToolCall
from holdfast.core.events import Event
from holdfast.core.events.conversation import AgentMisbehaved, MessageRecorded
from holdfast.leaf.process.identity import identify
from tests.support.pids import children_of
from tests.support.wait import PATIENCE

QUICK = Deadlines(start=PATIENCE, session=PATIENCE, silence=PATIENCE, cancel=5)


def shell(cwd: str, script: str, environment: Mapping[str, str] | None = None, stderr: str | None = None) -> Launch:
    command = ("/bin/sh", "-c", script)
    return Launch(command, cwd, environment or {}, f"test/{secrets.token_hex(6)}", stderr)


def is_alive(pid: int) -> bool:
    return identify(pid) is not None


def zombies() -> set[int]:
    return {pid for pid in children_of(os.getpid()) if identify(pid) is None}


def resident() -> int:
    """Bytes of memory that this process has."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Book:
    """A log in memory."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.hints: list[tuple[str, str]] = []

    async def store(self, *events: Event) -> None:
        self.events += events

    def hint(self, speaker: str, text: str) -> None:
        self.hints.append((speaker, text))

    def said(self, speaker: str = "agent") -> str:
        messages = (event for event in self.events if isinstance(event, MessageRecorded))
        return "".join(message.text for message in messages if message.speaker == speaker)

    def odd(self) -> list[str]:
        return [event.what for event in self.events if isinstance(event, AgentMisbehaved)]


class Person:
    """Answers what an agent asks, when it may."""

    def __init__(self) -> None:
        self.asked: list[PermissionQuestion] = []
        self.answer: str | None = "allow"
        self.against: str | None = None
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def permit(self, asked: PermissionQuestion) -> str | None:
        self.asked.append(asked)
        await self.may_answer.wait()
        return self.answer

    async def veto(self, call: ToolCall) -> str | None:
        return self.against


class Company:
    """A folder to work in, and agents that play scripts there."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.cwd = os.path.join(folder, "work")
        os.makedirs(self.cwd)
        self.book = Book()
        self.person = Person()
        self.runtime = LOCAL
        self.deadlines = QUICK

    def path(self, name: str) -> str:
        return os.path.join(self.cwd, name)

    def read(self, name: str) -> str:
        with open(self.path(name), encoding="utf-8") as file:
            return file.read()

    def launch(self, script: str, environment: Mapping[str, str] | None = None) -> Launch:
        file = os.path.join(self.folder, "play.yaml")
        with open(file, "w", encoding="utf-8") as out:
            out.write(textwrap.dedent(script))
        state = os.path.join(self.folder, "state")
        command = (sys.executable, "-m", "holdfast", "agent", "playbook", file, "--state", state)
        stderr = os.path.join(self.folder, "stderr")
        mark = f"test/{secrets.token_hex(6)}"
        runtime = structs.replace(
            self.runtime,
            readable=(*self.runtime.readable, self.folder),
            writable=(*self.runtime.writable, state),
        )
        return Launch(command, self.cwd, environment or {}, mark, stderr, runtime=runtime)

    def scribe(self) -> EventRecorder:
        return EventRecorder("c", self.book.store, self.book.hint)

    @asynccontextmanager
    async def speaking(
        self, launch: Launch | str, deadlines: Deadlines | None = None, environment: Mapping[str, str] | None = None
    ) -> AsyncIterator[AgentConnection]:
        """An agent that was started, and no more."""
        if isinstance(launch, str):
            launch = self.launch(launch, environment)
        async with connect_agent(launch, self.scribe(), self.person, deadlines or self.deadlines) as agent:
            yield agent

    @asynccontextmanager
    async def playing(
        self, script: str, deadlines: Deadlines | None = None, environment: Mapping[str, str] | None = None
    ) -> AsyncIterator[tuple[AgentConnection, AgentSession]]:
        """An agent with a session."""
        async with self.speaking(script, deadlines, environment) as agent:
            await agent.initialize()
            yield agent, await agent.new_session()


def text(words: str = "go") -> str:
    return words
