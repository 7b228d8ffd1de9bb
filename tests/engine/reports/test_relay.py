"""Agents report through the run's runner; when it dies, the same process stores their reports itself, each once."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import TextContent

from holdfast.core.messages.signals import ROLES, TOOLS_LISTED, schema_of
from holdfast.engine.live_socket import connect, listen
from holdfast.store.base import Message
from holdfast.store.files.store import FileStore
from tests.cli.runs import make_run
from tests.support.signals import RIGHT
from tests.support.wait import PATIENCE, until

RUN = "auth-system-k3x9p2"
PROGRESS = {"text": "half of it is done"}


class Runner(NamedTuple):
    home: str
    process: "subprocess.Popen[str]"
    listed: str

    def command(self, conversation_id: str = "c-1") -> list[str]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{conversation_id}\n")
        self.process.stdin.flush()
        command: list[str] = json.loads(self.process.stdout.readline())
        return command

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)

    async def stored(self) -> list[Message]:
        found = [entry async for entry in FileStore(self.home).inbox(RUN).read(0)]
        assert all(message is not None for _, message, _ in found), found
        return [message for _, message, _ in found if message is not None]


@contextmanager
def running(tmp_path: Path, failpoint: str | None = None) -> Iterator[Runner]:
    home, listed, passes = str(tmp_path / "home"), str(tmp_path / "listed"), tmp_path / "passes"
    passes.touch()
    armed = {"HOLDFAST_CRASH": failpoint, "HOLDFAST_CRASH_FILE": str(passes)} if failpoint is not None else {}
    command = [sys.executable, "-m", "tests.support.report_server", home, RUN, listed]
    environment = {**os.environ, **armed, "XDG_RUNTIME_DIR": str(tmp_path)}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            yield Runner(home, process, listed)
        finally:
            process.kill()


@asynccontextmanager
async def client(command: list[str]) -> AsyncIterator[ClientSession]:
    async with (
        stdio_client(StdioServerParameters(command=command[0], args=command[1:])) as (read, write),
        ClientSession(read, write) as session,
    ):
        await session.initialize()
        yield session


async def call(session: ClientSession, tool: str, arguments: object) -> tuple[bool, str]:
    answer = await session.call_tool(tool, arguments)  # type: ignore[arg-type]
    (block,) = answer.content
    assert isinstance(block, TextContent)
    return answer.isError, block.text


@pytest.fixture(autouse=True)
def _run(tmp_path: Path) -> None:
    make_run(str(tmp_path / "home"), RUN)


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[Runner]:
    with running(tmp_path) as runner:
        yield runner


async def test_runner_serves_the_tools_of_a_role(runner: Runner) -> None:
    """The list is announced, and the reports of several agents arrive under their own names."""
    async with client(runner.command("c-1")) as first, client(runner.command("c-2")) as second:
        listed = (await first.list_tools()).tools
        assert {tool.name: tool.inputSchema for tool in listed} == {
            kind.tool: schema_of(kind) for kind in ROLES["worker"]
        }
        await until(lambda: os.path.exists(runner.listed))
        assert Path(runner.listed).read_bytes() == TOOLS_LISTED + b"\n"
        assert await call(first, "report_progress", PROGRESS) == (False, "received")
        assert await call(second, "submit_case", RIGHT["submit_case"]) == (False, "received")
        failed, text = await call(second, "submit_case", {"summary": "x"})
        assert (failed, "missing required field `criteria`" in text) == (True, True)
    stored = await runner.stored()
    assert [(message.sender, message.kind) for message in stored] == [
        ("c-1", "signal.report_progress"),
        ("c-2", "signal.submit_case"),
        ("c-2", "refused_report"),
    ]


async def test_long_reports_pass(runner: Runner) -> None:
    """Longer than a pipe, a socket's buffer and one read."""
    evidence = [{"criterion": f"{n}", "met": True, "evidence": "ü" * 10_000} for n in range(100)]
    async with client(runner.command()) as session:
        case = {"summary": "done", "criteria": evidence}
        assert await call(session, "submit_case", case) == (False, "received")
    (message,) = await runner.stored()
    assert msgspec.json.decode(message.body)["signal"]["criteria"] == evidence


