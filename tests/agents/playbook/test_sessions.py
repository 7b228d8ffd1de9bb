"""Sessions: capabilities, real SIGKILL with load and resume, and every way in which reopening fails."""

import asyncio
import os
import signal
from contextlib import suppress

import acp
import pytest

from tests.agents.playbook.driver import Agent, Stagehand

TURNS = """
turns:
  - steps: [say: first, write: {path: a.txt, text: x}]
  - steps: [say: second, crash: {once: true}, say: " survived", echo_memory: {prefix: " "}]
  - steps: [echo_memory: {prefix: ""}]
"""


def script(agent: str = "", sessions: str = "") -> str:
    return f"agent: {{{agent}}}\nsessions: {{{sessions}}}\n{TURNS}"


async def killed(stage: Stagehand, text: str) -> Agent:
    """An agent that played a turn and died in the next."""
    agent = await stage.play(text)
    await agent.prompt("one")
    with pytest.raises(ConnectionError):
        await agent.prompt("two")
    assert await agent.gone() == -signal.SIGKILL
    return agent


async def test_the_capabilities_are_those_of_the_script(stage: Stagehand) -> None:
    agent = await stage.spawn("""
        agent:
          {name: Ann, version: "7", protocol: 3, accepts: [image, audio, embedded_context], mcp: [http],
           load: absent, resume: {how: absent, advertised: true}, fork: absent, close: absent}
    """)
    told = await agent.initialize()
    can = told.agent_capabilities
    assert told.protocol_version == 3
    assert told.agent_info is not None
    assert (told.agent_info.name, told.agent_info.version) == ("Ann", "7")
    assert can is not None
    assert can.load_session is False
    assert can.prompt_capabilities is not None
    assert (can.prompt_capabilities.image, can.prompt_capabilities.embedded_context) == (True, True)
    assert can.mcp_capabilities is not None
    assert (can.mcp_capabilities.http, can.mcp_capabilities.sse) == (True, False)
    assert can.session_capabilities is not None
    assert can.session_capabilities.resume is not None
    assert can.session_capabilities.list is not None
    assert can.session_capabilities.fork is None
    for reopening in (agent.load, agent.resume):
        with pytest.raises(acp.RequestError) as absent:
            await reopening("play-1", stage.cwd)
        assert absent.value.code == -32601


async def test_after_a_sigkill_load_brings_the_conversation_back_and_replays_it(stage: Stagehand) -> None:
    before = await killed(stage, script())
    agent = await stage.start(script())
    await agent.load(before.session, stage.cwd)
    kinds = [update["sessionUpdate"] for update in agent.updates]
    assert kinds == [
        "user_message_chunk",
        "agent_message_chunk",
        "tool_call",
        "tool_call_update",
        "user_message_chunk",
        "agent_message_chunk",
    ]
    agent.updates.clear()
    await agent.prompt("three")
    assert agent.text == 'second survived ["one","two"]', "the interrupted turn is played again, and dies once only"
    await agent.prompt("four")
    assert agent.text.endswith('["one","two","three"]')


async def test_resume_brings_it_back_without_a_replay_unless_scripted(stage: Stagehand) -> None:
    before = await killed(stage, script())
    agent = await stage.start(script())
    await agent.resume(before.session, stage.cwd)
    assert agent.updates == []
    await agent.prompt("three")
    assert '["one","two"]' in agent.text
    replaying = await stage.start(script("resume: {replay: true}"))
    await replaying.resume(before.session, stage.cwd)
    assert replaying.text.startswith("first")


@pytest.mark.parametrize(
    ("how", "call", "title"),
    [
        ("same", "call-1", "Write a.txt"),
        ("new_ids", "replayed-call-1", "Write a.txt"),
        ("new_titles", "call-1", "Replayed: Write a.txt"),
    ],
)
async def test_a_replay_may_call_old_tool_calls_by_new_names(stage: Stagehand, how: str, call: str, title: str) -> None:
    before = await killed(stage, script())
    agent = await stage.start(script(f"load: {{tool_calls: {how}}}"))
    await agent.load(before.session, stage.cwd)
    (replayed,) = agent.of_kind("tool_call")
    assert (replayed["toolCallId"], replayed["title"]) == (call, title)


@pytest.mark.parametrize("code", [-32002, -32602, -32603])
async def test_reopening_may_be_refused_with_any_code(stage: Stagehand, code: int) -> None:
    agent = await stage.play(script(f"load: {{how: refuses, error: {code}, message: sorry}}", f"unknown: {code}"))
    with pytest.raises(acp.RequestError, match="sorry") as refused:
        await agent.load(agent.session, stage.cwd)
    with pytest.raises(acp.RequestError) as unknown:
        await agent.resume("../../etc/passwd", stage.cwd)
    assert (refused.value.code, unknown.value.code) == (code, code)


