"""Facts of speaking with an agent: every call ends in time, and only the agent's own silence counts."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from holdfast.agents.driver import Agent, AgentSilent, Deadlines
from tests.agents.company import QUICK, Company, is_alive, text
from tests.support.waiting import until

SHORT = Deadlines(start=20, session=0.3, silence=0.3, cancel=0.3)

Call = Callable[[Agent], Awaitable[object]]

CALLS: dict[str, Call] = {
    "new": lambda agent: agent.new(),
    "load": lambda agent: agent.load("s"),
    "resume": lambda agent: agent.resume("s"),
}


async def test_an_agent_that_does_not_greet_is_silent(company: Company) -> None:
    async with company.speaking("{agent: {initialize: hangs}, turns: []}", SHORT._replace(start=0.3)) as agent:
        with pytest.raises(AgentSilent, match="initialize within"):
            await agent.greet()


@pytest.mark.parametrize("name", CALLS)
async def test_a_call_that_hangs_is_silence(company: Company, name: str) -> None:
    async with company.speaking(f"{{agent: {{{name}: hangs}}, turns: []}}", SHORT) as agent:
        await agent.greet()
        with pytest.raises(AgentSilent, match=f"session/{name}"):
            await CALLS[name](agent)


@pytest.mark.parametrize("how", ["turn", "deaf", "agent", "stubborn"])
async def test_a_turn_that_hangs_is_silence_and_nothing_of_the_agent_is_left(company: Company, how: str) -> None:
    deadlines = QUICK._replace(silence=0.3)
    async with company.playing(f"turns: [[say: hm, hang: {how}]]", deadlines) as (agent, opened):
        with pytest.raises(AgentSilent, match="said nothing"):
            await agent.prompt(opened.session, text())
        await agent.scribe.flush()
    assert not agent.tree.identity.is_alive()
    assert company.book.said() == "hm"


async def test_a_turn_may_last_while_the_agent_says_something_now_and_then(company: Company) -> None:
    script = "turns: [[repeat: {times: 20, steps: [say: x, sleep: 0.05]}]]"
    async with company.playing(script, QUICK._replace(silence=0.6)) as (agent, opened):
        assert (await agent.prompt(opened.session, text())).reason == "end_turn"


async def test_an_agent_that_asks_for_files_is_not_silent(company: Company) -> None:
    script = """
        turns: [[repeat: {times: 20, steps: [write: {path: a, text: x, via: client, shown: false}, sleep: 0.05]}]]
    """
    async with company.playing(script, QUICK._replace(silence=0.6)) as (agent, opened):
        assert (await agent.prompt(opened.session, text())).reason == "end_turn"


async def test_the_silence_while_a_person_thinks_is_not_the_agents(company: Company) -> None:
    company.person.may_answer.clear()
    script = "turns: [[permission: {title: Delete, allowed: [say: thanks]}, sleep: 0.1]]"
    async with company.playing(script, QUICK._replace(silence=0.3)) as (agent, opened):
        turn = asyncio.ensure_future(agent.prompt(opened.session, text()))
        await until(lambda: bool(company.person.asked))
        done, _ = await asyncio.wait({turn}, timeout=1)  # three times its deadline
        assert not done
        company.person.may_answer.set()
        assert (await turn).reason == "end_turn"
        await agent.scribe.flush()
    assert company.book.said() == "thanks"
    assert company.person.asked[0].title == "Delete"


async def test_the_silence_while_a_command_of_ours_puts_something_out_is_not_the_agents(company: Company) -> None:
    command = "until test -e gate; do echo working; sleep 0.05; done; echo open"
    script = f"turns: [[run: {{command: '{command}', via: client}}, say: '{{{{result}}}}']]"
    async with company.playing(script, QUICK._replace(silence=0.8)) as (agent, opened):
        turn = asyncio.ensure_future(agent.prompt(opened.session, text()))
        done, _ = await asyncio.wait({turn}, timeout=2.5)  # three times its deadline
        assert not done
        with open(company.path("gate"), "w", encoding="ascii"):
            pass
        assert (await turn).reason == "end_turn"
        await agent.scribe.flush()
    assert "open" in company.book.said()


async def test_a_command_that_is_waited_for_in_silence_does_not_hold_a_turn_for_ever(company: Company) -> None:
    script = "turns: [[run: {command: 'echo $$ > pid; echo begun; exec sleep 600', via: client}]]"
    async with company.playing(script, QUICK._replace(silence=0.8)) as (agent, opened), asyncio.timeout(15):
        with pytest.raises(AgentSilent, match=r"said nothing .* nor did the command that it waits for"):
            await agent.prompt(opened.session, text())
    assert not is_alive(int(company.read("pid")))


async def test_a_command_that_nobody_waits_for_does_not_speak_for_the_agent(company: Company) -> None:
    command = "while sleep 0.05; do echo still here; done"
    script = f"turns: [[run: {{command: '{command}', via: client, background: true}}, hang: turn]]"
    async with company.playing(script, QUICK._replace(silence=0.8)) as (agent, opened), asyncio.timeout(15):
        with pytest.raises(AgentSilent, match="said nothing"):
            await agent.prompt(opened.session, text())
