"""What every agent can do or claims to, times every way to die: there is always a conversation that goes on.

A model says which rung must hold, which fail before it, and what was interrupted. `make test` plays a slice of the
table in which every row and every column occurs; `make torture` plays the whole of it.
"""

import os
import signal
from itertools import product
from typing import Any, NamedTuple

import pytest

from holdfast.agents.acp.driver import Deadlines
from holdfast.core.conversation.states import AfterInterruption
from holdfast.core.events.conversation import (
    ConversationAttached,
    ConversationTokenStored,
    ToolCalled,
    TurnEnded,
    TurnStarted,
)
from holdfast.engine.agents.conversations import Conversations
from tests.support.conversations import AGENT, DEADLINES, Place, ready_until_killed, say_until_killed
from tests.support.processes import child
from tests.support.scripted_agents import FACT, KNOW, book, kill_idle
from tests.support.wait import until


class Way(NamedTuple):
    """How an agent answers `session/resume` or `session/load`, and what is said of it when that does not hold."""

    script: Any
    failure: str | None = None
    rejects: bool = False


WAYS = {
    "works": Way("works"),
    "absent": Way("absent"),
    "claimed": Way({"how": "absent", "advertised": True}, "(-32601)"),
    "refuses": Way({"how": "refuses", "error": -32603}, "(-32603)", rejects=True),
    "hangs": Way("hangs", "did not answer session/"),
    "dies": Way("dies", "the agent died in session/"),
    "gone": Way("gone", "(-32002)", rejects=True),
    "lies": Way("starts_new", "without replaying the conversation", rejects=True),
    "refuses -32602": Way({"how": "refuses", "error": -32602}, "(-32602)", rejects=True),
    "refuses -32000": Way({"how": "refuses", "error": -32000}, "(-32000)"),
}
CODES = ("refuses -32602", "refuses -32000")  # beside the table: they differ from others of it by their number alone


class Death(NamedTuple):
    """`said` is the prompt that it cuts off, `calls` the tools at work, `fault` what fails on the way back."""

    said: str | None = None
    calls: tuple[str, ...] = ()
    heard: str = ""
    fault: tuple[str, str] | None = None
    of_runner: bool = False


_DIED, _SILENT = "the agent died in ", "the agent did not answer "
_BEGUN, _UNKNOWN = "the agent had begun to answer", "whether the agent got the prompt is unknown"

DEATHS = {
    "agent, idle": Death(),
    "agent, before a word": Death("mute", heard="the agent had answered nothing"),
    "agent, at work": Death("die", ("t-1",), _BEGUN),
    "agent hangs at work": Death("stop", ("t-2",), _BEGUN),
    "agent, in initialize": Death(fault=("initialize", "dies")),
    "agent hangs in initialize": Death(fault=("initialize", "hangs")),
    "agent, in session/new": Death(fault=("new", "dies")),
    "agent hangs in session/new": Death(fault=("new", "hangs")),
    "runner, idle": Death(of_runner=True),
    "runner, before a word": Death("still", heard=_UNKNOWN, of_runner=True),
    "runner, at work": Death("stop", ("t-2",), _BEGUN, of_runner=True),
    "runner and agent, at work": Death("stop", ("t-2",), _BEGUN, of_runner=True),
    "runner, in initialize": Death(fault=("initialize", "hangs"), of_runner=True),
    "runner, in session/new": Death(fault=("new", "hangs"), of_runner=True),
}


class Case(NamedTuple):
    resume: str
    load: str
    death: str
    lists: bool  # its sessions
    forgets: bool  # the prompt of a turn in which it was killed

    def __str__(self) -> str:
        more = f"{', lists' if self.lists else ''}{', forgets' if self.forgets else ''}"
        return f"{self.death}; resume {self.resume}, load {self.load}{more}"

    def book(self, **fault: Any) -> dict[str, Any]:
        can = {"resume": WAYS[self.resume].script, "load": WAYS[self.load].script, **fault}
        made = book(list="works" if self.lists else "absent", **can)
        return {**made, "sessions": {"interrupted": "next", "forgets_killed_prompt": self.forgets}}

    @property
    def deadlines(self) -> Deadlines:
        """Short where something hangs, and there alone."""
        hangs = "hangs" in (self.resume, self.load) or self.death == "agent hangs in session/new"
        return DEADLINES._replace(
            start=10 if self.death == "agent hangs in initialize" else DEADLINES.start,
            session=3 if hangs else DEADLINES.session,
            silence=5 if self.death == "agent hangs at work" else DEADLINES.silence,
        )

    @property
    def proven(self) -> dict[str, bool]:
        """Of an agent that lists no sessions, only a probe can have shown that it remembers."""
        return {} if self.lists or self.resume == "lies" else {"resume": True}


