"""Facts of speaking with an agent: every call ends in time, every death has a name, and nothing is left of it."""

import asyncio
import json
import os
from collections.abc import Awaitable, Callable

import pytest

from holdfast.agents.driver import Agent, AgentDied, AgentRefused, AgentSilent, Deadlines, Ended, Opened
from holdfast.core.events import Event
from holdfast.core.events.conversation import AgentMisbehaved, ToolCalled, ToolReturned
from holdfast.leaf.errors import StorageFailed
from tests.agents.company import QUICK, Company, is_alive, shell, text, zombies
from tests.support.waiting import until

SHORT = Deadlines(start=20, session=0.3, silence=0.3, cancel=0.3)

Call = Callable[[Agent], Awaitable[object]]

CALLS: dict[str, Call] = {
    "new": lambda agent: agent.new(),
    "load": lambda agent: agent.load("s"),
    "resume": lambda agent: agent.resume("s"),
}


async def test_an_agent_tells_what_it_is_and_can_do(company: Company) -> None:
    script = """
        agent: {name: ada, version: "1", load: works, resume: absent, fork: absent, auth: {id: key, required: false}}
        turns: []
    """
    async with company.speaking(script) as agent:
        greeting = await agent.greet()
    assert (greeting.program, greeting.version, greeting.logins) == ("ada", "1", ("key",))
    assert greeting.load
    assert not greeting.resume
    assert not greeting.fork


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
        ended = await agent.prompt(opened.session, text())
        await agent.scribe.flush()
    assert ended == Ended("max_tokens", 5, 7)
    kinds = [type(event).__name__ for event in company.book.events]
    assert kinds == ["MessageRecorded", "ToolCalled", "ToolReturned", "MessageRecorded"]
    assert company.book.said() == "I look.Done."


# Deadlines


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


# Deaths and refusals


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
        with pytest.raises(AgentDied, match=told):
            await agent.prompt(opened.session, text())
    await company.book.store(*agent.scribe.cut_off())
    assert company.book.said() == "last words"
    calls = [event for event in company.book.events if isinstance(event, ToolCalled | ToolReturned)]
    assert [type(call) for call in calls] == [ToolCalled, ToolReturned]
    assert isinstance(calls[1], ToolReturned)
    assert calls[1].status == "interrupted"


async def test_a_death_before_the_greeting_is_told(company: Company) -> None:
    async with company.speaking("{start: [crash: {how: exit, code: 5}], turns: []}") as agent:
        with pytest.raises(AgentDied, match="initialize: it exited with code 5"):
            await agent.greet()


async def test_speaking_to_the_dead_is_a_death_at_once(company: Company) -> None:
    async with company.playing("turns: [[crash: kill]]") as (agent, opened):
        for _ in range(2):
            with pytest.raises(AgentDied, match="SIGKILL"):
                await agent.prompt(opened.session, text())
        with pytest.raises(AgentDied):
            await agent.cancel(opened.session)


async def test_a_death_is_learned_though_an_orphan_holds_the_pipe(company: Company) -> None:
    script = """
        turns:
          - - run: {command: sleep 600, background: true, apart: session}
            - say: "{{result}}"
            - crash: kill
    """
    async with company.playing(script) as (agent, opened):
        with pytest.raises(AgentDied, match="SIGKILL"):
            await agent.prompt(opened.session, text())
        await agent.scribe.flush()
    assert not is_alive(int(company.book.said()))


async def test_an_agent_that_hangs_up_and_lives_is_dead_for_us(company: Company) -> None:
    async with company.speaking(shell(company.cwd, "read line; exec >&- 2>&-; sleep 600")) as agent:
        with pytest.raises(AgentDied, match="hung up, and lives on"):
            await agent.greet()
    assert not agent.tree.identity.is_alive()


async def test_a_refusal_keeps_its_code_and_data_and_the_connection(company: Company) -> None:
    script = """
        agent: {load: {how: refuses, error: -32603, message: no such session}}
        turns: [[error: {code: -32000, message: usage limit reached, data: {resets_in: 60}}], [say: on again]]
    """
    async with company.playing(script) as (agent, opened):
        with pytest.raises(AgentRefused, match="usage limit reached") as raised:
            await agent.prompt(opened.session, text())
        assert (raised.value.code, raised.value.data) == (-32000, {"resets_in": 60})
        with pytest.raises(AgentRefused, match="no such session") as raised:
            await agent.load(opened.session)
        assert raised.value.code == -32603
        assert (await agent.prompt(opened.session, text())).reason == "end_turn"


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
            await agent.prompt(opened.session, text())
    assert str(raised.value) == f"the agent refused session/prompt: {told}"


@pytest.mark.parametrize("answer", ['"result":"hello"', '"result":{"protocolVersion":[]}', '"error":"no"'])
async def test_an_answer_that_cannot_be_read_is_a_refusal(company: Company, answer: str) -> None:
    script = f"""read line; echo '{{"jsonrpc":"2.0","id":0,{answer}}}'; cat > /dev/null"""
    async with company.speaking(shell(company.cwd, script)) as agent:
        with pytest.raises(AgentRefused, match="initialize"):
            await agent.greet()