async def test_reopening_may_hang_while_the_agent_answers_others(stage: Stagehand) -> None:
    agent = await stage.play(script("load: hangs"))
    loading = asyncio.create_task(agent.load(agent.session, stage.cwd))
    await agent.prompt("one")
    assert not loading.done()
    loading.cancel()
    with suppress(asyncio.CancelledError):
        await loading


async def test_reopening_may_lie(stage: Stagehand) -> None:
    before = await killed(stage, script())
    agent = await stage.start(script("load: gone, resume: starts_new"))
    with pytest.raises(acp.RequestError) as gone:
        await agent.load(before.session, stage.cwd)
    assert gone.value.code == -32002
    await agent.resume(before.session, stage.cwd)
    await agent.prompt("three")
    assert agent.text == "first", "quietly a new conversation"
    other = await stage.start(script(sessions="unknown: new"))
    await other.load("play-unheard-of", stage.cwd)
    assert other.updates == []
    await other.prompt()
    assert other.text == "first"


async def test_another_folder_may_be_too_much_for_a_session(stage: Stagehand) -> None:
    before = await killed(stage, script())
    agent = await stage.start(script("load: {other_cwd: refuses}, resume: {other_cwd: works}"))
    with pytest.raises(acp.RequestError) as refused:
        await agent.load(before.session, stage.folder)
    assert refused.value.code == -32002
    await agent.resume(before.session, stage.folder)
    await agent.load(before.session, stage.folder)


async def test_the_killed_turns_message_may_be_forgotten(stage: Stagehand) -> None:
    text = script(sessions="forgets_killed_prompt: true")
    before = await killed(stage, text)
    agent = await stage.start(text)
    await agent.load(before.session, stage.cwd)
    assert len(agent.of_kind("user_message_chunk")) == 1
    await agent.prompt("three")
    assert agent.text.endswith('["one"]')


async def test_a_session_saved_at_turn_ends_loses_the_killed_turn_and_an_unfinished_first_one(
    stage: Stagehand,
) -> None:
    text = script(sessions="save: turn")
    before = await killed(stage, text)
    agent = await stage.start(text)
    await agent.load(before.session, stage.cwd)
    await agent.prompt("three")
    assert agent.text.endswith(' ["one"]')
    unsaved = await stage.play("sessions: {save: turn}\nturns: [[crash: kill]]")
    with pytest.raises(ConnectionError):
        await unsaved.prompt()
    again = await stage.start(text)
    with pytest.raises(acp.RequestError) as unknown:
        await again.load(unsaved.session, stage.cwd)
    assert unknown.value.code == -32002


@pytest.mark.parametrize(
    ("interrupted", "said"),
    [("again", 'second survived ["one","two"]'), ("continue", ' survived ["one","two"]'), ("next", '["one","two"]')],
)
async def test_an_interrupted_turn_is_played_again_gone_on_with_or_left(
    stage: Stagehand, interrupted: str, said: str
) -> None:
    text = script(sessions=f"interrupted: {interrupted}")
    before = await killed(stage, text)
    agent = await stage.start(text)
    await agent.resume(before.session, stage.cwd)
    await agent.prompt("three")
    assert agent.text == said


async def test_sessions_are_listed_forked_and_closed(stage: Stagehand) -> None:
    agent = await stage.play(script())
    await agent.prompt("one")
    fork = await agent.connection.fork_session(session_id=agent.session, cwd=stage.cwd)
    listed = await agent.connection.list_sessions(cwd=stage.cwd)
    assert {one.session_id for one in listed.sessions} == {agent.session, fork.session_id}
    assert (await agent.connection.list_sessions(cwd="/nowhere")).sessions == []
    await agent.connection.close_session(session_id=agent.session)
    with pytest.raises(acp.RequestError):
        await agent.prompt("two")
    files = sorted(os.listdir(os.path.join(stage.state, "sessions")))
    assert files == sorted(f"{name}.json" for name in (agent.session, fork.session_id)), "and no half-written one"


async def test_a_login_may_be_needed_and_may_fail(stage: Stagehand) -> None:
    agent = await stage.spawn("agent: {auth: {id: key, name: A key}}")
    told = await agent.initialize()
    assert [way.id for way in told.auth_methods or []] == ["key"]
    with pytest.raises(acp.RequestError) as needed:
        await agent.new(stage.cwd)
    assert needed.value.code == -32000
    await agent.connection.authenticate(method_id="key")
    await agent.new(stage.cwd)
    failing = await stage.start("agent: {auth: {id: key, passes: false}}")
    with pytest.raises(acp.RequestError, match="the login failed"):
        await failing.connection.authenticate(method_id="key")


async def test_a_new_session_and_even_the_first_handshake_may_be_refused(stage: Stagehand) -> None:
    agent = await stage.start("agent: {new: {how: refuses, message: full}}")
    with pytest.raises(acp.RequestError, match="full"):
        await agent.new(stage.cwd)
    rude = await stage.spawn("agent: {initialize: refuses}")
    with pytest.raises(acp.RequestError, match="the playbook refuses"):
        await rude.initialize()
