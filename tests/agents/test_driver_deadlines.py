"""Facts of speaking with an agent: every call ends in time, and only the agent's own silence counts."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from holdfast.agents.acp.driver import AgentConnection, AgentSilent, Deadlines
from tests.agents.company import QUICK, Company, is_alive, text
from tests.support.wait import PATIENCE, at_some_pace, until

SHORT = Deadlines(start=PATIENCE, session=0.3, silence=0.3, cancel=0.3)

Call = Callable[[AgentConnection], Awaitable[object]]

CALLS: dict[str, Call] = {
    "new": lambda agent: agent.new_session(),
    "load": lambda agent: agent.load_session("s"),
    "resume": lambda agent: agent.resume_session("s"),
}


async def test_an_agent_that_does_not_greet_is_silent(company: Company) -> None:
    async with company.speaking("{agent: {initialize: hangs}, turns: []}", SHORT._replace(start=0.3)) as agent:
        with pytest.raises(AgentSilent, match="initialize within"):
            await agent.initialize()


@pytest.mark.parametrize("name", CALLS)
async def test_a_call_that_hangs_is_silence(company: Company, name: str) -> None:
    async with company.speaking(f"{{agent: {{{name}: hangs}}, turns: []}}", SHORT) as agent:
        await agent.initialize()
        with pytest.raises(AgentSilent, match=f"session/{name}"):
            await CALLS[name](agent)


Attempt = Callable[[Company, float], Awaitable[None]]


@pytest.fixture
def in_silence(tmp_path: Path) -> Callable[[float, Attempt], Awaitable[None]]:
    """Try something with an agent that may be silent for so many seconds; on a busy machine, for longer."""

    async def tried(seconds: float, attempt: Attempt) -> None:
        await at_some_pace(
            lambda slower: attempt(Company(os.fspath(tmp_path / f"pace-{slower}")), seconds * slower),
        )

    return tried


InSilence = Callable[[float, Attempt], Awaitable[None]]


@pytest.mark.parametrize("how", ["turn", "deaf", "agent", "stubborn"])
async def test_a_turn_that_hangs_is_silence_and_nothing_of_the_agent_is_left(in_silence: InSilence, how: str) -> None:
    async def hangs(company: Company, silence: float) -> None:
        script = f"turns: [[say: hm, hang: {how}]]"
        async with company.playing(script, QUICK._replace(silence=silence)) as (agent, opened):
            with pytest.raises(AgentSilent, match="sent nothing"):
                await agent.prompt(opened.session_id, text())
            await agent.recorder.flush()
        assert not agent.tree.identity.is_alive()
        assert company.book.said() == "hm"

    await in_silence(0.3, hangs)


@pytest.mark.parametrize("step", ["say: x", "write: {path: a, text: x, via: client, shown: false}"])
async def test_a_turn_may_last_while_the_agent_says_or_asks_something_now_and_then(
    in_silence: InSilence, step: str
) -> None:
    async def speaks(company: Company, silence: float) -> None:
        script = f"turns: [[repeat: {{times: 20, steps: [{step}, sleep: {silence / 12}]}}]]"
        async with company.playing(script, QUICK._replace(silence=silence)) as (agent, opened):
            assert (await agent.prompt(opened.session_id, text())).reason == "end_turn"

    await in_silence(0.6, speaks)


async def test_the_silence_while_a_person_thinks_is_not_the_agents(in_silence: InSilence) -> None:
    async def asks(company: Company, silence: float) -> None:
        company.person.may_answer.clear()
        script = "turns: [[permission: {title: Delete, allowed: [say: thanks]}, sleep: 0.1]]"
        async with company.playing(script, QUICK._replace(silence=silence)) as (agent, opened):
            turn = asyncio.ensure_future(agent.prompt(opened.session_id, text()))
            await until(lambda: bool(company.person.asked) or turn.done())
            done, _ = await asyncio.wait({turn}, timeout=3 * silence)
            assert not done
            company.person.may_answer.set()
            assert (await turn).reason == "end_turn"
            await agent.recorder.flush()
        assert company.book.said() == "thanks"
        assert company.person.asked[0].call.title == "Delete"

    await in_silence(0.3, asks)


async def test_the_silence_while_a_command_of_ours_puts_something_out_is_not_the_agents(in_silence: InSilence) -> None:
    async def works(company: Company, silence: float) -> None:
        command = "until test -e gate; do echo working; sleep 0.05; done; echo open"
        script = f"turns: [[run: {{command: '{command}', via: client}}, say: '{{{{result}}}}']]"
        async with company.playing(script, QUICK._replace(silence=silence)) as (agent, opened):
            turn = asyncio.ensure_future(agent.prompt(opened.session_id, text()))
            done, _ = await asyncio.wait({turn}, timeout=3 * silence)
            assert not done
            with open(company.path("gate"), "w", encoding="ascii"):
                pass
            assert (await turn).reason == "end_turn"
            await agent.recorder.flush()
        assert "open" in company.book.said()

    await in_silence(0.8, works)


async def test_a_command_that_is_waited_for_in_silence_does_not_hold_a_turn_for_ever(in_silence: InSilence) -> None:
    async def waits(company: Company, silence: float) -> None:
        script = "turns: [[run: {command: 'echo $$ > pid; echo begun; exec sleep 600', via: client}]]"
        async with company.playing(script, QUICK._replace(silence=silence)) as (agent, opened):
            with pytest.raises(AgentSilent, match=r"sent nothing .* nor did the command that it waits for"):
                await agent.prompt(opened.session_id, text())
        assert os.path.exists(company.path("pid"))
        assert not is_alive(int(company.read("pid")))

    await in_silence(0.8, waits)


async def test_a_command_that_nobody_waits_for_does_not_speak_for_the_agent(company: Company) -> None:
    command = "while sleep 0.05; do echo still here; done"
    script = f"turns: [[run: {{command: '{command}', via: client, background: true}}, hang: turn]]"
    async with company.playing(script, QUICK._replace(silence=0.8)) as (agent, opened):
        with pytest.raises(AgentSilent, match="sent nothing"):
            await agent.prompt(opened.session_id, text())
