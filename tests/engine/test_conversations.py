"""The way back into a conversation, with real agents that die and lie: it always ends where one can speak again."""

import asyncio
import os
import signal
from collections.abc import Mapping
from typing import Any

import pytest

from holdfast.agents.driver import Deadlines
from holdfast.core.conversation import AfterInterruption, Phase, WrongTransition
from holdfast.core.events.conversation import (
    ConversationAttached,
    ConversationDetached,
    ConversationTokenStored,
    ToolCalled,
    TurnEnded,
    TurnStarted,
)
from holdfast.core.events.inbox import InboxHandled
from holdfast.core.history import TOTAL
from holdfast.engine.conversations import AgentUnavailable
from holdfast.leaf.errors import BadInput, Denied
from holdfast.store.base import Message
from holdfast.store.files import FileStore
from tests.support.processes import child
from tests.support.talks import AGENT, Place, Sitting, say_until_killed
from tests.support.waiting import until

HASTY = Deadlines(session=1, silence=1)
KNOW = "What do you know?"
TOLD = "the word is kelp"

# It remembers what it was told, uses a tool, and says what a prompt with a history holds.
TURNS: list[dict[str, Any]] = [
    {"resume_context": True, "steps": [{"say": "I was told: {{prompt}}"}]},
    {"when": "What do you know", "steps": [{"echo_memory": True}]},
    {"when": "^exit$", "steps": [{"say": "bye"}, {"answer": "end_turn"}, {"crash": {"how": "exit", "once": True}}]},
    {"when": "^die$", "steps": [{"tool": {"id": "t-1", "title": "Saw"}}, {"crash": {"how": "kill", "once": True}}]},
    {"when": "^stop$", "steps": [{"tool": {"id": "t-2", "title": "Wait"}}, {"hang": {"how": "deaf", "once": True}}]},
    {"when": "^mute$", "steps": [{"crash": {"how": "kill", "once": True}}, {"say": "at last"}]},
    {"when": "^never$", "steps": [{"crash": "kill"}]},
    {
        "when": "kelp",
        "steps": [
            {"tool": {"id": "look", "title": "Look"}},
            {"tool_done": {"output": {"found": 41}}},
            {"say": "noted"},
        ],
    },
]
OTHERWISE = [{"say": "fine"}]


def book(**agent: Any) -> dict[str, Any]:
    can = {"load": "absent", "resume": "absent", **agent}
    return {"agent": can, "sessions": {"interrupted": "next"}, "turns": TURNS, "otherwise": OTHERWISE}


@pytest.fixture
async def place(tmp_path: os.PathLike[str]) -> Place:
    return await Place.make(os.fspath(tmp_path))


async def kill_idle(sitting: Sitting, name: str) -> None:
    """SIGKILL the agent while it waits for us."""
    pid = sitting.talks.state(name).pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    await until(lambda: sitting.talks.need(name)[0])


# The ladder: every way in which an agent can answer `session/resume` and `session/load`

_WAYS: dict[str, tuple[Any, str | None]] = {
    "works": ("works", None),
    "absent": ("absent", None),
    "only claimed": ({"how": "absent", "advertised": True}, "(-32601)"),
    "refuses -32002": ({"how": "refuses", "error": -32002}, "(-32002)"),
    "refuses -32602": ({"how": "refuses", "error": -32602}, "(-32602)"),
    "refuses -32603": ({"how": "refuses", "error": -32603}, "(-32603)"),
    "hangs": ("hangs", "did not answer session/"),
    "gone": ("gone", "(-32002)"),
    "lies": ("starts_new", "told nothing of what was said"),
}


def expected(resume: str, load: str) -> tuple[str, list[tuple[str, str]]]:
    """The rung that holds, and those that fail before it with a part of the reason. A lie in `resume` was probed."""
    failed: list[tuple[str, str]] = []
    for rung, way in (("session/resume", resume), ("session/load", load)):
        if way == "works":
            return rung, failed
        reason = _WAYS[way][1]
        if reason is not None and not (rung == "session/resume" and way == "lies"):
            failed.append((rung, reason))
    return "history injection", failed


