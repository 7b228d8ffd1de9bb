"""Facts of speaking with an agent: what it says is heard in its order, and what it should not say breaks nothing."""

import asyncio

import pytest

from holdfast.agents.acp.driver import AgentSession, PromptResult
from holdfast.core.events.conversation import AgentMisbehaved
from tests.agents.company import Company, shell, text
from tests.support.wait import PATIENCE, until


async def test_an_agent_tells_what_it_is_and_can_do(company: Company) -> None:
    script = """
        agent: {name: ada, version: "1", load: works, resume: absent, fork: absent, auth: {id: key, required: false}}
        turns: []
    """
    async with company.speaking(script) as agent:
        greeting = await agent.initialize()
    assert (greeting.program, greeting.version, greeting.login_methods) == ("ada", "1", ("key",))
    assert greeting.can_load
    assert not greeting.can_resume
    assert not greeting.can_fork


async def test_a_turn_is_written_down_in_its_order(company: Company) -> None:
    script = """
        turns:
          - - {say: "I "}
            - {say: look.}
            - {run: echo hello}
            - {say: Done.}
            - {end: {reason: max_tokens, usage: {input: 5, output: 7}}}
    """
    async with company.playing(script) as (agent, opened):
        ended = await agent.prompt(opened.session_id, text())
        await agent.recorder.flush()
    assert ended == PromptResult("max_tokens", 5, 7)
    kinds = [type(event).__name__ for event in company.book.events]
    assert kinds == ["MessageRecorded", "ToolCalled", "ToolReturned", "MessageRecorded"]
    assert company.book.said() == "I look.Done."


@pytest.mark.parametrize(
    ("step", "what"),
    [
        ("junk: text", "a line that is not JSON"),
        ("junk: half", "a line that is not JSON"),
        ("junk: utf8", "a line that is not JSON"),
        ("junk: unknown_id", "an answer without a request"),
        ("junk: {what: huge, size: 5000000}", "a line that is not JSON"),
        ("send: {jsonrpc: '2.0', id: [1], result: {}}", "an answer without a request"),
        ("send: {jsonrpc: '2.0', method: news}", "an unknown notification"),
    ],
)
async def test_junk_is_told_of_and_the_connection_still_works(company: Company, step: str, what: str) -> None:
    async with company.playing(f"turns: [[say: a, {step}, say: b], [say: c]]") as (agent, opened):
        for _ in range(2):
            assert (await agent.prompt(opened.session_id, text())).reason == "end_turn"
        await agent.recorder.flush()
    assert set(company.book.odd()) == {what}
    assert company.book.said().replace("\n", "").endswith("c")


async def test_a_second_answer_and_words_after_the_turn_break_nothing(company: Company) -> None:
    script = "turns: [[say: a, answer: end_turn, say: late, answer: end_turn], [say: c]]"
    async with company.playing(script) as (agent, opened):
        assert (await agent.prompt(opened.session_id, text())).reason == "end_turn"
        await until(lambda: bool(company.book.odd()))
        assert (await agent.prompt(opened.session_id, text())).reason == "end_turn"
        await agent.recorder.flush()
    assert company.book.said() == "alatec"
    (odd,) = [event for event in company.book.events if isinstance(event, AgentMisbehaved)]
    assert odd.what == "an answer without a request"


async def test_a_flood_is_heard_to_its_end(company: Company) -> None:
    async with company.playing("turns: [[flood: {updates: 20000, text: 'x'}]]") as (agent, opened):
        assert (await agent.prompt(opened.session_id, text())).reason == "end_turn"
        await agent.recorder.flush()
    assert company.book.said().count("x") == 20_000
    assert len(company.book.events) < 20


async def test_a_cancelled_turn_ends_so(company: Company) -> None:
    async with company.playing("turns: [[say: hm, hang: turn], [say: on]]") as (agent, opened):
        turn = asyncio.ensure_future(agent.prompt(opened.session_id, text()))
        await until(lambda: bool(company.book.hints))
        await agent.cancel(opened.session_id)
        assert (await turn).reason == "cancelled"
        assert (await agent.prompt(opened.session_id, text())).reason == "end_turn"


async def test_what_a_loaded_session_tells_of_the_past_is_counted_and_not_written(company: Company) -> None:
    script = "turns: [[say: first, run: echo hello], [say: second]]"
    async with company.playing(script) as (agent, opened):
        await agent.prompt(opened.session_id, text())
    company.book.events.clear()
    async with company.speaking(script) as agent:
        await agent.initialize()
        loaded = await agent.load_session(opened.session_id)
        assert loaded.replayed > 0
        await agent.recorder.flush()
        assert company.book.events == []
        await agent.prompt(loaded.session_id, text())
        await agent.recorder.flush()
    assert company.book.said() == "second"


async def test_a_resumed_session_tells_nothing_of_the_past(company: Company) -> None:
    script = "turns: [[say: first], [echo_memory: true]]"
    async with company.playing(script) as (agent, opened):
        await agent.prompt(opened.session_id, text("remember me"))
    async with company.speaking(script) as agent:
        await agent.initialize()
        assert await agent.resume_session(opened.session_id) == AgentSession(opened.session_id, (), 0)
        assert await agent.has_session(opened.session_id)
        assert not await agent.has_session("another")
        await agent.prompt(opened.session_id, text())
        await agent.recorder.flush()
    assert "remember me" in company.book.said()


async def test_a_list_of_sessions_that_goes_in_a_circle_ends(company: Company) -> None:
    script = """
        while read line; do
            id=$(echo "$line" | sed 's/.*"id":\\([0-9]*\\).*/\\1/')
            echo '{"jsonrpc":"2.0","id":'$id',"result":{"sessions":[],"nextCursor":"again"}}'
        done
    """
    async with company.speaking(shell(company.cwd, script)) as agent, asyncio.timeout(PATIENCE):
        assert not await agent.has_session("s")