class Expected(NamedTuple):
    rung: str
    failed: list[tuple[str, str]]
    lost: bool


def natively(case: Case) -> Expected:
    """How far the agent's own session leads. `lost` when it was rejected."""
    failed: list[tuple[str, str]] = []
    lost = False
    for rung, name in (("session/resume", case.resume), ("session/load", case.load)):
        if name == "works":
            return Expected(rung, failed, lost=False)
        way = WAYS[name]
        if rung == "session/resume" and name == "lies":  # it is not asked at all
            unlisted = Way(None, "does not know the session", rejects=True)
            way = unlisted if case.lists else Way(None, "no probe tested it")
        if way.failure is not None:
            failed.append((rung, way.failure))
            lost = lost or way.rejects
    return Expected("history injection", failed, lost)


def expected(case: Case) -> Expected:
    death = DEATHS[case.death]
    found = natively(case)
    injects = found.rung == "history injection"
    match death.fault:
        case ("initialize", how) if not death.of_runner:
            told = _DIED if how == "dies" else _SILENT
            return found._replace(failed=[("start", f"{told}initialize"), *found.failed])
        case ("new", how) if not death.of_runner and injects:
            told = _DIED if how == "dies" else _SILENT
            return found._replace(failed=[*found.failed, ("history injection", f"{told}session/new")])
        case ("new", _) if death.of_runner:  # killed when the agent's own session had been tried, and tried again
            return found._replace(failed=[*found.failed, *([] if found.lost else found.failed)])
    return found


