"""Conversations with playbook agents, real processes all of them: in this process, or in one that can be killed."""

import asyncio
import json
import os
import secrets
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, NamedTuple, TypeVar

from msgspec import structs

from holdfast.agents.acp.driver import Deadlines
from holdfast.agents.acp.recorder import FLUSH_DELAY_S, EventRecorder
from holdfast.agents.launch import LOCAL, Runtime
from holdfast.agents.registry import AgentDefinition
from holdfast.core.conversation.permission import PermissionConfig
from holdfast.core.events import Event
from holdfast.core.events.conversation import (
    ConversationAttached,
    ConversationStateChanged,
    MessageRecorded,
    RecoveryStrategyFailed,
    ToolCalled,
    ToolReturned,
    TurnInterrupted,
)
from holdfast.core.events.session import SessionStart
from holdfast.engine.agents.context import TextSink
from holdfast.engine.agents.conversations import ConversationContext, Conversations
from holdfast.engine.agents.permissions import PermissionBroker
from holdfast.engine.containers import end_containers
from holdfast.engine.home import Home
from holdfast.engine.queries.verify import verify_run
from holdfast.engine.session.live_text import LiveTextServer
from holdfast.engine.workspace.effects import fence
from holdfast.engine.workspace.repository import FD_MARKER_FILE
from holdfast.leaf.process.env_markers import RUN_MARK, marked_processes
from holdfast.leaf.process.identity import ProcessIdentity
from holdfast.store.files.layout import run_folder
from holdfast.store.files.store import FileStore
from holdfast.store.run import OwnedRun, open_run
from tests.support.events import events_in
from tests.support.wait import PATIENCE, until

E = TypeVar("E", bound=Event)
Report = Callable[[str], None]

AGENT = "player"
ASK = PermissionConfig()
DEADLINES = Deadlines(start=PATIENCE, session=PATIENCE, silence=PATIENCE)


class EngineSession(NamedTuple):
    run: OwnedRun
    broker: PermissionBroker
    conversations: Conversations


class _Hearing:
    """Reports each piece of text as it comes: the conversation, who speaks, and the piece."""

    def __init__(self, report: Callable[[str, str, str], None]) -> None:
        self._report = report

    def text_added(self, conversation_id: str, recorder: EventRecorder, text: str) -> None:
        speaker, _ = recorder.buffered_text or ("", "")
        self._report(conversation_id, speaker, text)

    def text_taken(self, *_: object) -> None:
        pass


class Place(NamedTuple):
    """A run and a folder to work in, with a name that no other test's agents carry."""

    home: str
    run_id: str
    cwd: str
    wrapper: tuple[str, ...] = ()  # the program by which agents are started, with its arguments
    runtime: Runtime = LOCAL
    agents: Mapping[str, AgentDefinition] = {}  # beside those that play a book

    @classmethod
    async def make(cls, folder: str, agents: Mapping[str, AgentDefinition] | None = None) -> "Place":
        name, work = f"run-{secrets.token_hex(3)}", os.path.join(folder, "work")
        place = cls(os.path.join(folder, "home"), name, work, agents=agents or {})
        os.makedirs(place.cwd)
        await FileStore(place.home).create(place.run_id)
        return place

    def play(self, book: Mapping[str, Any], agent: str = AGENT) -> None:
        """What the agent is, from its next start on."""
        with open(self._book(agent), "w", encoding="utf-8") as file:
            json.dump(book, file)  # which is YAML too

    def context(
        self, deadlines: Deadlines = DEADLINES, proven: Mapping[str, bool] | None = None
    ) -> ConversationContext:
        play = (*self.wrapper, sys.executable, "-m", "holdfast", "agent", "playbook")
        memory = os.path.join(self.home, "memory")
        runtime = structs.replace(
            self.runtime, readable=(*self.runtime.readable, self.home), writable=(*self.runtime.writable, memory)
        )
        own = {
            name.removesuffix(".yaml"): AgentDefinition(
                command=(*play, os.path.join(self.home, name)),
                environment={"HOLDFAST_PLAYBOOK_STATE": memory},
                runtime=runtime,
            )
            for name in os.listdir(self.home)
            if name.endswith(".yaml")
        } | dict(self.agents)
        store = FileStore(self.home)
        folder = run_folder(self.home, self.run_id)
        return ConversationContext(
            self.run_id, folder, store.log(self.run_id), own, dict.fromkeys(own, proven or {}), deadlines
        )

    @asynccontextmanager
    async def session(
        self,
        *,
        consent: PermissionConfig = ASK,
        deadlines: Deadlines = DEADLINES,
        proven: Mapping[str, bool] | None = None,
        hint: Callable[[str, str, str], None] | None = None,
        offers_text: bool = False,
        text_delay_s: float = FLUSH_DELAY_S,
    ) -> AsyncIterator[EngineSession]:
        """Own the run and hold its conversations; afterwards none of its agents lives, and its log is whole."""
        async with open_run(FileStore(self.home), self.run_id) as run:
            await run.begin_session(SessionStart(command="run"))
            await asyncio.to_thread(fence, self.run_id, self.tether)
            await asyncio.to_thread(end_containers, run_folder(self.home, self.run_id), self.run_id)
            broker = PermissionBroker(run, consent)
            context = self.context(deadlines, proven)._replace(text_delay_s=text_delay_s)
            async with AsyncExitStack() as stack:
                sink: TextSink | None = _Hearing(hint) if hint is not None else None
                if offers_text:
                    sink = await stack.enter_async_context(LiveTextServer(context.folder, run.redactor))
                yield EngineSession(
                    run, broker, await stack.enter_async_context(Conversations(run, context, broker, sink))
                )
        assert self.processes() == []
        assert (await verify_run(Home(self.home), self.run_id)).is_intact

    @property
    def tether(self) -> str:
        return os.path.join(run_folder(self.home, self.run_id), FD_MARKER_FILE)

    def processes(self) -> list[ProcessIdentity]:
        """What lives of this run's agents."""
        return marked_processes(RUN_MARK, self.run_id)

    def harmed(self) -> int:
        """How often an agent did what its script wants done once."""
        marks = os.path.join(self.home, "memory", "once")
        return len(os.listdir(marks)) if os.path.isdir(marks) else 0

    async def events(self, kind: type[E]) -> list[E]:
        data = b"".join([batch.data async for batch in FileStore(self.home).log(self.run_id).read()])
        return [event for event in events_in(data) if isinstance(event, kind)]

    async def until_called(self, call: str) -> None:
        """Wait until this tool call is in the log, whoever writes it."""
        async for batch in FileStore(self.home).log(self.run_id).follow():
            if any(isinstance(event, ToolCalled) and event.call == call for event in events_in(batch.data)):
                return

    async def said(self, speaker: str = "agent") -> list[str]:
        return [event.text for event in await self.events(MessageRecorded) if event.speaker == speaker]

    async def rungs(self) -> list[str]:
        return [event.rung for event in await self.events(ConversationAttached)]

    async def failed_rungs(self) -> list[tuple[str, str]]:
        return [(event.rung, event.reason or "") for event in await self.events(RecoveryStrategyFailed)]

    async def states(self) -> list[str]:
        return [event.state for event in await self.events(ConversationStateChanged)]

    async def interruptions(self) -> list[str]:
        return [event.reason or "" for event in await self.events(TurnInterrupted)]

    async def interrupted_calls(self) -> list[str]:
        return [event.call for event in await self.events(ToolReturned) if event.status == "interrupted"]

    def _book(self, agent: str) -> str:
        return os.path.join(self.home, f"{agent}.yaml")


