"""A turn with each provider: text, tools, results, usage."""

import asyncio
import os

import pytest

from tests.agents.builtin.driving import VARIABLES, Bench
from tests.support.model_server.script import Answer, ToolUse, Usage, in_turn
from tests.support.model_server.server import ModelServer


@pytest.mark.parametrize("provider", VARIABLES)
async def test_the_model_writes_a_file_and_says_so(bench: Bench, model: ModelServer, provider: str) -> None:
    model.play(
        in_turn(
            Answer(
                text="I will write it.",
                thinking="hm" if provider != "openai" else "",
                tools=[ToolUse("write", {"path": "a/b.txt", "content": "hello\n"})],
                usage=Usage(100, 20),
            ),
            Answer(text="Done.", usage=Usage(150, 5)),
        )
    )
    async with bench.agent(model, provider, "--mode", "code") as agent:
        session = await agent.start()
        answer = await agent.say(session, "write hello")
        watcher = agent.watcher
    with open(os.path.join(bench.cwd, "a/b.txt"), encoding="utf-8") as file:
        assert file.read() == "hello\n"
    assert (answer.stop_reason, answer.usage.input_tokens, answer.usage.output_tokens) == ("end_turn", 250, 25)
    assert watcher.text == "I will write it.Done."
    (call,) = watcher.of("tool_call")
    assert (call.kind, call.locations[0].path) == ("edit", os.path.join(bench.cwd, "a/b.txt"))
    assert (call.content[0].type, call.content[0].new_text, call.content[0].old_text) == ("diff", "hello\n", None)
    assert [update.status for update in watcher.of("tool_call_update")] == ["in_progress", "completed"]
    assert watcher.of("tool_call_update")[-1].content is None  # the diff stays
    second = model.requests[1]
    assert second.users == ["write hello"]
    assert [result.text for result in second.results] == ["made a/b.txt"]
    assert {"read", "write", "edit", "glob", "grep", "bash"} <= set(second.tools)


async def test_a_new_process_comes_up_and_goes_down_with_its_client(bench: Bench, model: ModelServer) -> None:
    model.play(in_turn(Answer(text="hello")))
    async with bench.agent(model, "openai", fresh=True) as agent:
        session = await agent.start()
        assert (await agent.say(session, "hi")).stop_reason == "end_turn"
        agent.hang_up()
        _, status = await asyncio.to_thread(os.waitpid, agent.pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    with open(bench.errors, encoding="utf-8") as file:
        assert file.read() == ""


async def test_the_output_of_a_command_is_shown(bench: Bench, model: ModelServer) -> None:
    model.play(in_turn(Answer(tools=[ToolUse("bash", {"command": "echo hello; exit 1"})]), Answer(text="ok")))
    async with bench.agent(model, "openai", "--mode", "code") as agent:
        await agent.say(await agent.start(), "run")
        (call,) = agent.watcher.of("tool_call")
        last = agent.watcher.of("tool_call_update")[-1]
    assert (call.kind, call.title) == ("execute", "Run echo hello; exit 1")
    assert (last.status, last.content[0].content.text) == ("failed", "hello\n\n[exit code 1]")
