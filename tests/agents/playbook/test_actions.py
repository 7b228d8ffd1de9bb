"""Real edits, real commands, real MCP servers."""

import os
import sys

import acp
import pytest
from acp import schema

from tests.agents.playbook.driver import Agent, Stagehand, is_alive
from tests.support.wait import until

HERE = os.getcwd()


def tiny(name: str = "tiny", **env: str) -> schema.McpServerStdio:
    given = [schema.EnvVariable(name=key, value=value) for key, value in {"PYTHONPATH": HERE, **env}.items()]
    arguments = ["-m", "tests.support.mcp_server"]
    return schema.McpServerStdio(name=name, command=sys.executable, args=arguments, env=given)


@pytest.mark.parametrize("via", ["direct", "client"])
async def test_files_are_really_edited_and_shown_as_tool_calls(stage: Stagehand, via: str) -> None:
    agent = await stage.play(
        f"""
        turns:
          - steps:
              - write: {{path: a.txt, text: "one\\ntwo\\n", via: {via}}}
              - append: {{path: a.txt, text: "three\\n", via: {via}}}
              - replace: {{path: a.txt, old: two, new: 2, via: {via}}}
              - read: {{path: a.txt, line: 2, limit: 1, via: {via}}}
              - say: "{{{{result}}}}"
              - write: {{path: gone.txt, text: x, via: {via}, shown: false}}
              - delete: gone.txt
    """.replace("new: 2,", "new: '2',")
    )
    await agent.prompt()
    assert stage.read("a.txt") == "one\n2\nthree\n"
    assert agent.text == "2\n"
    assert not os.path.exists(stage.path("gone.txt"))
    assert agent.client.called == (
        ["write", "read", "write", "read", "write", "read", "write"] if via == "client" else []
    )
    started = agent.of_kind("tool_call")
    assert [one["kind"] for one in started] == ["edit", "edit", "edit", "read", "delete"]
    ended = agent.of_kind("tool_call_update")
    assert {one["status"] for one in ended} == {"completed"}
    assert ended[1]["content"] == [
        {"type": "diff", "path": stage.path("a.txt"), "oldText": "one\ntwo\n", "newText": "one\ntwo\nthree\n"}
    ]


@pytest.mark.parametrize("via", ["direct", "client"])
async def test_a_command_is_really_run(stage: Stagehand, via: str) -> None:
    agent = await stage.play(f"""
        turns:
          - steps:
              - run: {{command: 'pwd; echo $WORD; exit 3', env: {{WORD: "{{{{prompt}}}}"}}, via: {via}}}
              - say: "{{{{exit}}}} {{{{result}}}}"
    """)
    await agent.prompt("hi")
    assert agent.text == f"3 {stage.cwd}\nhi\n"
    assert agent.client.called == (["terminal", "release"] if via == "client" else [])


async def test_a_cancel_kills_the_command(stage: Stagehand) -> None:
    agent = await stage.play("turns: [[run: 'echo $$ > pid; sleep 600; true']]")
    asking = agent.asking()
    await until(lambda: os.path.exists(stage.path("pid")) and stage.read("pid").endswith("\n"))
    await agent.cancel()
    assert (await asking).stop_reason == "cancelled"
    await until(lambda: not is_alive(int(stage.read("pid"))))


async def _left_running(stage: Stagehand, apart: str) -> tuple[Agent, int]:
    command = "while [ ! -e stop ]; do echo x >> log; sleep 0.01; done"
    agent = await stage.play(f"""
        turns:
          - steps:
              - run: {{command: '{command}', background: true, apart: {apart}, env: {{MARK: mine}}}}
              - say: "{{{{result}}}}"
    """)
    await agent.prompt()
    await until(lambda: os.path.exists(stage.path("log")))
    return agent, int(agent.text)


@pytest.mark.parametrize("apart", ["same", "group", "session", "daemon"])
async def test_what_is_left_running_still_writes_when_the_agent_is_dead(stage: Stagehand, apart: str) -> None:
    agent, pid = await _left_running(stage, apart)
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            assert b"MARK=mine" in file.read()
        group, session = os.getpgid(pid), os.getsid(pid)
        assert (group == os.getpgid(agent.process.pid)) == (apart == "same")
        assert (session == os.getsid(agent.process.pid)) == (apart in ("same", "group"))
        await agent.kill()
        size = os.path.getsize(stage.path("log"))
        await until(lambda: os.path.getsize(stage.path("log")) > size)
    finally:
        stage.put("stop", "")
        await until(lambda: not is_alive(pid))


async def test_tools_of_a_real_mcp_server_are_called(stage: Stagehand) -> None:
    script = """
        turns:
          - steps:
              - mcp: {tool: add, arguments: {a: 1, b: 2}, say: true}
              - mcp: {server: tiny, tool: environment, arguments: {name: WORD}}
              - say: " {{result}} "
              - mcp: {tool: fail, arguments: {why: "because of {{prompt}}"}, expect: error, say: true}
              - mcp_tools: {server: tiny}
              - say: " {{result}}"
              - mcp: {tool: pid}
              - write: {path: pid, text: "{{result}}", shown: false}
          - steps: [mcp: {tool: fail, arguments: {why: unexpected}}]
          - steps: [mcp: {server: other, tool: add}]
    """
    agent = await stage.play(script, tiny(WORD="word"))
    await agent.prompt("you")
    assert agent.text.startswith("3 word ")
    assert "because of you" in agent.text
    assert agent.text.endswith(" add, environment, fail, pid")
    with pytest.raises(acp.RequestError, match=r"expected result, got: .*unexpected"):
        await agent.prompt()
    with pytest.raises(acp.RequestError, match="gave no MCP server other; it gave: tiny"):
        await agent.prompt()
    assert agent.process.stdin is not None
    agent.process.stdin.close()
    assert await agent.gone() == 0
    await until(lambda: not is_alive(int(stage.read("pid"))))


async def test_a_command_without_the_agents_environment_does_not_carry_its_marks(stage: Stagehand) -> None:
    agent = await stage.play(
        "turns: [[run: {command: 'echo [$MARK]', clear_env: true}, say: '{{result}}']]", MARK="mine"
    )
    await agent.prompt()
    assert agent.text == "[]\n"


async def test_it_waits_for_a_file_to_come_and_to_go(stage: Stagehand) -> None:
    stage.put("busy", "")
    agent = await stage.play("""
        turns:
          - steps: [wait_for: go, say: came, wait_for: {path: busy, gone: true}, say: " went"]
          - steps: [wait_for: {path: never, timeout: 0.01}]
    """)
    asking = agent.asking()
    stage.put("go", "")
    await agent.until(lambda agent: agent.text == "came")
    os.unlink(stage.path("busy"))
    await asking
    assert agent.text == "came went"
    with pytest.raises(acp.RequestError, match="never is not there after"):
        await agent.prompt()