async def test_relay_stores_reports_itself_once_the_runner_is_dead(runner: Runner) -> None:
    async with client(runner.command()) as session:
        assert await call(session, "report_progress", PROGRESS) == (False, "received")
        runner.kill()
        assert await call(session, "report_progress", PROGRESS) == (False, "received")
        assert await call(session, "submit_case", RIGHT["submit_case"]) == (False, "received")
        assert len((await session.list_tools()).tools) == len(ROLES["worker"])
    kinds = [message.kind for message in await runner.stored()]
    assert kinds == ["signal.report_progress", "signal.report_progress", "signal.submit_case"]


async def test_relay_that_finds_no_runner_stores_reports_itself(runner: Runner) -> None:
    command = runner.command()
    runner.kill()
    async with client(command) as session:
        assert await call(session, "report_progress", PROGRESS) == (False, "received")
    assert len(await runner.stored()) == 1


async def test_ended_runner_leaves_its_agents_a_server(runner: Runner) -> None:
    """It closes its socket in good order; an agent that outlives it can still report."""
    async with client(runner.command()) as session:
        assert runner.process.stdin is not None
        runner.process.stdin.close()
        assert await asyncio.to_thread(runner.process.wait, PATIENCE) == 0
        assert await call(session, "report_progress", PROGRESS) == (False, "received")
    assert len(await runner.stored()) == 1


@pytest.mark.parametrize("point", ["mcp.call.before", "inbox.append.torn", "inbox.append.after", "mcp.call.after"])
@pytest.mark.parametrize("refused", [False, True])
async def test_report_whose_runner_is_killed_is_stored_once(tmp_path: Path, point: str, *, refused: bool) -> None:
    """Whether the runner stored it or not, the agent gets the answer, and the run gets one message."""
    with running(tmp_path, f"{point}:1") as runner:
        async with client(runner.command()) as session:
            failed, text = await call(session, "report_progress", {"words": "half"} if refused else PROGRESS)
        assert runner.process.wait(PATIENCE) < 0
        assert failed is refused
        assert text == "received" or refused
        assert [message.kind for message in await runner.stored()] == [
            "refused_report" if refused else "signal.report_progress"
        ]


async def test_lines_after_the_unanswered_one_are_not_lost(tmp_path: Path) -> None:
    """An agent may send several requests at once; the relay had read them when the runner died."""
    requests = [
        {
            "jsonrpc": "2.0",
            "id": n,
            "method": "tools/call",
            "params": {"name": "report_progress", "arguments": PROGRESS},
        }
        for n in range(3)
    ]
    sent = b"\n".join([b"", b"no JSON", *(json.dumps(request).encode() for request in requests), b""])
    with running(tmp_path, "mcp.call.after:2") as runner:
        done = await asyncio.to_thread(
            subprocess.run, runner.command(), input=sent, stdout=subprocess.PIPE, check=True, timeout=PATIENCE
        )
        assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == [None, 0, 1, 2]
        stored = await runner.stored()
        assert len({message.id for message in stored}) == len(stored) == len(requests)


async def test_relay_loads_nothing_but_builtins(runner: Runner) -> None:
    """Every agent starts one: it may cost no more than the interpreter itself."""
    script = runner.command()[3]
    look = "import runpy, sys; runpy.run_path(sys.argv[1]); print(*sys.modules)"
    before = subprocess.run([sys.executable, "-I", "-S", "-c", look, os.devnull], check=True, capture_output=True)
    after = subprocess.run([sys.executable, "-I", "-S", "-c", look, script], check=True, capture_output=True)
    assert {*after.stdout.split()} - {*before.stdout.split()} <= {b"_socket"}


def test_socket_with_a_long_path_is_not_for_relays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel limits the path of a socket; Holdfast itself reaches it through a descriptor."""
    runtime = tmp_path / ("x" * 100)
    runtime.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    listening = listen(str(tmp_path))
    assert listening is not None
    assert listening.path is None
    connection = connect(str(tmp_path))
    assert connection is not None
    connection.close()
    listening.close()
