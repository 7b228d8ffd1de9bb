"""Facts of speaking with an agent: what it asks of us is done in its worktree, and nowhere else."""

import asyncio
import json
import os

import pytest

from holdfast.agents.acp.driver import AgentExited, AgentRefused
from holdfast.core.events.conversation import ToolCalled, ToolReturned
from tests.agents.company import Company, is_alive, shell, text
from tests.support.wait import until


async def test_files_are_read_and_written_through_us_in_the_worktree(company: Company) -> None:
    script = """
        turns:
          - - write: {path: notes/a.md, text: "one\\ntwo\\n", via: client}
            - read: {path: notes/a.md, line: 2, limit: 1, via: client}
            - say: "{{result}}"
    """
    async with company.playing(script) as (agent, opened):
        await agent.prompt(opened.session_id, text())
        await agent.recorder.flush()
    assert company.read("notes/a.md") == "one\ntwo\n"
    assert company.book.said() == "two\n"


async def test_a_call_of_which_only_its_question_told_is_known_when_it_was_cut_off(company: Company) -> None:
    """Some agents tell of a call when they ask for it and when it is over, and never between."""
    script = "turns: [[permission: {title: Delete, kind: delete, allowed: [crash: kill]}]]"
    async with company.playing(script) as (agent, opened):
        with pytest.raises(AgentExited):
            await agent.prompt(opened.session_id, text())
        cut = agent.recorder.final_events()
    (called,) = [event for event in company.book.events if isinstance(event, ToolCalled)]
    assert (called.tool, called.kind) == ("Delete", "delete")
    assert [(event.call, event.status) for event in cut if isinstance(event, ToolReturned)] == [
        (called.call, "interrupted")
    ]


async def test_what_an_agent_said_is_stored_before_it_asks(company: Company) -> None:
    """Who answers reads it first, and a request can wait for hours."""
    company.person.may_answer.clear()
    async with company.playing("turns: [[say: I would delete it., permission: {title: Delete}]]") as (agent, opened):
        prompted = asyncio.ensure_future(agent.prompt(opened.session_id, text()))
        await until(lambda: bool(company.person.asked))
        assert company.book.said() == "I would delete it."
        company.person.may_answer.set()
        await prompted


async def test_a_call_that_was_not_allowed_never_began(company: Company) -> None:
    company.person.answer = "reject"
    script = "turns: [[permission: {title: Delete, rejected: [say: pity]}]]"
    async with company.playing(script) as (agent, opened):
        await agent.prompt(opened.session_id, text())
        await agent.recorder.flush()
    assert company.book.said() == "pity"
    assert not [event for event in company.book.events if isinstance(event, ToolCalled)]


async def test_a_file_that_is_not_there_is_not_found_in_the_protocols_own_words(company: Company) -> None:
    """An agent that looks before it writes takes anything else for an error, and writes no new file at all."""
    async with company.playing("turns: [[read: {path: a, via: client}]]") as (agent, opened):
        with pytest.raises(AgentRefused, match="Resource not found"):
            await agent.prompt(opened.session_id, text())


async def test_an_agent_that_cannot_read_through_us_is_not_offered_it(company: Company) -> None:
    os.mkfifo(company.path("heard"))
    launch = shell(company.cwd, 'read line; echo "$line" > heard; cat > /dev/null')._replace(reads=False)
    async with company.speaking(launch) as agent:
        greeting = asyncio.ensure_future(agent.initialize())
        said = json.loads(await asyncio.to_thread(company.read, "heard"))
        greeting.cancel()
    assert said["params"]["clientCapabilities"]["fs"] == {"writeTextFile": True}


@pytest.mark.parametrize("path", ["../outside", "/etc/hostname", "link/outside", ".git/config"])
@pytest.mark.parametrize("step", ["write: {path: %s, text: x, via: client}", "read: {path: %s, via: client}"])
async def test_files_elsewhere_are_refused_and_the_agent_goes_on(company: Company, path: str, step: str) -> None:
    os.symlink("..", company.path("link"))
    os.makedirs(company.path(".git"))
    async with company.playing(f"turns: [[{step % path}], [say: on]]") as (agent, opened):
        with pytest.raises(AgentRefused):
            await agent.prompt(opened.session_id, text())
        assert (await agent.prompt(opened.session_id, text())).reason == "end_turn"
    assert not os.path.exists(os.path.join(company.folder, "outside"))
    assert not os.path.exists(company.path(".git/config"))


async def test_what_the_host_is_against_is_not_done(company: Company) -> None:
    company.person.against = "not on a Sunday"
    async with company.playing("turns: [[write: {path: a, text: x, via: client}]]") as (agent, opened):
        with pytest.raises(AgentRefused, match="Sunday"):
            await agent.prompt(opened.session_id, text())
    assert not os.path.exists(company.path("a"))


async def test_a_terminal_is_a_real_one_and_its_end_does_not_end_the_agent(company: Company) -> None:
    script = """
        turns: [[run: {command: echo hello; exit 3, via: client}, say: "{{result}}{{exit}}"], [say: " on"]]
    """
    async with company.playing(script) as (agent, opened):
        for _ in range(2):
            assert (await agent.prompt(opened.session_id, text())).reason == "end_turn"
        await agent.recorder.flush()
    assert "hello" in company.book.said()
    assert company.book.said().endswith("3 on")


async def test_a_terminal_at_work_dies_with_its_agent(company: Company) -> None:
    script = "turns: [[run: {command: 'echo $$ > pid; setsid sleep 600 & echo $! > child; wait', via: client}]]"
    async with company.playing(script) as (agent, opened):
        turn = asyncio.ensure_future(agent.prompt(opened.session_id, text()))
        await until(lambda: os.path.exists(company.path("child")) and company.read("child").endswith("\n"))
        os.kill(agent.tree.identity.pid, 9)
        with pytest.raises(AgentExited):
            await turn
    assert not is_alive(int(company.read("pid")))
    assert not is_alive(int(company.read("child")))
