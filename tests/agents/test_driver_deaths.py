"""Facts of speaking with an agent: every death and every refusal has a name, and nothing is left of it."""

import os

import pytest

from holdfast.agents.acp.driver import AgentConnection, AgentExited, AgentRefused
from holdfast.core.events import Event
from holdfast.core.events.conversation import ToolCalled, ToolReturned
from holdfast.leaf.errors import StorageFailed
from tests.agents.company import Company, is_alive, shell, text, zombies
from tests.support.pids import descendants_of


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("kill", "SIGKILL"),
        ("abort", "SIGABRT"),
        ("segfault", "SIGSEGV"),
        ("{how: exit, code: 9}", "exited with code 9"),
    ],
)
async def test_a_death_in_a_turn_is_told_with_its_way_and_its_last_words(company: Company, how: str, told: str) -> None:
    async with company.playing(f"turns: [[say: last words, tool: work, crash: {how}]]") as (agent, opened):
        with pytest.raises(AgentExited, match=told):
            await agent.prompt(opened.session_id, text())
    await company.book.store(*agent.recorder.final_events())
    assert company.book.said() == "last words"
    calls = [event for event in company.book.events if isinstance(event, ToolCalled | ToolReturned)]
    assert [type(call) for call in calls] == [ToolCalled, ToolReturned]
    assert isinstance(calls[1], ToolReturned)
    assert calls[1].status == "interrupted"


async def test_a_death_before_the_greeting_is_told(company: Company) -> None:
    async with company.speaking("{start: [crash: {how: exit, code: 5}], turns: []}") as agent:
        with pytest.raises(AgentExited, match="initialize: it exited with code 5"):
            await agent.initialize()


async def test_speaking_to_the_dead_is_a_death_at_once(company: Company) -> None:
    async with company.playing("turns: [[crash: kill]]") as (agent, opened):
        for _ in range(2):
            with pytest.raises(AgentExited, match="SIGKILL"):
                await agent.prompt(opened.session_id, text())
        with pytest.raises(AgentExited):
            await agent.cancel(opened.session_id)


async def test_a_death_is_learned_though_an_orphan_holds_the_pipe(company: Company) -> None:
    script = """
        turns:
          - - run: {command: sleep 600, background: true, apart: session}
            - say: "{{result}}"
            - crash: kill
    """
    async with company.playing(script) as (agent, opened):
        with pytest.raises(AgentExited, match="SIGKILL"):
            await agent.prompt(opened.session_id, text())
        await agent.recorder.flush()
    assert not is_alive(int(company.book.said()))


async def test_an_agent_that_hangs_up_and_lives_is_dead_for_us(company: Company) -> None:
    async with company.speaking(shell(company.cwd, "read line; exec >&- 2>&-; sleep 600")) as agent:
        with pytest.raises(AgentExited, match="closed its output, but is still running"):
            await agent.initialize()
    assert not agent.tree.identity.is_alive()


async def test_a_refusal_keeps_its_code_and_data_and_the_connection(company: Company) -> None:
    script = """
        agent: {load: {how: refuses, error: -32603, message: no such session}}
        turns: [[error: {code: -32000, message: usage limit reached, data: {resets_in: 60}}], [say: on again]]
    """
    async with company.playing(script) as (agent, opened):
        with pytest.raises(AgentRefused, match="usage limit reached") as raised:
            await agent.prompt(opened.session_id, text())
        assert (raised.value.code, raised.value.data) == (-32000, {"resets_in": 60})
        with pytest.raises(AgentRefused, match="no such session") as raised:
            await agent.load_session(opened.session_id)
        assert raised.value.code == -32603
        assert (await agent.prompt(opened.session_id, text())).reason == "end_turn"


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (
            "{details: its own program exited with code 1}",
            "Internal error: its own program exited with code 1 (-32603)",
        ),
        ("no more\\nof it", "Internal error: no more of it (-32603)"),
        ("{session: s-1}", "Internal error (-32603)"),
    ],
)
async def test_the_reason_that_stands_beside_the_message_of_a_refusal_is_told(
    company: Company, data: str, told: str
) -> None:
    script = f"""
        turns: [[error: {{code: -32603, message: Internal error, data: {data if "{" in data else f'"{data}"'}}}]]
    """
    async with company.playing(script) as (agent, opened):
        with pytest.raises(AgentRefused) as raised:
            await agent.prompt(opened.session_id, text())
    assert str(raised.value) == f"the agent refused session/prompt: {told}"


@pytest.mark.parametrize("answer", ['"result":"hello"', '"result":{"protocolVersion":[]}', '"error":"no"'])
async def test_an_answer_that_cannot_be_read_is_a_refusal(company: Company, answer: str) -> None:
    script = f"""read line; echo '{{"jsonrpc":"2.0","id":0,{answer}}}'; cat > /dev/null"""
    async with company.speaking(shell(company.cwd, script)) as agent:
        with pytest.raises(AgentRefused, match="initialize"):
            await agent.initialize()


async def test_a_log_that_cannot_be_written_is_not_taken_for_a_death(company: Company) -> None:
    async def full(*events: Event) -> None:
        raise StorageFailed("the disk is full")

    async with company.playing("turns: [[tool: work, hang: turn]]") as (agent, opened):
        agent.recorder._store = full
        with pytest.raises(StorageFailed):
            await agent.prompt(opened.session_id, text())


@pytest.mark.parametrize("apart", ["same", "group", "session", "daemon"])
@pytest.mark.parametrize("clear", ["false", "true"])
async def test_what_an_agent_left_running_is_dead_when_it_is_left(company: Company, apart: str, clear: str) -> None:
    before = descendants_of(os.getpid())  # what other tests left may die now
    script = f"""
        agent: {{wrapper: true}}
        turns:
          - - run: {{command: exec /bin/sleep 600, background: true, apart: {apart}, clear_env: {clear}}}
            - say: "{{{{result}}}} {{{{pid}}}}"
    """
    async with company.playing(script) as (agent, opened):
        await agent.prompt(opened.session_id, text())
        await agent.recorder.flush()
        left, real = map(int, company.book.said().split())
        assert is_alive(left)
        assert real != agent.tree.identity.pid
    assert not is_alive(left)
    assert not is_alive(real)
    assert zombies() <= before


async def test_an_agent_that_ignores_its_end_is_ended(company: Company) -> None:
    async with company.playing("{agent: {ignores: [eof, sigterm]}, turns: []}") as (agent, _):
        pass
    assert not agent.tree.identity.is_alive()


async def test_an_error_in_the_context_leaves_nothing_behind(company: Company) -> None:
    agents: list[AgentConnection] = []

    async def work() -> None:
        async with company.playing("turns: []") as (agent, _):
            agents.append(agent)
            raise KeyError

    with pytest.raises(KeyError):
        await work()
    assert not agents[0].tree.identity.is_alive()
