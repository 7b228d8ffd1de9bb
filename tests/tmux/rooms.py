"""A run whose agents work in tmux, and what there is to see of it."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from holdfast.agents.launch import Runtime
from holdfast.agents.registry import AgentDefinition, find_agent
from holdfast.core.conversation.permission import PermissionConfig
from holdfast.core.conversation.terminal_ui import TerminalUi
from holdfast.core.events.conversation import ConversationDetached
from holdfast.core.events.session import SessionStart
from holdfast.engine.agents.conversations import Conversations, TurnResult
from holdfast.engine.agents.permissions import PermissionBroker
from holdfast.engine.home import Home
from holdfast.engine.reports.submit import Reporter, submit_report
from holdfast.engine.workspace.effects import fence
from holdfast.leaf.process.identity import ProcessIdentity, identify
from holdfast.store.files.layout import run_folder
from holdfast.store.files.store import FileStore
from holdfast.store.run import open_run
from tests.support.conversations import AGENT, ASK, DEADLINES, EngineSession, Place, Report
from tests.support.wait import until

DONE = {"summary": "made it"}


class Pane(NamedTuple):
    id: str
    process: ProcessIdentity
    window: str


class Room(NamedTuple):
    place: Place
    tui: TerminalUi | None = None  # in place of the playbook's own

    @classmethod
    async def make(cls, folder: str, book: Mapping[str, Any]) -> "Room":
        place = await Place.make(folder)
        place.play(book)
        return cls(place)

    @asynccontextmanager
    async def session(self, consent: PermissionConfig = ASK) -> AsyncIterator[EngineSession]:
        """As a run's own: what is left of an earlier one is ended first, and afterwards nothing lives."""
        place = self.place
        known = find_agent(f"playbook:{os.path.join(place.home, AGENT)}.yaml")
        memory = {"HOLDFAST_PLAYBOOK_STATE": os.path.join(place.home, "memory")}
        entry = AgentDefinition(
            command=known.command, tui=self.tui or known.tui, environment=memory, runtime=Runtime(kind="tmux")
        )
        tools = (sys.executable, "-m", "holdfast", "mcp", "--run", place.run_id, "--home", place.home)
        context = place.context()._replace(agents={AGENT: entry}, deadlines=DEADLINES, tools=lambda *_: tools)
        async with open_run(FileStore(place.home), place.run_id) as run:
            await run.begin_session(SessionStart(command="run"))
            await asyncio.to_thread(fence, place.run_id, place.tether)
            broker = PermissionBroker(run, consent)
            async with Conversations(run, context, broker) as conversations:
                yield EngineSession(run, broker, conversations)
        assert place.processes() == []

    async def reported(self, name: str, tool: str = "submit_done", role: str = "agent") -> None:
        """As the agent's MCP server does it."""
        await submit_report(Reporter(Home(self.place.home), self.place.run_id, role, name), tool, DONE)

    async def ended(self, turn: "asyncio.Task[TurnResult]", name: str, file: str) -> TurnResult:
        """The agent has come so far as to write a file; then it reports."""
        await self.written(file)
        await self.reported(name)
        return await turn

    async def written(self, file: str) -> None:
        await until(lambda: os.path.exists(os.path.join(self.place.cwd, file)))

    async def reasons(self) -> list[str]:
        """Why agents went."""
        return [event.reason or "" for event in await self.place.events(ConversationDetached)]

    @property
    def folder(self) -> str:
        return run_folder(self.place.home, self.place.run_id)

    @property
    def socket(self) -> str:
        with open(os.path.join(self.folder, "agents", "tmux"), encoding="utf-8") as file:
            return file.read()

    def tmux(self, *words: str) -> str:
        return subprocess.run(["tmux", "-S", self.socket, *words], capture_output=True, text=True, check=False).stdout

    def panes(self) -> dict[str, Pane]:
        """Those of agents, by the window's name."""
        rows = (line.split(" ", 2) for line in self.tmux("list-panes", "-a", "-F", _ROW).splitlines())
        found = {name: Pane(pane, identity, name) for pane, pid, name in rows if (identity := identify(int(pid)))}
        return {name: pane for name, pane in found.items() if name != "run"}

    def screen(self, pane: Pane) -> str:
        return self.tmux("capture-pane", "-p", "-t", pane.id)


_ROW = "#{pane_id} #{pane_pid} #{window_name}"


def command_line(pane: Pane) -> list[str]:
    """The command line of an agent."""
    with open(f"/proc/{pane.process.pid}/cmdline", encoding="utf-8") as file:
        return file.read().split("\0")


def say_until_killed(tell: Report, room: Room, prompt: str) -> None:
    """Open a conversation, say this, and wait to be killed; tells the conversation's name."""

    async def run_conversation() -> None:
        async with room.session() as (_, _, conversations):
            name = await conversations.open(AGENT)
            tell(name)
            await conversations.send_prompt(name, prompt, room.place.cwd)

    asyncio.run(run_conversation())
