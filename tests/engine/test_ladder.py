"""The way back into a conversation, with real agents that die and lie: it always ends where one can speak again."""

from collections.abc import Mapping
from typing import Any

import pytest

from holdfast.agents.driver import Deadlines
from holdfast.core.events.conversation import (
    ConversationAttached,
    ConversationDetached,
    ConversationTokenStored,
    ToolCalled,
)
from holdfast.core.history import TOTAL
from holdfast.engine.conversations import AgentUnavailable
from holdfast.leaf.errors import BadInput
from tests.support.players import KNOW, TOLD, book, kill_idle
from tests.support.processes import child
from tests.support.talks import AGENT, Place, say_until_killed
from tests.support.waiting import until

HASTY = Deadlines(session=1, silence=1)

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


async def test_an_agent_that_refuses_to_list_its_sessions_is_taken_at_its_word(place: Place) -> None:
    place.play(book(resume="works", list={"how": "refuses", "advertised": True}))
    async with place.sitting() as sitting:
        name = await sitting.talks.open(AGENT)
        await sitting.talks.say(name, TOLD, place.cwd)
        await kill_idle(sitting, name)
        await sitting.talks.say(name, KNOW, place.cwd)
    assert await place.rungs() == ["fresh", "session/resume"]
    assert TOLD in (await place.said())[-1]


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
