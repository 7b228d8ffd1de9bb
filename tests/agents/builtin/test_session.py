"""Sessions as a client uses them: permission, modes, cancelling, listing, MCP servers, secrets."""

import asyncio
import os
import subprocess
import sys
from typing import Any

import pytest
from acp import RequestError
from acp.schema import EnvVariable, McpServerStdio
from msgspec.structs import replace

from tests.agents.builtin.driving import KEY, VARIABLES, Bench
from tests.support.model_server.script import Answer, Script, ToolUse, in_turn
from tests.support.model_server.server import ModelServer
from tests.support.wait import until

_WRITE = ToolUse("write", {"path": "f.txt", "content": "new\n"})


async def test_in_ask_mode_a_change_is_asked_for_with_its_diff(bench: Bench, model: ModelServer) -> None:
    model.play(in_turn(Answer(tools=[_WRITE]), Answer(text="ok"), Answer(tools=[_WRITE]), Answer(text="a pity")))
    path = os.path.join(bench.cwd, "f.txt")
    async with bench.agent(model, verdicts=["no", "once"]) as agent:
        session = await agent.start()
        await agent.say(session, "write")
        assert not os.path.exists(path)
        assert "did not allow" in model.requests[-1].results[-1].text
        await agent.say(session, "write again")
        assert os.path.exists(path)
        asked = agent.watcher.asked[0]
    assert (asked.kind, asked.content[0].type, asked.content[0].new_text) == ("edit", "diff", "new\n")


async def test_a_plan_and_the_usage_are_shown(bench: Bench, model: ModelServer) -> None:
    steps = [{"content": "look", "status": "completed"}, {"content": "leap"}]
    model.play(in_turn(Answer(tools=[ToolUse("plan", {"steps": steps})]), Answer(text="ok")))
    async with bench.agent(model) as agent:
        await agent.say(await agent.start(), "plan it")
        (plan,) = agent.watcher.of("plan")
        usage = agent.watcher.of("usage_update")
    assert [(entry.content, entry.status) for entry in plan.entries] == [("look", "completed"), ("leap", "pending")]
    assert [(update.used, update.size) for update in usage] == [(18, 128_000), (18, 128_000)]


async def test_cancelled_in_the_middle_of_an_answer(bench: Bench, model: ModelServer) -> None:
    half = Answer(text="half of an answer that goes on", piece=5, after=3, hang=True)
    model.play(in_turn(half, Answer(text="yes")))
    async with bench.agent(model) as agent:
        session = await agent.start()
        turn = asyncio.create_task(agent.say(session, "talk"))
        await agent.watcher.until(lambda seen: seen.text)
        await agent.connection.cancel(session_id=session)
        assert (await turn).stop_reason == "cancelled"
        shown = agent.watcher.text
        await agent.say(session, "are you there?")
    assert model.requests[-1].assistants == [shown]


async def test_cancelled_in_the_middle_of_a_command(bench: Bench, model: ModelServer) -> None:
    os.mkfifo(os.path.join(bench.cwd, "pipe"))
    calls = [ToolUse("bash", {"command": "cat pipe"}), ToolUse("bash", {"command": "touch second"})]
    model.play(in_turn(Answer(tools=calls), Answer(text="yes")))
    async with bench.agent(model, "anthropic", "--mode", "code") as agent:
        session = await agent.start()
        turn = asyncio.create_task(agent.say(session, "run"))
        await agent.watcher.until(lambda seen: any(u.status == "in_progress" for u in seen.of("tool_call_update")))
        await agent.connection.cancel(session_id=session)
        assert (await turn).stop_reason == "cancelled"
        await agent.say(session, "go on")
        assert not any(update.status == "completed" for update in agent.watcher.of("tool_call_update"))
    assert ["cancelled" in result.text for result in model.requests[-1].results] == [True, True]
    assert not os.path.exists(os.path.join(bench.cwd, "second"))


async def test_a_cancelled_question_cancels_the_turn(bench: Bench, model: ModelServer) -> None:
    model.play(in_turn(Answer(tools=[_WRITE])))
    async with bench.agent(model, verdicts=["cancel"]) as agent:
        assert (await agent.say(await agent.start(), "write")).stop_reason == "cancelled"