@pytest.mark.parametrize(
    ("resume", "load"),
    [
        *((way, "absent") for way in _WAYS),
        *(("absent", way) for way in _WAYS if way != "absent"),
        ("hangs", "works"),
        ("refuses -32603", "works"),
        ("lies", "works"),
        ("gone", "gone"),
        ("hangs", "hangs"),
        ("lies", "lies"),
    ],
)
async def test_the_ladder_ends_in_a_conversation_that_goes_on(place: Place, resume: str, load: str) -> None:
    """The rung that held and each that failed are in the log, and the agent knows what was said, told once at most."""
    place.play(book(resume=_WAYS[resume][0], load=_WAYS[load][0]))
    hasty = HASTY if "hangs" in (resume, load) else Deadlines()
    proven = {"resume": False} if resume == "lies" else {}
    async with place.sitting(deadlines=hasty, proven=proven) as sitting:
        talks = sitting.talks
        name = await talks.open(AGENT)
        await talks.say(name, TOLD, place.cwd)
        before = talks.state(name).token
        await kill_idle(sitting, name)
        assert (await talks.say(name, KNOW, place.cwd)).reason == "end_turn"
        told = (await place.said())[-1]
        assert (await talks.say(name, KNOW, place.cwd)).reason == "end_turn"
        remembered = (await place.said())[-1]
        after = talks.state(name).token

    rung, failed = expected(resume, load)
    assert await place.rungs() == ["fresh", rung]
    found = await place.failed_rungs()
    assert [one for one, _ in found] == [one for one, _ in failed]
    for (_, reason), (_, part) in zip(found, failed, strict=True):
        assert part in reason
    first, back = await place.events(ConversationAttached)
    assert first.notice is None
    assert back.notice
    assert TOLD in told
    assert TOLD in remembered
    if rung == "history injection":
        assert after != before, "the token that was rejected is replaced"
        assert told.count("RESUME CONTEXT FOR CONTINUING TASK") == 1
        assert "[TOOL CALL: Look]" in told
        assert '[TOOL RESULT: Look] {"found":41}' in told
        assert len(told) < TOTAL
        assert remembered.count("RESUME CONTEXT FOR CONTINUING TASK") == 1, "not again with the next message"
    else:
        assert after == before
        assert "RESUME CONTEXT" not in told + remembered
    assert await place.states() == [
        *("starting", "waiting_for_input", "running", "waiting_for_input"),
        *("starting", "waiting_for_input", "running", "waiting_for_input"),
        *("running", "waiting_for_input"),
    ]


# The ways to die