def table() -> list[Any]:
    rows: list[Any] = []
    ways = [way for way in WAYS if way not in CODES]
    for (r, resume), (k, load), (d, death) in product(enumerate(ways), enumerate(ways), enumerate(DEATHS)):
        case = Case(resume, load, death, lists=(r + d) % 2 == 0, forgets=(k + d) % 2 == 0)
        if death == "runner, in session/new" and natively(case).rung != "history injection":
            continue  # it is not asked for a new one
        in_slice = (r + d) % len(ways) == k and (r + d // 2) % 4 == 0 and r // 4 == d // 7
        rows.append(pytest.param(case, id=str(case), marks=[] if in_slice else pytest.mark.torture))
    pairs = [*product(CODES, ("absent", "works")), *product(("absent", "works"), CODES)]
    cases = [Case(resume, load, "agent, idle", lists=True, forgets=False) for resume, load in pairs]
    return rows + [pytest.param(case, id=str(case)) for case in cases]


@pytest.mark.parametrize("case", table())
async def test_the_conversation_goes_on(place: Place, case: Case) -> None:
    death = DEATHS[case.death]
    place.play(case.book())
    if death.of_runner:
        name = await killed_with_its_runner(place, case)
        async with place.session(deadlines=case.deadlines, proven=case.proven) as (_, _, conversations):
            assert place.processes() == [], "nothing is started before somebody speaks, and nothing is left"
            await goes_on(conversations, name, place, case)
    else:
        async with place.session(deadlines=case.deadlines, proven=case.proven) as session:
            conversations = session.conversations
            name = await conversations.open(AGENT)
            await conversations.send_prompt(name, FACT, place.cwd)
            if death.said is None:
                await kill_idle(session, name)
                play_fault(place, case)
            else:
                turn = await conversations.send_prompt(name, death.said, place.cwd)
                assert turn.reason == ("end_turn" if death.said == "mute" else "interrupted")
            await goes_on(conversations, name, place, case)
    await the_log_tells_it(place, case)


async def goes_on(conversations: Conversations, name: str, place: Place, case: Case) -> None:
    death = DEATHS[case.death]
    assert conversations.state(name).state == "waiting_for_input"
    if death.said != "mute":  # which has brought it back already
        assert conversations.resume_need(name)[0]
    turn = await conversations.continue_turn(name, place.cwd, AfterInterruption.CONTINUE)
    if death.said is None or death.said == "mute":
        assert turn is None
    else:
        assert turn is not None
        assert turn.reason == "end_turn"
    assert (await conversations.send_prompt(name, KNOW, place.cwd)).reason == "end_turn"
    assert FACT in (await place.said())[-1], "it knows what was said before"
    assert conversations.resume_need(name) == (False, "agent_running")


async def the_log_tells_it(place: Place, case: Case) -> None:
    death, hoped = DEATHS[case.death], expected(case)
    assert await place.rungs() == ["fresh", hoped.rung]
    found = await place.failed_rungs()
    assert [rung for rung, _ in found] == [rung for rung, _ in hoped.failed]
    for (_, reason), (_, part) in zip(found, hoped.failed, strict=True):
        assert part in reason
    first, back = await place.events(ConversationAttached)
    assert first.notice is None
    assert back.notice, "whoever looks is told how it came back"

    tokens = [event.token for event in await place.events(ConversationTokenStored)]
    assert [token is None for token in tokens] == {
        "history injection": [False, *([True] if hoped.lost else []), False]
    }.get(hoped.rung, [False])

    interruptions = await place.interruptions()
    assert len(interruptions) == (1 if death.said else 0)
    assert all(reason.endswith(f"; {death.heard}") for reason in interruptions)
    assert await place.interrupted_calls() == list(death.calls)
    sent = [death.said] * (2 if death.said == "mute" else 1) if death.said else []
    assert await place.said("user") == [FACT, *sent, KNOW], "nothing is dropped, and nothing repeated without a word"
    told = await place.said("system")
    assert len(told) == (1 if death.said not in (None, "mute") else 0)
    assert all(text.endswith(f"The request was:\n{death.said}") for text in told)
    turns = len(await place.events(TurnStarted))
    assert turns == len(await place.events(TurnEnded)) + len(interruptions)
    assert len(await place.events(ToolCalled)) == 1 + len(death.calls), "what is replayed is not written again"
    assert (await place.states())[-1] == "waiting_for_input"


def play_fault(place: Place, case: Case) -> None:
    """What fails on the way back, the first time."""
    fault = DEATHS[case.death].fault
    if fault is not None:
        method, how = fault
        place.play(case.book(**{method: {"how": how, "once": True}}))


async def killed_with_its_runner(place: Place, case: Case) -> str:
    """SIGKILL the runner of a conversation there, and with it, if so said, the agent; the conversation's name."""
    death = DEATHS[case.death]
    if death.fault is not None:
        async with place.session() as (_, _, conversations):
            name = await conversations.open(AGENT)
            await conversations.send_prompt(name, FACT, place.cwd)
        play_fault(place, case)
        with child(ready_until_killed, place, name, case.deadlines, case.proven) as runner:
            await until(lambda: place.harmed() == 1)
            runner.kill()
        return name
    with child(say_until_killed, place, [FACT, *([death.said] if death.said else [])]) as runner:
        found = runner.hear()
        assert found is not None
        assert runner.hear_some(2) == ["noted", "end_turn"]
        if death.said == "still":
            await until(lambda: place.harmed() == 1)
        for call in death.calls:
            await place.until_called(call)
        if "agent" in case.death:
            (attached,) = await place.events(ConversationAttached)
            assert attached.pid is not None
            os.kill(attached.pid, signal.SIGKILL)
        runner.kill()
    return found


@pytest.mark.parametrize("way", ["resume", "load"])
async def test_a_runner_that_is_killed_while_a_session_comes_back_can_ask_for_it_again(place: Place, way: str) -> None:
    place.play(book(**{way: "works"}))
    async with place.session() as (_, _, conversations):
        name = await conversations.open(AGENT)
        await conversations.send_prompt(name, FACT, place.cwd)
    place.play(book(**{way: {"how": "hangs", "once": True}}))
    with child(ready_until_killed, place, name, DEADLINES, {}) as runner:
        await until(lambda: place.harmed() == 1)
        runner.kill()
    async with place.session() as (_, _, conversations):
        assert place.processes() == []
        assert conversations.resume_need(name) == (True, "agent_not_running")
        await conversations.send_prompt(name, KNOW, place.cwd)
    assert await place.rungs() == ["fresh", f"session/{way}"]
    assert FACT in (await place.said())[-1]
