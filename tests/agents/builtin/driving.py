"""The built-in agent as a real process, driven by the protocol's own client."""

import array
import asyncio
import json
import marshal
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from acp import connect_to_agent, text_block
from acp.client.connection import ClientSideConnection
from acp.schema import AllowedOutcome, DeniedOutcome, RequestPermissionResponse

from tests.support.wait import PATIENCE
from tests.support.zygote import ROOM

_MODULES = (
    "tests.support.crash_suite.builtin_agent",
    "holdfast.agents.builtin.serve",
    "pydantic_ai.direct",
    "pydantic_ai.models.openai",
    "pydantic_ai.models.anthropic",
    "pydantic_ai.models.google",
    "genai_prices.data_snapshot",
)
KEY = "sk-scripted-secret-123456"
VARIABLES = {
    "openai": "OPENAI_API_KEY",
    "openai-responses": "OPENAI_API_KEY",
    "anthropic": "ANTHROPIC_API_KEY",
    "google": "GOOGLE_API_KEY",
}


class Zygote:
    def __init__(self, path: str) -> None:
        self.path = path

    def spawn(self, arguments: list[str], folder: str, environment: dict[str, str], descriptors: list[int]) -> int:
        asked = {
            "module": "tests.support.crash_suite.builtin_agent",
            "arguments": arguments,
            "folder": folder,
            "environment": environment,
        }
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.connect(self.path)
            handed = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
            connection.sendmsg([marshal.dumps(asked)], handed)
            return int(connection.recv(100))


@contextmanager
def zygote(folder: str) -> Iterator[Zygote]:
    path = os.path.join(folder, "zygote")
    command = [sys.executable, "-m", "tests.support.zygote", path, *_MODULES]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, env={**os.environ, **ROOM}
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            yield Zygote(path)
        finally:
            process.kill()


@dataclass
class Watcher:
    """The client's side: keeps every update, and answers questions as it is told."""

    verdicts: list[str] = field(default_factory=list)  # option ids, "cancel", or "wait"
    updates: list[Any] = field(default_factory=list)
    asked: list[Any] = field(default_factory=list)
    news: asyncio.Event = field(default_factory=asyncio.Event)

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.updates.append(update)
        self.news.set()

    async def request_permission(
        self, session_id: str, tool_call: Any, options: Any, **_: Any
    ) -> RequestPermissionResponse:
        self.asked.append(tool_call)
        self.news.set()
        verdict = self.verdicts.pop(0) if self.verdicts else "once"
        if verdict == "wait":
            await asyncio.Event().wait()
        if verdict == "cancel":
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=verdict))

    def on_connect(self, conn: Any) -> None:
        pass

    def of(self, kind: str) -> list[Any]:
        return [update for update in self.updates if update.session_update == kind]

    @property
    def text(self) -> str:
        return "".join(update.content.text for update in self.of("agent_message_chunk"))

    @property
    def thoughts(self) -> str:
        return "".join(update.content.text for update in self.of("agent_thought_chunk"))

    async def until(self, ready: Any) -> None:
        async with asyncio.timeout(PATIENCE):
            while not ready(self):
                self.news.clear()
                await self.news.wait()


@dataclass
class Driven:
    pid: int
    connection: ClientSideConnection
    watcher: Watcher
    cwd: str
    hang_up: Callable[[], None]

    async def start(self, mcp_servers: Any = None) -> str:
        await self._within(self.connection.initialize(protocol_version=1))
        return str((await self._within(self.connection.new_session(cwd=self.cwd, mcp_servers=mcp_servers))).session_id)

    async def come_back(self, session: str, way: str) -> None:
        await self._within(self.connection.initialize(protocol_version=1))
        if way == "load":
            await self._within(self.connection.load_session(cwd=self.cwd, session_id=session))
        else:
            await self._within(self.connection.resume_session(cwd=self.cwd, session_id=session))

    async def say(self, session: str, text: str) -> Any:
        return await self._within(self.connection.prompt(session_id=session, prompt=[text_block(text)]))

    async def _within(self, call: Any) -> Any:
        async with asyncio.timeout(PATIENCE):
            return await call

    def kill(self) -> None:
        """SIGKILL, and wait until the kernel has let go of all that it held."""
        try:
            handle = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return
        try:
            signal.pidfd_send_signal(handle, signal.SIGKILL)
            import select  # noqa: PLC0415

            assert select.select([handle], [], [], PATIENCE)[0]
        except ProcessLookupError:
            pass
        finally:
            os.close(handle)


@dataclass(frozen=True)
class Bench:
    """A worktree, a home, and a model; agents are started on them."""

    zygote: Zygote
    cwd: str
    home: str
    errors: str

    def kept(self, session: str) -> list[list[str]]:
        """Of each record that is whole in a session's file: which parts of a message it has."""
        with open(os.path.join(self.home, "builtin", "sessions", f"{session}.jsonl"), encoding="utf-8") as file:
            records = [json.loads(line) for line in file if line.endswith("\n")]
        return [[part["part_kind"] for part in one["message"]["parts"]] if "message" in one else [] for one in records]

    @asynccontextmanager
    async def agent(
        self,
        model: Any,
        provider: str = "openai",
        *options: str,
        verdicts: list[str] | None = None,
        fresh: bool = False,
        **variables: str,
    ) -> AsyncIterator[Driven]:
        arguments = ["--model", f"{provider}:scripted-model", "--base-url", model.base_url(provider)]
        arguments += ["--backoff", "0.01", *options]
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": self.home,
            "HOLDFAST_HOME": self.home,
            "NO_PROXY": "127.0.0.1",
            VARIABLES[provider]: KEY,
            **variables,
        }
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()
        errors = os.open(self.errors, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        descriptors = [theirs_in, theirs_out, errors]
        start = _fresh if fresh else self.zygote.spawn
        pid = start(arguments, self.cwd, environment, descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        async with _streams(ours_in, ours_out) as (reader, writer):
            watcher = Watcher(verdicts or [])
            connection = connect_to_agent(watcher, writer, reader, use_unstable_protocol=True)  # type: ignore[arg-type]
            driven = Driven(pid, connection, watcher, self.cwd, writer.close)
            try:
                yield driven
            finally:
                with suppress(Exception):
                    async with asyncio.timeout(PATIENCE):
                        await connection.close()
                driven.kill()


def _fresh(arguments: list[str], folder: str, environment: dict[str, str], descriptors: list[int]) -> int:
    """A new Python, with nothing imported: as a user starts it."""
    program = "import sys; from holdfast.app.cli.programs.agent_builtin import run; sys.exit(run(sys.argv[1:]))"
    stdin, stdout, stderr = descriptors
    actions = [(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate((stdin, stdout, stderr))]
    command = [sys.executable, "-c", program, *arguments]
    return os.posix_spawn(sys.executable, command, {**environment, "PWD": folder}, file_actions=actions)


@asynccontextmanager
async def _streams(ours_in: int, ours_out: int) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=50_000_000)
    incoming, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(ours_in, "rb", 0)
    )
    outgoing, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, os.fdopen(ours_out, "wb", 0))
    try:
        yield reader, asyncio.StreamWriter(outgoing, protocol, None, loop)
    finally:
        outgoing.close()
        incoming.close()
        await asyncio.sleep(0)
