"""SIGKILL at each step of a turn: the next process has the conversation, and no tool runs twice."""

import os

import pytest

from tests.agents.builtin.driving import VARIABLES, Bench, Driven
from tests.support.model_server.script import Answer, Rule, Script, ToolUse
from tests.support.model_server.server import ModelServer
from tests.support.wait import until

_TOUCH = ToolUse("bash", {"command": "echo ran >> ran.txt"}, id="call-touch")
_STUCK = ToolUse("bash", {"command": "echo began >> ran.txt; exec cat pipe"}, id="call-stuck")
_NEXT = Rule(Answer(text="I see where we were."), user="go on", times=1)


def _ran(bench: Bench) -> int:
    try:
        with open(os.path.join(bench.cwd, "ran.txt"), encoding="utf-8") as file:
            return len(file.readlines())
    except FileNotFoundError:
        return 0


async def _killed(agent: Driven, session: str, at: object) -> None:
    """Begin a turn, wait for the point, kill."""
    import asyncio  # noqa: PLC0415

    turn = asyncio.create_task(agent.say(session, "do the work"))
    await at  # type: ignore[misc]
    agent.kill()
    await asyncio.wait({turn})
    assert turn.exception() is not None


@pytest.mark.parametrize("way", ["load", "resume"])
async def test_killed_while_the_first_answer_is_awaited(bench: Bench, model: ModelServer, way: str) -> None:
    model.play(Script([_NEXT, Rule(Answer(hang=True))]))
    async with bench.agent(model) as agent:
        session = await agent.start()
        await _killed(agent, session, model.asked(1))
    async with bench.agent(model) as agent:
        await agent.come_back(session, way)
        assert (await agent.say(session, "go on")).stop_reason == "end_turn"
    assert "\n".join(model.requests[-1].users) == "do the work\ngo on"


async def test_killed_in_the_middle_of_an_answer(bench: Bench, model: ModelServer) -> None:
    model.play(Script([_NEXT, Rule(Answer(text="a long answer, half of it", piece=4, after=4, hang=True))]))
    async with bench.agent(model) as agent:
        session = await agent.start()
        await _killed(agent, session, agent.watcher.until(lambda seen: seen.text))
    async with bench.agent(model) as agent:
        await agent.come_back(session, "resume")
        await agent.say(session, "go on")
    assert model.requests[-1].assistants == []  # half an answer is none
    assert "do the work" in model.requests[-1].all_text


@pytest.mark.parametrize("provider", VARIABLES)
async def test_killed_while_a_command_runs_it_is_marked_and_not_run_again(
    bench: Bench, model: ModelServer, provider: str
) -> None:
    os.mkfifo(os.path.join(bench.cwd, "pipe"))
    model.play(Script([_NEXT, Rule(Answer(text="Running.", tools=[_TOUCH, _STUCK]), times=1)]))
    async with bench.agent(model, provider, "--mode", "code") as agent:
        session = await agent.start()
        await _killed(agent, session, until(lambda: _ran(bench) == 2))
    async with bench.agent(model, provider, "--mode", "code") as agent:
        await agent.come_back(session, "load")
        statuses = [update.status for update in agent.watcher.of("tool_call_update")]
        await agent.say(session, "go on")
    assert statuses == ["completed", "failed"]
    assert _ran(bench) == 2
    last = model.requests[-1]
    assert len(last.calls) == len(last.results) == 2
    assert "no output" in last.results[0].text
    assert "interrupted" in last.results[1].text
    assert "may or may not" in last.results[1].text
    assert last.last_user.endswith("go on")