async def test_sessions_are_listed_by_folder(bench: Bench, model: ModelServer) -> None:
    model.play(Script(otherwise=Answer(text="ok")))
    async with bench.agent(model) as agent:
        session = await agent.start()
        await agent.say(session, "name me\nby my first line")
        listed = await agent.connection.list_sessions(cwd=bench.cwd)
        elsewhere = await agent.connection.list_sessions(cwd="/nowhere")
    assert [(info.session_id, info.title) for info in listed.sessions] == [(session, "name me by my first line")]
    assert elsewhere.sessions == []


@pytest.mark.parametrize("way", ["load", "resume"])
@pytest.mark.parametrize("session", ["hfb-" + "0" * 24, "../../etc/passwd", ""])
async def test_an_unknown_session_is_an_error(bench: Bench, model: ModelServer, way: str, session: str) -> None:
    async with bench.agent(model) as agent:
        with pytest.raises(RequestError, match="there is no session") as caught:
            await agent.come_back(session, way)
    assert caught.value.code == -32002


async def test_a_session_has_one_process(bench: Bench, model: ModelServer) -> None:
    async with bench.agent(model) as first:
        session = await first.start()
        async with bench.agent(model) as second:
            with pytest.raises(RequestError, match="open in another process"):
                await second.come_back(session, "load")


async def test_tools_of_an_mcp_server_are_offered_and_called(bench: Bench, model: ModelServer) -> None:
    name = "mcp__loud__shout"
    model.play(in_turn(Answer(tools=[ToolUse(name, {"text": "hi"})]), Answer(text="ok")))
    script = os.path.join(os.path.dirname(__file__), "mcp_server.py")
    server = McpServerStdio(
        name="loud", command=sys.executable, args=[script], env=[EnvVariable(name="SUFFIX", value="!")]
    )
    async with bench.agent(model, verdicts=["once"]) as agent:
        session = await agent.start([server])
        await agent.say(session, "shout")
        assert len(agent.watcher.asked) == 1
    assert name in model.requests[0].tools
    assert model.requests[1].results[0].text == "HI!"


@pytest.mark.parametrize(("server_name", "asked"), [("holdfast", 0), ("holdfast2", 1)])
async def test_own_mcp_server_is_called_without_asking(
    bench: Bench, model: ModelServer, server_name: str, asked: int
) -> None:
    """Known by the server that the client handed over, not by the name of a tool."""
    tool = ToolUse(f"mcp__{server_name}__note", {})
    model.play(in_turn(Answer(tools=[tool]), Answer(text="ok")))
    script = os.path.join(os.path.dirname(__file__), "quick_mcp_server.py")
    server = McpServerStdio(name=server_name, command=sys.executable, args=["-IS", script], env=[])
    async with bench.agent(model) as agent:
        await agent.say(await agent.start([server]), "note it")
        assert len(agent.watcher.asked) == asked
    assert model.requests[1].results[0].text == "it is noted"


@pytest.mark.parametrize(
    ("way", "told"), [("die", "holdfast ended during this call. It may or may not"), ("leave", "it is noted")]
)
async def test_an_mcp_server_that_ended_is_started_again_by_the_next_call(
    bench: Bench, model: ModelServer, way: str, told: str
) -> None:
    """Not by itself: a call of which the answer was lost may have had its effect."""
    calls = [ToolUse(f"mcp__holdfast__{tool}", {}) for tool in (way, "note", "note")]
    first, second, third = (Answer(tools=[call]) for call in calls)
    model.play(in_turn(first, replace(second, gate="it has ended"), third, Answer(text="ok")))
    script = os.path.join(os.path.dirname(__file__), "quick_mcp_server.py")
    server = McpServerStdio(name="holdfast", command=sys.executable, args=["-IS", script], env=[])
    async with bench.agent(model, "openai", "--mode", "code") as agent:
        turn = asyncio.create_task(agent.say(await agent.start([server]), "note it"))
        await model.asked(2)
        with open(os.path.join(bench.cwd, "server.pid"), encoding="utf-8") as file:
            pid = file.read()
        await until(lambda: not os.path.exists(f"/proc/{pid}"))
        model.open("it has ended")
        await turn
    lost, *others = (result.text for result in model.requests[-1].results)
    assert told in lost
    assert others == ["it is noted", "it is noted"]
    with open(os.path.join(bench.cwd, "noted.txt"), encoding="utf-8") as file:
        assert len(file.readlines()) == 3


