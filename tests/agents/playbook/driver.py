"""A client for a playbook agent, a real process: the SDK's client side, and every update is held against its models."""

import asyncio
import os
import signal
import sys
import textwrap
from collections.abc import Callable
from typing import Any

import acp
from acp import schema
from acp.client.connection import ClientSideConnection
from acp.connection import StreamDirection, StreamEvent

from tests.support.wait import PATIENCE

_LIMIT = 300 * 1024 * 1024

Outcome = schema.AllowedOutcome | schema.DeniedOutcome


def allow(option: str) -> Outcome:
    return schema.AllowedOutcome(outcome="selected", option_id=option)


CANCELLED = schema.DeniedOutcome(outcome="cancelled")


class Client:
    """Answers what the agent asks: permissions as told, files and terminals for real."""

    def __init__(self) -> None:
        self.answers: list[Outcome] = []
        self.asked: list[dict[str, Any]] = []
        self.called: list[str] = []
        self.answering = asyncio.Event()
        self.answering.set()
        self._terminals: dict[str, tuple[asyncio.subprocess.Process, asyncio.Task[bytes]]] = {}

    async def request_permission(self, session_id: str, tool_call: Any, options: Any, **_: Any) -> Any:
        self.asked.append({"tool": tool_call, "options": options})
        await self.answering.wait()
        return schema.RequestPermissionResponse(outcome=self.answers.pop(0))

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        pass  # the observer has it, in order

    async def write_text_file(self, session_id: str, path: str, content: str, **_: Any) -> Any:
        self.called.append("write")
        with open(path, "w", encoding="utf-8") as file:
            file.write(content)
        return schema.WriteTextFileResponse()

    async def read_text_file(
        self, session_id: str, path: str, line: int | None = None, limit: int | None = None, **_: Any
    ) -> Any:
        self.called.append("read")
        try:
            with open(path, encoding="utf-8") as file:
                lines = file.readlines()
        except OSError as error:
            raise acp.RequestError.resource_not_found(path) from error
        first = (line or 1) - 1
        return schema.ReadTextFileResponse(content="".join(lines[first : None if limit is None else first + limit]))

    async def create_terminal(
        self, session_id: str, command: str, args: Any = None, env: Any = None, cwd: str | None = None, **_: Any
    ) -> Any:
        self.called.append("terminal")
        process = await asyncio.create_subprocess_exec(
            command,
            *(args or []),
            cwd=cwd,
            env={**os.environ, **{one.name: one.value for one in env or []}},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        assert process.stdout is not None
        name = f"terminal-{len(self._terminals)}"
        self._terminals[name] = process, asyncio.create_task(process.stdout.read())
        return schema.CreateTerminalResponse(terminal_id=name)

    async def wait_for_terminal_exit(self, session_id: str, terminal_id: str, **_: Any) -> Any:
        return schema.WaitForTerminalExitResponse(exit_code=await self._terminals[terminal_id][0].wait())

    async def terminal_output(self, session_id: str, terminal_id: str, **_: Any) -> Any:
        return schema.TerminalOutputResponse(output=(await self._terminals[terminal_id][1]).decode(), truncated=False)

    async def kill_terminal(self, session_id: str, terminal_id: str, **_: Any) -> Any:
        self.called.append("kill")
        self._terminals[terminal_id][0].kill()
        return schema.KillTerminalResponse()

    async def release_terminal(self, session_id: str, terminal_id: str, **_: Any) -> Any:
        self.called.append("release")
        return schema.ReleaseTerminalResponse()

    async def close(self) -> None:
        for process, reading in self._terminals.values():
            if process.returncode is None:
                process.kill()
            await process.wait()
            await reading


class Agent:
    """A running playbook agent."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.client = Client()
        self.frames: list[dict[str, Any]] = []
        self.updates: list[dict[str, Any]] = []
        self.wrong: list[str] = []
        self.session = ""
        self._news = asyncio.Event()
        assert process.stdin is not None
        assert process.stdout is not None
        self.connection: ClientSideConnection = acp.connect_to_agent(
            self.client,  # type: ignore[arg-type]
            process.stdin,
            process.stdout,
            use_unstable_protocol=True,
            observers=[self._observe],
        )

    def _observe(self, event: StreamEvent) -> None:
        if event.direction != StreamDirection.INCOMING:
            return
        frame = event.message
        self.frames.append(frame)
        if frame.get("method") == "session/update":
            self.updates.append(frame["params"]["update"])
            self._hold_against_the_model(frame["params"])
        self._news.set()

    def _hold_against_the_model(self, params: dict[str, Any]) -> None:
        """Nothing that the SDK would not know, and nothing it would leave out."""
        known = schema.SessionNotification.model_validate(params)
        again = known.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_unset=True)
        if again != params:
            self.wrong.append(f"{params} is understood as {again}")

    async def until(self, condition: Callable[["Agent"], bool]) -> None:
        """Looks again after every frame."""
        async with asyncio.timeout(PATIENCE):
            while not condition(self):
                self._news.clear()
                await self._news.wait()

    # --- what a client does ---

    async def initialize(self) -> schema.InitializeResponse:
        async with asyncio.timeout(PATIENCE):
            return await self.connection.initialize(protocol_version=1)

    async def new(self, cwd: str, *servers: Any) -> schema.NewSessionResponse:
        async with asyncio.timeout(PATIENCE):
            made = await self.connection.new_session(cwd=cwd, mcp_servers=list(servers))
        self.session = made.session_id
        return made

    async def prompt(self, text: str = "go", session: str | None = None) -> schema.PromptResponse:
        async with asyncio.timeout(PATIENCE):
            return await self.connection.prompt(session_id=session or self.session, prompt=[acp.text_block(text)])

    def asking(self, text: str = "go") -> asyncio.Task[schema.PromptResponse]:
        return asyncio.create_task(self.prompt(text))

    async def cancel(self) -> None:
        await self.connection.cancel(session_id=self.session)

    async def load(self, session: str, cwd: str, *servers: Any) -> Any:
        self.session = session
        async with asyncio.timeout(PATIENCE):
            return await self.connection.load_session(cwd=cwd, session_id=session, mcp_servers=list(servers))

    async def resume(self, session: str, cwd: str, *servers: Any) -> Any:
        self.session = session
        async with asyncio.timeout(PATIENCE):
            return await self.connection.resume_session(cwd=cwd, session_id=session, mcp_servers=list(servers))

    # --- what it has said ---

    def of_kind(self, *kinds: str) -> list[dict[str, Any]]:
        return [update for update in self.updates if update["sessionUpdate"] in kinds]

    @property
    def text(self) -> str:
        return "".join(update["content"]["text"] for update in self.of_kind("agent_message_chunk"))

    @property
    def thoughts(self) -> str:
        return "".join(update["content"]["text"] for update in self.of_kind("agent_thought_chunk"))

    # --- its end ---

    async def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        await self.gone()

    async def gone(self) -> int:
        async with asyncio.timeout(PATIENCE):
            return await self.process.wait()

    async def close(self) -> None:
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()
        await self.connection.close()
        await self.client.close()
        assert self.wrong == []


class Stagehand:
    """Starts agents on scripts, all with one state folder and one place to work, and ends them."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.cwd = os.path.join(folder, "work")
        self.state = os.path.join(folder, "state")
        os.makedirs(self.cwd)
        self._agents: list[Agent] = []
        self.errors = os.path.join(folder, "stderr")

    def came_to_once(self) -> bool:
        """An agent came to a step that it takes `once`, and is at it."""
        marks = os.path.join(self.state, "once")
        return os.path.isdir(marks) and bool(os.listdir(marks))

    def script(self, text: str) -> str:
        file = os.path.join(self.folder, "play.yaml")
        with open(file, "w", encoding="utf-8") as out:
            out.write(textwrap.dedent(text))
        return file

    async def spawn(self, text: str, **env: str) -> Agent:
        """The process alone; nothing is said yet."""
        with open(self.errors, "ab") as errors:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "holdfast", "agent", "playbook", self.script(text), "--state", self.state),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
                limit=_LIMIT,
                env={**os.environ, **env},
                cwd=self.folder,
            )
        agent = Agent(process)
        self._agents.append(agent)
        return agent

    async def start(self, text: str, **env: str) -> Agent:
        agent = await self.spawn(text, **env)
        await agent.initialize()
        return agent

    async def play(self, text: str, *servers: Any, **env: str) -> Agent:
        """Started, with a new session."""
        agent = await self.start(text, **env)
        await agent.new(self.cwd, *servers)
        return agent

    def path(self, name: str) -> str:
        return os.path.join(self.cwd, name)

    def put(self, name: str, text: str) -> str:
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        return self.path(name)

    def read(self, name: str) -> str:
        with open(self.path(name), encoding="utf-8") as file:
            return file.read()

    def stderr(self) -> str:
        with open(self.errors, encoding="utf-8", errors="replace") as file:
            return file.read()

    async def close(self) -> None:
        for agent in self._agents:
            await agent.close()


def is_alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