def say_until_killed(report: Report, place: Place, prompts: list[str], messages: Sequence[str] = ()) -> None:
    """Open a conversation, and say these; report it, what is heard, and each turn's end. Then wait to be killed.

    The last one is made of these messages of the inbox.
    """

    async def run_conversation() -> None:
        async with place.session(hint=lambda *heard: report(heard[2])) as (run, _, conversations):
            await run.consume_inbox()
            name = await conversations.open(AGENT)
            report(name)
            for prompt in prompts:
                made_of = messages if prompt is prompts[-1] else ()
                report((await conversations.send_prompt(name, prompt, place.cwd, messages=made_of)).reason)
            await asyncio.Event().wait()

    asyncio.run(run_conversation())


def stream_until_killed(report: Report, place: Place, prompt: str) -> None:
    """Open a conversation, and prompt its agent; what it says is offered, and not in the log for a long time.

    The socket is in the folder `runtime` of the home.
    """
    os.environ["XDG_RUNTIME_DIR"] = os.path.join(place.home, "runtime")

    async def run_conversation() -> None:
        async with place.session(offers_text=True, text_delay_s=PATIENCE) as (_, _, conversations):
            name = await conversations.open(AGENT)
            report(name)
            report((await conversations.send_prompt(name, prompt, place.cwd)).reason)
            await asyncio.Event().wait()

    asyncio.run(run_conversation())


def ready_until_killed(
    report: Report, place: Place, name: str, deadlines: Deadlines, proven: Mapping[str, bool]
) -> None:
    """Bring a conversation back, and wait to be killed, then or before."""

    async def run_conversation() -> None:
        async with place.session(deadlines=deadlines, proven=proven) as (_, _, conversations):
            await conversations.ensure_agent(name, place.cwd)
            report("ready")
            await asyncio.Event().wait()

    asyncio.run(run_conversation())


def answer_until_killed(report: Report, place: Place, prompt: str, option: str) -> None:
    """Answer an agent, report the conversation, and die: the answer is in the log, and was not acknowledged."""

    async def run_conversation() -> None:
        async with place.session() as (run, broker, conversations):
            name = await conversations.open(AGENT)
            turn = asyncio.ensure_future(conversations.send_prompt(name, prompt, place.cwd))
            await until(lambda: bool(run.state.permissions))
            pid = conversations.state(name).pid
            assert pid is not None
            os.kill(pid, signal.SIGSTOP)
            await broker.answer(next(iter(run.state.permissions)), option, by="Ada")
            report(name)
            os.kill(os.getpid(), signal.SIGKILL)
            await turn

    asyncio.run(run_conversation())


def ask_until_killed(report: Report, place: Place, prompt: str) -> None:
    """Say something to which the agent has a question; report the question when it is in the log."""

    async def run_conversation() -> None:
        async with place.session() as (run, _, conversations):
            name = await conversations.open(AGENT)
            turn = asyncio.ensure_future(conversations.send_prompt(name, prompt, place.cwd))
            await until(lambda: bool(run.state.permissions))
            report(name)
            report(next(iter(run.state.permissions)))
            await turn

    asyncio.run(run_conversation())