async def test_an_mcp_server_that_ended_and_does_not_start_again_is_told_to_the_model(
    bench: Bench, model: ModelServer
) -> None:
    program = os.path.join(bench.cwd, "server")
    script = os.path.join(os.path.dirname(__file__), "quick_mcp_server.py")
    with open(program, "w", encoding="utf-8", opener=lambda path, flags: os.open(path, flags, 0o700)) as file:
        file.write(f"#!/bin/sh\nrm server\nexec {sys.executable} -IS {script}\n")
    calls = [ToolUse("mcp__once__die", {}), ToolUse("mcp__once__note", {})]
    model.play(in_turn(Answer(tools=calls), Answer(text="ok")))
    server = McpServerStdio(name="once", command=program, args=[], env=[])
    async with bench.agent(model, "openai", "--mode", "code") as agent:
        await agent.say(await agent.start([server]), "note it")
    assert "once had ended, and did not start again" in model.requests[-1].results[1].text


async def test_an_mcp_server_that_does_not_start_is_named(bench: Bench, model: ModelServer) -> None:
    server: Any = McpServerStdio(name="gone", command="/no/such/program", args=[], env=[])
    async with bench.agent(model) as agent:
        with pytest.raises(RequestError, match="gone"):
            await agent.start([server])


@pytest.mark.parametrize("provider", ["openai", "google"])
async def test_the_key_reaches_the_model_and_nothing_else(bench: Bench, model: ModelServer, provider: str) -> None:
    look = "env; tr '\\0' '\\n' < /proc/$PPID/environ; echo mark=$HOLDFAST_RUN plain=$PLAIN other=$OTHER"
    model.play(
        in_turn(
            Answer(tools=[ToolUse("bash", {"command": look}), ToolUse("bash", {"command": f"echo {KEY}"})]),
            Answer(text=f"the key is {KEY}"),
        )
    )
    options = ["--mode", "code", "--pass-env", "PLAIN"]
    variables: dict[str, Any] = {
        "HOLDFAST_RUN": "r1",
        "PLAIN": "p",
        "OTHER": "o",
        "MY_TOKEN": "t-123456789",
        "ALIAS": KEY,
    }
    async with bench.agent(model, provider, *options, **variables) as agent:
        session = await agent.start()
        await agent.say(session, "look around")
        shown = str(agent.watcher.updates)
    headers = model.requests[0].headers
    assert KEY in (headers.get("authorization", "") + headers.get("x-goog-api-key", ""))
    seen, echoed = (result.text for result in model.requests[1].results)
    assert KEY not in seen
    assert "t-123456789" not in seen.partition("PATH=")[0]
    assert "mark=r1 plain=p other=\n" in seen
    assert echoed == "[redacted]\n"
    with open(os.path.join(bench.home, "builtin", "sessions", f"{session}.jsonl"), encoding="utf-8") as file:
        kept = file.read()
    assert KEY not in kept
    assert KEY not in shown
    with open(bench.errors, encoding="utf-8") as file:
        assert KEY not in file.read()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "no model"),
        (["--model", "gpt-5"], "PROVIDER:NAME"),
        (["--model", "nobody:x"], "PROVIDER is one of"),
        (["--model", "anthropic:x"], "ANTHROPIC_API_KEY"),
    ],
)
def test_bad_usage_is_one_line(arguments: list[str], said: str) -> None:
    out = _run("", arguments)
    assert said in out
    assert out.count("\n") == 1


@pytest.mark.parametrize("library", ["pydantic_ai", "acp", "mcp"])
def test_without_the_extra_it_says_how_to_get_it(library: str) -> None:
    out = _run(f"sys.modules['{library}'] = None", ["--model", "openai:x", "--base-url", "http://127.0.0.1:9"])
    assert "pip install 'holdfast[builtin]'" in out


def _run(before: str, arguments: list[str]) -> str:
    program = f"import sys; {before}\nfrom holdfast.app.cli.programs.agent_builtin import run\n"
    program += "try: run(sys.argv[1:])\nexcept Exception as error: print(error)"
    environment = {name: value for name, value in os.environ.items() if name not in VARIABLES.values()}
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
