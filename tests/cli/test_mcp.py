"""The tools by which agents report, through the protocol's own client, against the real program."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest
from mcp import ClientSession, McpError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import TextContent

from holdfast.core.events.conversation import ConversationOpened
from holdfast.core.events.phase import WorkflowChosen
from holdfast.core.messages.signals import ROLES, schema_of
from holdfast.store.base import Message
from holdfast.store.files.store import FileStore
from tests.cli.program import Program
from tests.cli.runs import make_run
from tests.support.crash_suite.program import STAND_IN
from tests.support.crash_suite.warm_programs import Nursery
from tests.support.signals import RIGHT
from tests.support.wait import PATIENCE

RUN = "auth-system-k3x9p2"


@pytest.fixture
def run(home: str) -> str:
    return make_run(home, RUN)


@asynccontextmanager
async def client(home: str, role: str, environment: dict[str, str] | None = None) -> AsyncIterator[ClientSession]:
    """As an agent has it: told the home by a word, not by its environment. That may tell of another interpreter."""
    arguments = ["-m", "holdfast", "mcp", "--run", RUN, "--role", role, "--conversation", "c-1", "--home", home]
    interpreter = (environment or {}).get(STAND_IN, sys.executable)
    parameters = StdioServerParameters(command=interpreter, args=arguments, env=environment)
    async with stdio_client(parameters) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        yield session


async def call(session: ClientSession, tool: str, arguments: object) -> tuple[bool, str]:
    answer = await session.call_tool(tool, arguments)  # type: ignore[arg-type]
    (block,) = answer.content
    assert isinstance(block, TextContent)
    return answer.isError, block.text


async def taken(home: str) -> list[Message]:
    """The reports that were taken, without those that were refused."""
    return [message for message in await stored(home) if message.kind.startswith("signal.")]


async def stored(home: str) -> list[Message]:
    found = [entry async for entry in FileStore(home).inbox(RUN).read(0)]
    assert all(message is not None for _, message, _ in found)
    return [message for _, message, _ in found if message is not None]


@pytest.mark.usefixtures("run")
@pytest.mark.parametrize("role", [*(role for role in ROLES if role != "coder"), "reviewer:logic", "juggler"])
async def test_a_role_has_its_tools_and_what_they_report_is_in_the_inbox(home: str, role: str, warm: Nursery) -> None:
    kinds = ROLES.get(role.partition(":")[0], ROLES["agent"])
    async with client(home, role, warm.environment()) as session:
        listed = (await session.list_tools()).tools
        assert {tool.name: tool.inputSchema for tool in listed} == {kind.tool: schema_of(kind) for kind in kinds}
        assert {tool.name: tool.description for tool in listed} == {kind.tool: kind.about for kind in kinds}
        for kind in kinds:
            assert await call(session, kind.tool, RIGHT[kind.tool]) == (False, "received")
    messages = await stored(home)
    assert [message.kind for message in messages] == [f"signal.{kind.tool}" for kind in kinds]
    for message, kind in zip(messages, kinds, strict=True):
        body = msgspec.json.decode(message.body)
        assert (message.sender, body["role"], body["conversation"]) == ("c-1", role, "c-1")
        assert RIGHT[kind.tool].items() <= body["signal"].items() or kind.tool in (
            "submit_plan",
            "submit_tasks",
            "submit_review",
        )


@pytest.mark.usefixtures("run")
async def test_refused_report_is_answered_in_words_and_stored_as_refused(home: str) -> None:
    async with client(home, "planner") as session:
        for arguments, what in (
            ({}, "missing required field `tasks`"),
            (None, "missing required field `tasks`"),
            ({"tasks": "all"}, "at tasks: Expected `array`, got `str`"),
            ({"tasks": [{"id": "a"}]}, "at tasks[0]: "),
            ({"tasks": [{"id": "a", "title": "A", "depends_on": ["b"]}]}, "'b'"),
            ({"tasks": [], "extra": 1}, "unknown field `extra`"),
        ):
            failed, text = await call(session, "submit_plan", arguments)
            assert failed
            assert what in text
        failed, text = await call(session, "submit_verdict", {"accept": True})
        assert failed
        assert "a planner has no tool 'submit_verdict'" in text
        assert await taken(home) == []
        assert await call(session, "submit_plan", RIGHT["submit_plan"]) == (False, "received")
    assert len(await taken(home)) == 1
    refused = [msgspec.json.decode(message.body) for message in await stored(home) if message.kind == "refused_report"]
    assert [body["tool"] for body in refused] == [*["submit_plan"] * 6, "submit_verdict"]
    assert json.loads(refused[2]["raw"]) == {"tasks": "all"}
    assert "got `str`" in refused[2]["error"]
    assert {body["conversation"] for body in refused} == {"c-1"}


@pytest.mark.usefixtures("run")
async def test_refused_report_is_stored_whatever_is_in_it(home: str) -> None:
    """Cut when it is long; text that is no text is escaped."""
    async with client(home, "worker") as session:
        assert (await call(session, "submit_case", {"summary": "ü" * 100_000}))[0]
    (message,) = await stored(home)
    raw = msgspec.json.decode(message.body)["raw"]
    assert raw.startswith('{"summary": "üüü')
    assert raw.endswith("more characters]")
    assert len(raw) < 9_000


async def test_data_that_do_not_fit_the_schema_of_the_phase_are_not_taken(home: str) -> None:
    schema = {"type": "object", "properties": {"days": {"type": "integer"}}}
    phases = [{"name": "thinking", "role": "architect", "exit": "submit_document", "schema": schema}]
    chosen = WorkflowChosen(workflow={"name": "w", "about": "w", "phases": phases})
    opened = ConversationOpened(conversation="c-1", agent="a", role="architect", about="thinking")
    await asyncio.to_thread(make_run, home, RUN, chosen, opened)
    async with client(home, "architect") as session:
        failed, text = await call(session, "submit_document", {"title": "Days", "text": "note: x\ndays: many\n"})
        assert failed
        assert "- line 2, days: 'many' is not of type 'integer'" in text
        assert await taken(home) == []
        assert await call(session, "submit_document", {"title": "Days", "text": "days: 3\n"}) == (False, "received")
    assert [message.kind for message in await stored(home)] == ["refused_report", "signal.submit_document"]


def _frames(*calls: tuple[str, object]) -> bytes:
    hello = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    }
    frames = [
        {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        *(
            {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
            for number, (tool, arguments) in enumerate(calls, 1)
        ),
    ]
    return b"".join(json.dumps(frame).encode() + b"\n" for frame in frames)


@pytest.mark.usefixtures("run")
async def test_what_was_answered_survives_a_sigkill_right_after(holdfast: Program, home: str) -> None:
    with holdfast.start("mcp", "--run", RUN, "--role", "agent", stdin=subprocess.PIPE) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(_frames(("submit_done", RIGHT["submit_done"])))
        server.stdin.flush()
        json.loads(server.stdout.readline())
        answer = json.loads(server.stdout.readline())
        os.kill(server.pid, signal.SIGKILL)
    assert answer["result"]["content"][0]["text"] == "received"
    (message,) = await stored(home)
    assert msgspec.json.decode(message.body)["signal"]["summary"] == "All is done. ✓"


@pytest.mark.usefixtures("run")
async def test_it_ends_cleanly_when_its_agent_hangs_up(holdfast: Program) -> None:
    with holdfast.start("mcp", "--run", RUN, stdin=subprocess.PIPE) as server:
        out, err = server.communicate(_frames(), timeout=PATIENCE)
    assert server.returncode == 0
    assert err == b""
    assert json.loads(out)["result"]["serverInfo"]["name"] == "holdfast"


@pytest.mark.usefixtures("run")
async def test_bytes_that_are_no_call_do_not_end_it(holdfast: Program, home: str) -> None:
    hello, initialized, done = _frames(("submit_done", RIGHT["submit_done"])).splitlines(keepends=True)
    with holdfast.start("mcp", "--run", RUN, stdin=subprocess.PIPE) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(hello + initialized + b"\xff\xfe no JSON\n" + done)
        server.stdin.flush()
        while json.loads(server.stdout.readline()).get("id") != 1:
            pass
        server.stdin.close()
        assert server.wait(PATIENCE) == 0
    assert len(await stored(home)) == 1


def test_a_run_that_is_not_there_is_one_clear_line(holdfast: Program) -> None:
    assert "nowhere" in holdfast("mcp", "--run", "nowhere", code=4).complaint


def test_no_run_at_all_is_wrong_usage(holdfast: Program) -> None:
    assert "--run" in holdfast("mcp", code=2).complaint


@pytest.mark.usefixtures("run")
@pytest.mark.parametrize(
    ("point", "reports"),
    [pytest.param("mcp.call.before", 0, marks=pytest.mark.torture), ("inbox.append.torn", 0), ("mcp.call.after", 1)],
)
@pytest.mark.parametrize("refused", [False, True])
async def test_killed_in_mid_call_the_agent_is_told_an_error_and_the_report_is_stored_at_most_once(
    home: str, point: str, reports: int, *, refused: bool
) -> None:
    passes = os.path.join(home, "passes")
    with open(passes, "xb"):
        armed = {"HOLDFAST_CRASH": f"{point}:1", "HOLDFAST_CRASH_FILE": passes}
    words = {"text": "half of it is done"} if not refused else {"words": "half of it is done"}
    async with client(home, "worker", armed) as session:
        with pytest.raises(McpError):
            await session.call_tool("report_progress", words)
    assert len(await stored(home)) == reports
    async with client(home, "worker", armed) as session:  # who asks again is heard
        assert await call(session, "report_progress", {"text": "all of it is done"}) == (False, "received")
    assert len(await stored(home)) == reports + 1