async def test_a_log_that_cannot_be_written_is_not_taken_for_a_death(company: Company) -> None:
    async def full(*events: Event) -> None:
        raise StorageFailed("the disk is full")

    async with company.playing("turns: [[tool: work, hang: turn]]") as (agent, opened):
        agent.scribe._store = full
        with pytest.raises(StorageFailed):
            await agent.prompt(opened.session, text())


# Junk


@pytest.mark.parametrize(
    ("step", "what"),
    [
        ("junk: text", "a line that is no JSON"),
        ("junk: half", "a line that is no JSON"),
        ("junk: utf8", "a line that is no JSON"),
        ("junk: unknown_id", "an answer to nothing that was asked"),
        ("junk: {what: huge, size: 5000000}", "a line that is no JSON"),
        ("send: {jsonrpc: '2.0', id: [1], result: {}}", "an answer to nothing that was asked"),
        ("send: {jsonrpc: '2.0', method: news}", "an unknown notification"),
    ],
)
async def test_junk_is_told_of_and_the_connection_still_works(company: Company, step: str, what: str) -> None:
    async with company.playing(f"turns: [[say: a, {step}, say: b], [say: c]]") as (agent, opened):
        for _ in range(2):
            assert (await agent.prompt(opened.session, text())).reason == "end_turn"
        await agent.scribe.flush()
    assert set(company.book.odd()) == {what}
    assert company.book.said().replace("\n", "").endswith("c")


async def test_a_second_answer_and_words_after_the_turn_break_nothing(company: Company) -> None:
    script = "turns: [[say: a, answer: end_turn, say: late, answer: end_turn], [say: c]]"
    async with company.playing(script) as (agent, opened):
        assert (await agent.prompt(opened.session, text())).reason == "end_turn"
        await until(lambda: bool(company.book.odd()))
        assert (await agent.prompt(opened.session, text())).reason == "end_turn"
        await agent.scribe.flush()
    assert company.book.said() == "alatec"
    (odd,) = [event for event in company.book.events if isinstance(event, AgentMisbehaved)]
    assert odd.what == "an answer to nothing that was asked"


async def test_a_flood_is_heard_to_its_end(company: Company) -> None:
    async with company.playing("turns: [[flood: {updates: 20000, text: 'x'}]]") as (agent, opened):
        assert (await agent.prompt(opened.session, text())).reason == "end_turn"
        await agent.scribe.flush()
    assert company.book.said().count("x") == 20_000
    assert len(company.book.events) < 20


# Cancelling, and coming back


async def test_a_cancelled_turn_ends_so(company: Company) -> None:
    async with company.playing("turns: [[say: hm, hang: turn], [say: on]]") as (agent, opened):
        turn = asyncio.ensure_future(agent.prompt(opened.session, text()))
        await until(lambda: bool(company.book.hints))
        await agent.cancel(opened.session)
        assert (await turn).reason == "cancelled"
        assert (await agent.prompt(opened.session, text())).reason == "end_turn"


async def test_what_a_loaded_session_tells_of_the_past_is_counted_and_not_written(company: Company) -> None:
    script = "turns: [[say: first, run: echo hello], [say: second]]"
    async with company.playing(script) as (agent, opened):
        await agent.prompt(opened.session, text())
    company.book.events.clear()
    async with company.speaking(script) as agent:
        await agent.greet()
        loaded = await agent.load(opened.session)
        assert loaded.replayed > 0
        await agent.scribe.flush()
        assert company.book.events == []
        await agent.prompt(loaded.session, text())
        await agent.scribe.flush()
    assert company.book.said() == "second"


async def test_a_resumed_session_tells_nothing_of_the_past(company: Company) -> None:
    script = "turns: [[say: first], [echo_memory: true]]"
    async with company.playing(script) as (agent, opened):
        await agent.prompt(opened.session, text("remember me"))
    async with company.speaking(script) as agent:
        await agent.greet()
        assert await agent.resume(opened.session) == Opened(opened.session, (), 0)
        assert await agent.knows(opened.session)
        assert not await agent.knows("another")
        await agent.prompt(opened.session, text())
        await agent.scribe.flush()
    assert "remember me" in company.book.said()


async def test_a_list_of_sessions_that_goes_in_a_circle_ends(company: Company) -> None:
    script = """
        while read line; do
            id=$(echo "$line" | sed 's/.*"id":\\([0-9]*\\).*/\\1/')
            echo '{"jsonrpc":"2.0","id":'$id',"result":{"sessions":[],"nextCursor":"again"}}'
        done
    """
    async with company.speaking(shell(company.cwd, script)) as agent, asyncio.timeout(10):
        assert not await agent.knows("s")


# What it asks of us