async def test_what_a_killed_agents_command_left_is_ended_before_it_goes_on(bench: Bench, model: ModelServer) -> None:
    os.mkfifo(os.path.join(bench.cwd, "pipe"))
    leaving = (
        "(setsid bash -c 'trap \"\" TERM; echo up > ready; sleep 300' &); until [ -e ready ]; do :; done; cat pipe"
    )
    model.play(Script([_NEXT, Rule(Answer(tools=[ToolUse("bash", {"command": leaving})]), times=1)]))
    ready = os.path.join(bench.cwd, "ready")
    async with bench.agent(model, "openai", "--mode", "code") as agent:
        session = await agent.start()
        await _killed(agent, session, until(lambda: os.path.exists(ready)))
    assert _at_work(bench.cwd) != []
    async with bench.agent(model, "openai", "--mode", "code") as agent:
        await agent.come_back(session, "resume")
        assert _at_work(bench.cwd, besides=agent.pid) == []
        await agent.say(session, "go on")


async def test_killed_while_permission_is_asked_the_call_was_not_run(bench: Bench, model: ModelServer) -> None:
    model.play(Script([_NEXT, Rule(Answer(tools=[_TOUCH]), times=1)]))
    async with bench.agent(model, verdicts=["wait"]) as agent:
        session = await agent.start()
        await _killed(agent, session, agent.watcher.until(lambda seen: seen.asked))
    async with bench.agent(model) as agent:
        await agent.come_back(session, "resume")
        await agent.say(session, "go on")
    assert _ran(bench) == 0
    assert "was not run" in model.requests[-1].results[0].text


async def test_killed_after_a_result_it_goes_on_from_there(bench: Bench, model: ModelServer) -> None:
    model.play(Script([_NEXT, Rule(Answer(text="One.", tools=[_TOUCH]), times=1), Rule(Answer(hang=True), times=1)]))
    async with bench.agent(model, "anthropic", "--mode", "code") as agent:
        session = await agent.start()
        await _killed(agent, session, model.asked(2))
    async with bench.agent(model, "anthropic", "--mode", "code") as agent:
        await agent.come_back(session, "load")
        replayed = agent.watcher
        await agent.say(session, "go on")
        assert [update.content.text for update in replayed.of("user_message_chunk")] == ["do the work"]
        assert replayed.text == "One.I see where we were."
    assert _ran(bench) == 1
    last = model.requests[-1]
    assert (last.assistants, [call.id for call in last.calls]) == (["One."], ["call-touch"])
    assert "no output" in last.results[0].text


async def test_the_mode_and_what_was_allowed_survive(bench: Bench, model: ModelServer) -> None:
    touches = [Rule(Answer(tools=[_TOUCH]), user="touch", times=1), Rule(Answer(text="ok"), user="touch", times=1)]
    model.play(Script([*touches, *touches, _NEXT]))
    async with bench.agent(model, verdicts=["always"]) as agent:
        session = await agent.start()
        await agent.say(session, "touch")
        agent.kill()
    async with bench.agent(model) as agent:
        await agent.come_back(session, "resume")
        await agent.say(session, "touch")
        assert agent.watcher.asked == []
        await agent.connection.set_session_mode(session_id=session, mode_id="code")
        agent.kill()
    async with bench.agent(model) as agent:
        await agent.connection.initialize(protocol_version=1)
        loaded = await agent.connection.load_session(cwd=bench.cwd, session_id=session)
        assert loaded.modes is not None
        assert loaded.modes.current_mode_id == "code"
    assert _ran(bench) == 2


async def test_half_a_line_at_the_end_is_set_aside(bench: Bench, model: ModelServer) -> None:
    model.play(Script([_NEXT, Rule(Answer(text="hello"))]))
    async with bench.agent(model) as agent:
        session = await agent.start()
        await agent.say(session, "hi")
    folder = os.path.join(bench.home, "builtin", "sessions")
    with open(os.path.join(folder, f"{session}.jsonl"), "ab") as file:
        file.write(b'{"type":"message","mess')
    async with bench.agent(model) as agent:
        await agent.come_back(session, "resume")
        await agent.say(session, "go on")
    assert model.requests[-1].assistants == ["hello"]
    assert any(".torn-" in name for name in os.listdir(folder))


def _at_work(folder: str, besides: int = 0) -> list[int]:
    """The processes that stand in a folder; the agent itself is one."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{pid}/cwd") == folder and int(pid) != besides:
                found.append(int(pid))
        except OSError:
            continue
    return found