@pytest.mark.parametrize("death", ["SIGKILL", "exit", "mid-turn", "hang"])
@pytest.mark.parametrize(
    ("can", "rung"),
    [
        ({"resume": "works", "load": "works"}, "session/resume"),
        ({"resume": "absent", "load": "works"}, "session/load"),
        ({"resume": "absent", "load": "absent"}, "history injection"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_however_an_agent_dies_the_conversation_goes_on(
    place: Place, can: Mapping[str, Any], rung: str, death: str
) -> None:
    place.play(book(**can))
    async with place.sitting(deadlines=HASTY if death == "hang" else Deadlines()) as sitting:
        talks = sitting.talks
        name = await talks.open(AGENT)
        await talks.say(name, TOLD, place.cwd)
        if death == "SIGKILL":
            await kill_idle(sitting, name)
        elif death == "exit":
            await talks.say(name, "exit", place.cwd)
            await until(lambda: talks.need(name)[0])
        else:
            turn = await talks.say(name, "die" if death == "mid-turn" else "stop", place.cwd)
            assert turn.reason == "interrupted"
            assert talks.state(name).state == "waiting_for_input"
        assert talks.need(name) == (True, "agent_not_running")
        assert (await talks.say(name, KNOW, place.cwd)).reason == "end_turn"
        assert talks.need(name) == (False, "agent_running")

    assert await place.rungs() == ["fresh", rung]
    assert await place.failed_rungs() == []
    assert TOLD in (await place.said())[-1]
    if death in ("mid-turn", "hang"):
        (reason,) = await place.interruptions()
        assert reason.endswith("; the agent had begun to answer")
        assert await place.interrupted_calls() == ["t-1" if death == "mid-turn" else "t-2"]
    else:
        assert await place.interruptions() == []


@pytest.mark.parametrize("when", ["idle", "mid-turn"])
@pytest.mark.parametrize(
    ("can", "rung"),
    [
        ({"resume": "works"}, "session/resume"),
        ({"load": "works", "ignores": ["eof", "sigterm"]}, "session/load"),
        ({"load": "absent"}, "history injection"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_the_conversation_survives_the_sigkill_of_its_runner(
    place: Place, can: Mapping[str, Any], rung: str, when: str
) -> None:
    """And what the dead runner's agent left running is gone before anything is built on that."""
    place.play(book(**can))
    with child(say_until_killed, place, [TOLD, *(["stop"] if when == "mid-turn" else [])]) as runner:
        name = runner.hear()
        assert name is not None
        assert runner.hear_some(2) == ["noted", "end_turn"]
        if when == "mid-turn":
            await place.until_called("t-2")
        runner.kill()
    async with place.sitting() as sitting:
        talks = sitting.talks
        assert place.processes() == [], "nothing is started before somebody speaks, and nothing is left"
        assert talks.state(name).state == "waiting_for_input"
        assert talks.need(name) == (True, "agent_not_running")
        assert (await talks.say(name, KNOW, place.cwd)).reason == "end_turn"
    assert await place.rungs() == ["fresh", rung]
    assert TOLD in (await place.said())[-1]
    assert await place.interrupted_calls() == (["t-2"] if when == "mid-turn" else [])
    assert await place.interruptions() == (
        ["the sitting died; the agent had begun to answer"] if when == "mid-turn" else []
    )
    assert "the sitting died" in [event.reason for event in await place.events(ConversationDetached)]


async def test_the_runner_dies_again_and_again_and_the_history_is_told_to_each_new_session_once(place: Place) -> None:
    place.play(book(load="absent"))
    async with place.sitting() as (_, _, talks):
        name = await talks.open(AGENT)
        await talks.say(name, TOLD, place.cwd)
    for _ in range(2):  # attached, and ended before a word was said: its session knows nothing yet
        async with place.sitting() as (_, _, talks):
            await talks.ready(name, place.cwd)
    async with place.sitting() as (_, _, talks):
        await talks.say(name, KNOW, place.cwd)
    assert await place.rungs() == ["fresh", *["history injection"] * 3]
    assert (await place.said())[-1].count("RESUME CONTEXT FOR") == 1
    assert TOLD in (await place.said())[-1]


async def test_a_blank_session_is_not_loaded_though_the_agent_could(place: Place) -> None:
    """It was to be told the history with a first message that never came."""
    place.play(book(load="gone"))
    async with place.sitting() as (_, _, talks):
        name = await talks.open(AGENT)
        await talks.say(name, TOLD, place.cwd)
    async with place.sitting() as (_, _, talks):
        await talks.ready(name, place.cwd)
    place.play(book(load="works"))
    async with place.sitting() as (_, _, talks):
        await talks.say(name, KNOW, place.cwd)
    assert (await place.rungs())[-1] == "history injection"
    assert TOLD in (await place.said())[-1]


async def test_a_session_that_was_never_saved_is_replaced(place: Place) -> None:
    """Killed in its first turn, such an agent knows nothing of it, though it offers to load."""
    place.play({**book(load="works", resume="works"), "sessions": {"save": "turn", "interrupted": "next"}})
    async with place.sitting() as (_, _, talks):
        name = await talks.open(AGENT)
        await talks.say(name, "die", place.cwd)
        await talks.say(name, KNOW, place.cwd)
    assert [rung for rung, _ in await place.failed_rungs()] == ["session/resume", "session/load"]
    assert "[TOOL CALL: Saw]\n[TOOL RESULT: Saw] interrupted" in (await place.said())[-1]


@pytest.mark.parametrize("rung", ["session/resume", "session/load"])
async def test_what_an_agent_replays_is_not_written_again(place: Place, rung: str) -> None:
    replays = {"how": "works", "replay": True, "tool_calls": "new_ids"}
    place.play(book(**({"resume": replays} if rung == "session/resume" else {"resume": "absent", "load": replays})))
    async with place.sitting() as sitting:
        name = await sitting.talks.open(AGENT)
        await sitting.talks.say(name, TOLD, place.cwd)
        await kill_idle(sitting, name)
        await sitting.talks.ready(name, place.cwd)
    assert await place.rungs() == ["fresh", rung]
    assert await place.said() == ["noted"]
    assert len(await place.events(ToolCalled)) == 1


# Resuming


async def test_a_resumed_agent_is_not_prompted(place: Place) -> None:
    """It boots idle, and the conversation waits for input as before."""
    place.play(book(load="works"))
    async with place.sitting() as (_, _, talks):
        name = await talks.open(AGENT)
        await talks.say(name, TOLD, place.cwd)
    async with place.sitting() as (_, _, talks):
        assert place.processes() == [], "nor started before it is needed"
        await talks.ready(name, place.cwd)
        assert talks.state(name).state == "waiting_for_input"
    assert len(await place.events(TurnStarted)) == 1
    assert (await place.states())[-2:] == ["starting", "waiting_for_input"]


async def test_two_requests_at_once_start_one_agent(place: Place) -> None:
    place.play(book(load="works"))
    async with place.sitting() as sitting:
        name = await sitting.talks.open(AGENT)
        await sitting.talks.say(name, TOLD, place.cwd)
        await kill_idle(sitting, name)
        one, other = await asyncio.gather(*(sitting.talks.ready(name, place.cwd) for _ in range(2)))
        assert one is other
    assert len(await place.events(ConversationAttached)) == 2


async def test_two_prompts_at_once_are_two_turns_one_after_the_other(place: Place) -> None:
    place.play(book(load="works"))
    async with place.sitting() as (_, _, talks):
        name = await talks.open(AGENT)
        turns = await asyncio.gather(*(talks.say(name, f"number {number}", place.cwd) for number in range(3)))
        assert [turn.reason for turn in turns] == ["end_turn"] * 3
    assert await place.said("user") == ["number 0", "number 1", "number 2"]
    assert (await place.states())[2:] == ["running", "waiting_for_input"] * 3
    assert len(await place.events(ConversationAttached)) == 1


async def test_a_prompt_that_nobody_heard_is_sent_once_more_and_the_log_says_so(place: Place) -> None:
    place.play(book(load="works"))
    async with place.sitting() as (_, _, talks):
        name = await talks.open(AGENT)
        assert (await talks.say(name, "mute", place.cwd)).reason == "end_turn"
    assert await place.said() == ["at last"]
    assert await place.said("user") == ["mute", "mute"]
    assert await place.interruptions() == [
        "the agent died in session/prompt: it was killed by SIGKILL; the agent had answered nothing"
    ]


async def test_a_prompt_is_not_sent_a_third_time(place: Place) -> None:
    place.play(book(load="works"))
    async with place.sitting() as (_, _, talks):
        name = await talks.open(AGENT)
        assert (await talks.say(name, "never", place.cwd)).reason == "interrupted"
        assert talks.state(name).state == "waiting_for_input"
        assert (await talks.say(name, "hello", place.cwd)).reason == "end_turn"
    assert await place.said("user") == ["never", "never", "hello"]


async def test_a_message_of_the_inbox_is_handled_once_though_its_prompt_is_sent_twice(place: Place) -> None:
    place.play(book(load="works"))
    await FileStore(place.home).inbox(place.run_id).put(Message(id="m-1", kind="say", sender="me"))
    async with place.sitting() as (run, _, talks):
        await run.take_in()
        name = await talks.open(AGENT)
        await talks.say(name, "mute", place.cwd, messages=["m-1"])
        assert run.state.messages == {}
    assert [event.message for event in await place.events(InboxHandled)] == ["m-1"]
    assert [event.messages for event in await place.events(TurnStarted)] == [["m-1"], []]


async def test_when_no_rung_holds_the_conversation_waits_and_can_be_tried_again(place: Place) -> None:
    place.play(book(load="works"))
    async with place.sitting() as sitting:
        talks = sitting.talks
        name = await talks.open(AGENT)
        await talks.say(name, TOLD, place.cwd)
        await kill_idle(sitting, name)
        place.play(book(load="gone", new="refuses"))
        with pytest.raises(AgentUnavailable, match="refused session/new"):
            await talks.say(name, KNOW, place.cwd)
        assert talks.state(name).state == "waiting_for_input"
        place.play(book(load="works"))
        await talks.say(name, KNOW, place.cwd)
    assert [rung for rung, _ in await place.failed_rungs()] == ["session/load", "history injection", "fresh"]
    assert TOLD in (await place.said())[-1]


@pytest.mark.parametrize("start", ["exit", "kill"])
async def test_an_agent_that_dies_when_it_is_started_leaves_the_conversation_waiting(place: Place, start: str) -> None:
    place.play({**book(), "start": [{"crash": start}]})
    async with place.sitting() as (_, _, talks):
        name = await talks.open(AGENT)
        with pytest.raises(AgentUnavailable, match="died in initialize"):
            await talks.say(name, TOLD, place.cwd)
        assert talks.state(name).state == "waiting_for_input"
        place.play(book())
        assert (await talks.say(name, TOLD, place.cwd)).reason == "end_turn"


async def test_a_folder_that_is_gone_is_one_clear_line_and_the_conversation_waits(place: Place) -> None:
    place.play(book())
    async with place.sitting() as (_, _, talks):
        name = await talks.open(AGENT)
        with pytest.raises(BadInput, match="/nowhere is not there"):
            await talks.say(name, TOLD, "/nowhere")
        assert talks.state(name).state == "waiting_for_input"


# Interrupted turns


@pytest.mark.parametrize("policy", AfterInterruption)
async def test_a_turn_that_was_cut_off_goes_on_as_the_policy_says(place: Place, policy: AfterInterruption) -> None:
    place.play(book(load="works"))
    async with place.sitting() as (_, _, talks):
        name = await talks.open(AGENT)
        await talks.say(name, "die", place.cwd)
        turn = await talks.go_on(name, place.cwd, policy)
        assert await talks.go_on(name, place.cwd, policy) is None, "what ended is not repeated"
    said = await place.said("system")
    if policy is AfterInterruption.ASK:
        assert turn is None
        assert said == []
    else:
        assert turn is not None
        assert turn.reason == "end_turn"
    if policy is AfterInterruption.CONTINUE:
        assert "- Saw" in said[0]
        assert said[0].endswith("The request was:\ndie")


async def test_going_on_is_cut_off_too_and_the_request_is_still_the_users(place: Place) -> None:
    turns = [{"when": "die|interrupted", "steps": [{"say": "hm"}, {"crash": "kill"}]}]
    place.play({"turns": turns})
    async with place.sitting() as (_, _, talks):
        name = await talks.open(AGENT)
        await talks.say(name, "die", place.cwd)
        for _ in range(2):
            turn = await talks.go_on(name, place.cwd, AfterInterruption.CONTINUE)
            assert turn is not None
            assert turn.reason == "interrupted"
    first, second = await place.said("system")
    assert first == second


async def test_nothing_was_cut_off_nothing_goes_on(place: Place) -> None:
    place.play(book())
    async with place.sitting() as (_, _, talks):
        name = await talks.open(AGENT)
        assert await talks.go_on(name, place.cwd, AfterInterruption.CONTINUE) is None
        await talks.say(name, TOLD, place.cwd)
        assert await talks.go_on(name, place.cwd, AfterInterruption.RETRY) is None


async def test_whoever_stops_waiting_for_a_turn_leaves_it_interrupted_and_the_agent_gone(place: Place) -> None:
    place.play(book(load="works"))
    async with place.sitting() as (run, _, talks):
        name = await talks.open(AGENT)
        turn = asyncio.ensure_future(talks.say(name, "stop", place.cwd))
        await until(lambda: _calls(run, name) == ["t-2"])
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn
        assert place.processes() == []
        assert talks.state(name).state == "waiting_for_input"
        assert (await talks.say(name, "hello", place.cwd)).reason == "end_turn"
    assert await place.interrupted_calls() == ["t-2"]


def _calls(run: Any, name: str) -> list[str]:
    turn = run.state.conversations[name].turn
    return list(turn.calls) if turn is not None else []


# The end


@pytest.mark.parametrize("phase", [Phase.COMPLETED, Phase.CANCELLED, Phase.FAILED])
async def test_a_conversation_that_is_over_takes_no_more_words(place: Place, phase: Phase) -> None:
    place.play(book())
    async with place.sitting() as (_, _, talks):
        name = await talks.open(AGENT)
        await talks.say(name, TOLD, place.cwd)
        await talks.close(name, phase, "enough")
        assert place.processes() == []
        assert talks.need(name) == (False, f"conversation_{phase}")
        with pytest.raises(Denied, match=f"is {phase}; open a new one"):
            await talks.say(name, KNOW, place.cwd)
        with pytest.raises(WrongTransition):
            await talks.close(name, Phase.CANCELLED)
    assert (await place.states())[-1] == phase


async def test_a_conversation_closed_in_the_middle_of_a_turn_stays_closed(place: Place) -> None:
    """The turn is interrupted, and written before the end; its prompt is not sent to a new agent."""
    place.play({"turns": [{"when": "deaf", "steps": [{"hang": "deaf"}]}]})
    async with place.sitting() as (run, _, talks):
        name = await talks.open(AGENT)
        turn = asyncio.ensure_future(talks.say(name, "deaf", place.cwd))
        await until(lambda: talks.state(name).state == "running")
        await talks.close(name, Phase.CANCELLED, "enough")
        assert (await turn).reason == "interrupted"
        assert run.state.conversations[name].turn is None
    assert (await place.states())[-2:] == ["waiting_for_input", "cancelled"]
    assert len(await place.events(TurnStarted)) == 1
    assert len(await place.events(ConversationDetached)) == 1


async def test_a_sitting_that_ends_in_the_middle_of_a_turn_writes_that_it_was_interrupted(place: Place) -> None:
    place.play(book())
    async with place.sitting() as (run, _, talks):
        name = await talks.open(AGENT)
        turn = asyncio.ensure_future(talks.say(name, "stop", place.cwd))
        await until(lambda: _calls(run, name) == ["t-2"])
    assert (await turn).reason == "interrupted"
    assert (await place.states())[-1] == "waiting_for_input"
    assert await place.interrupted_calls() == ["t-2"]


async def test_a_cancelled_turn_ends_and_the_agent_stays(place: Place) -> None:
    place.play({"turns": [{"when": "long", "steps": [{"tool": {"id": "t-9", "title": "Dig"}}, {"hang": "turn"}]}]})
    async with place.sitting() as (run, _, talks):
        name = await talks.open(AGENT)
        turn = asyncio.ensure_future(talks.say(name, "long", place.cwd))
        await until(lambda: _calls(run, name) == ["t-9"])
        await talks.cancel(name)
        assert (await turn).reason == "cancelled"
        assert talks.need(name) == (False, "agent_running")
    assert await place.interrupted_calls() == ["t-9"], "a call in flight never completed"


async def test_an_agent_that_does_not_stop_when_asked_is_ended_and_not_asked_again(place: Place) -> None:
    place.play({"turns": [{"when": "deaf", "steps": [{"hang": "deaf"}]}], "otherwise": OTHERWISE})
    async with place.sitting(deadlines=Deadlines(cancel=0.3)) as (_, _, talks):
        name = await talks.open(AGENT)
        turn = asyncio.ensure_future(talks.say(name, "deaf", place.cwd))
        await until(lambda: talks.state(name).state == "running")
        await talks.cancel(name)
        assert (await turn).reason == "interrupted"
        assert place.processes() == []
        assert (await talks.say(name, "hello", place.cwd)).reason == "end_turn"
    assert await place.said("user") == ["deaf", "hello"]
    reasons = [event.reason for event in await place.events(ConversationDetached)]
    assert reasons[0] == "the agent did not stop when its turn was cancelled"


async def test_there_is_nothing_to_cancel_between_turns(place: Place) -> None:
    place.play(book())
    async with place.sitting() as sitting:
        name = await sitting.talks.open(AGENT)
        await sitting.talks.cancel(name)
        await sitting.talks.say(name, TOLD, place.cwd)
        await sitting.talks.cancel(name)
        await kill_idle(sitting, name)
        await sitting.talks.cancel(name)
        assert (await sitting.talks.say(name, TOLD, place.cwd)).reason == "end_turn"


async def test_a_refused_prompt_ends_its_turn_with_what_the_agent_said(place: Place) -> None:
    place.play({"turns": [{"when": "x", "steps": [{"error": {"code": -32000, "message": "usage limit reached"}}]}]})
    async with place.sitting() as (_, _, talks):
        name = await talks.open(AGENT)
        turn = await talks.say(name, "x", place.cwd)
        assert turn.reason == "refused"
        assert "usage limit reached" in (turn.detail or "")
        assert talks.state(name).state == "waiting_for_input"
    assert [event.stop_reason for event in await place.events(TurnEnded)] == ["refused"]


@pytest.mark.parametrize("result", [None, {"stopReason": "weird"}, {}], ids=["null", "weird", "empty"])
async def test_an_answer_that_the_protocol_does_not_know_ends_the_turn(place: Place, result: object) -> None:
    third = {"jsonrpc": "2.0", "id": 2, "result": result}  # initialize, session/new, session/prompt
    place.play({"turns": [{"when": "odd", "steps": [{"send": third}, {"hang": "turn"}]}], "otherwise": OTHERWISE})
    async with place.sitting() as (_, _, talks):
        name = await talks.open(AGENT)
        turn = await talks.say(name, "odd", place.cwd)
        assert turn.reason == "refused"
        assert "its answer is not as the protocol has it" in (turn.detail or "")
        assert talks.state(name).state == "waiting_for_input"


async def test_an_agent_that_refuses_to_list_its_sessions_is_taken_at_its_word(place: Place) -> None:
    place.play(book(resume="works", list={"how": "refuses", "advertised": True}))
    async with place.sitting() as sitting:
        name = await sitting.talks.open(AGENT)
        await sitting.talks.say(name, TOLD, place.cwd)
        await kill_idle(sitting, name)
        await sitting.talks.say(name, KNOW, place.cwd)
    assert await place.rungs() == ["fresh", "session/resume"]
    assert TOLD in (await place.said())[-1]


async def test_before_its_first_agent_a_conversation_needs_no_resume(place: Place) -> None:
    place.play(book())
    async with place.sitting() as (_, _, talks):
        name = await talks.open(AGENT)
        assert talks.need(name) == (False, "not_started")
        with pytest.raises(BadInput, match="there is no conversation 'nobody'"):
            talks.need("nobody")


async def test_without_a_token_the_resume_is_a_fresh_start(place: Place) -> None:
    place.play(book())
    async with place.sitting() as (run, _, talks):
        name = await talks.open(AGENT)
        await talks.say(name, TOLD, place.cwd)
        await run.append(ConversationTokenStored(conversation=name, token=None))
    async with place.sitting() as (_, _, talks):
        assert talks.need(name) == (True, "agent_not_running_fresh_start")
        await talks.say(name, KNOW, place.cwd)
    assert await place.rungs() == ["fresh", "history injection"]


@pytest.mark.parametrize("agent", ["", "nobody", " "])
async def test_an_agent_that_nobody_knows_opens_no_conversation(place: Place, agent: str) -> None:
    async with place.sitting() as (run, _, talks):
        with pytest.raises(BadInput, match="there is no agent"):
            await talks.open(agent)
        assert run.state.conversations == {}