async def test_files_are_read_and_written_through_us_in_the_worktree(company: Company) -> None:
    script = """
        turns:
          - - write: {path: notes/a.md, text: "one\\ntwo\\n", via: client}
            - read: {path: notes/a.md, line: 2, limit: 1, via: client}
            - say: "{{result}}"
    """
    async with company.playing(script) as (agent, opened):
        await agent.prompt(opened.session, text())
        await agent.scribe.flush()
    assert company.read("notes/a.md") == "one\ntwo\n"
    assert company.book.said() == "two\n"


async def test_a_call_of_which_only_its_question_told_is_known_when_it_was_cut_off(company: Company) -> None:
    """Some agents tell of a call when they ask for it and when it is over, and never between."""
    script = "turns: [[permission: {title: Delete, kind: delete, allowed: [crash: kill]}]]"
    async with company.playing(script) as (agent, opened):
        with pytest.raises(AgentDied):
            await agent.prompt(opened.session, text())
        cut = agent.scribe.cut_off()
    (called,) = [event for event in company.book.events if isinstance(event, ToolCalled)]
    assert (called.tool, called.kind) == ("Delete", "delete")
    assert [(event.call, event.status) for event in cut if isinstance(event, ToolReturned)] == [
        (called.call, "interrupted")
    ]


async def test_a_call_that_was_not_allowed_never_began(company: Company) -> None:
    company.person.answer = "reject"
    script = "turns: [[permission: {title: Delete, rejected: [say: pity]}]]"
    async with company.playing(script) as (agent, opened):
        await agent.prompt(opened.session, text())
        await agent.scribe.flush()
    assert company.book.said() == "pity"
    assert not [event for event in company.book.events if isinstance(event, ToolCalled)]


async def test_a_file_that_is_not_there_is_not_found_in_the_protocols_own_words(company: Company) -> None:
    """An agent that looks before it writes takes anything else for an error, and writes no new file at all."""
    async with company.playing("turns: [[read: {path: a, via: client}]]") as (agent, opened):
        with pytest.raises(AgentRefused, match="Resource not found"):
            await agent.prompt(opened.session, text())


async def test_an_agent_that_cannot_read_through_us_is_not_offered_it(company: Company) -> None:
    os.mkfifo(company.path("heard"))
    launch = shell(company.cwd, 'read line; echo "$line" > heard; cat > /dev/null')._replace(reads=False)
    async with company.speaking(launch) as agent:
        greeting = asyncio.ensure_future(agent.greet())
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
            await agent.prompt(opened.session, text())
        assert (await agent.prompt(opened.session, text())).reason == "end_turn"
    assert not os.path.exists(os.path.join(company.folder, "outside"))
    assert not os.path.exists(company.path(".git/config"))


async def test_what_the_host_is_against_is_not_done(company: Company) -> None:
    company.person.against = "not on a Sunday"
    async with company.playing("turns: [[write: {path: a, text: x, via: client}]]") as (agent, opened):
        with pytest.raises(AgentRefused, match="Sunday"):
            await agent.prompt(opened.session, text())
    assert not os.path.exists(company.path("a"))


async def test_a_terminal_is_a_real_one_and_its_end_does_not_end_the_agent(company: Company) -> None:
    script = """
        turns: [[run: {command: echo hello; exit 3, via: client}, say: "{{result}}{{exit}}"], [say: " on"]]
    """
    async with company.playing(script) as (agent, opened):
        for _ in range(2):
            assert (await agent.prompt(opened.session, text())).reason == "end_turn"
        await agent.scribe.flush()
    assert "hello" in company.book.said()
    assert company.book.said().endswith("3 on")


async def test_a_terminal_at_work_dies_with_its_agent(company: Company) -> None:
    script = "turns: [[run: {command: 'echo $$ > pid; setsid sleep 600 & echo $! > child; wait', via: client}]]"
    async with company.playing(script) as (agent, opened):
        turn = asyncio.ensure_future(agent.prompt(opened.session, text()))
        await until(lambda: os.path.exists(company.path("child")) and company.read("child").endswith("\n"))
        os.kill(agent.tree.identity.pid, 9)
        with pytest.raises(AgentDied):
            await turn
    assert not is_alive(int(company.read("pid")))
    assert not is_alive(int(company.read("child")))


# Its end


@pytest.mark.parametrize("apart", ["same", "group", "session", "daemon"])
@pytest.mark.parametrize("clear", ["false", "true"])
async def test_what_an_agent_left_running_is_dead_when_it_is_left(company: Company, apart: str, clear: str) -> None:
    before = zombies()
    script = f"""
        agent: {{wrapper: true}}
        turns:
          - - run: {{command: exec /bin/sleep 600, background: true, apart: {apart}, clear_env: {clear}}}
            - say: "{{{{result}}}} {{{{pid}}}}"
    """
    async with company.playing(script) as (agent, opened):
        await agent.prompt(opened.session, text())
        await agent.scribe.flush()
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
    agents: list[Agent] = []

    async def work() -> None:
        async with company.playing("turns: []") as (agent, _):
            agents.append(agent)
            raise KeyError

    with pytest.raises(KeyError):
        await work()
    assert not agents[0].tree.identity.is_alive()
