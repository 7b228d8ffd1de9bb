"""A conversation's past as the log has it: whole messages, results with their tools, and what was cut off."""

from collections.abc import AsyncIterator

import msgspec
import pytest

from holdfast.core.conversation.interruption import CallOutcome, InterruptedTurn, KnownCall, ReceivedReport
from holdfast.core.events import Event
from holdfast.core.events.conversation import (
    MessageRecorded,
    ToolCalled,
    ToolReturned,
    TurnEnded,
    TurnInterrupted,
    TurnStarted,
)
from holdfast.core.events.inbox import InboxConsumed
from holdfast.engine.agents.transcript import history_of, interrupted_turn, was_heard
from holdfast.store.base import Log
from holdfast.store.files.store import FileStore
from holdfast.store.run import OwnedRun, open_run
from tests.support.events import START
from tests.support.run_files import RUN

STARTED = TurnStarted(conversation="c", turn="t")
ENDED = TurnEnded(conversation="c", turn="t")
CUT = TurnInterrupted(conversation="c", turn="t")
LOST_POWER = TurnInterrupted(conversation="c", turn="t", rebooted=True)


@pytest.fixture
async def run(home: str) -> AsyncIterator[OwnedRun]:
    store = FileStore(home)
    await store.create(RUN)
    async with open_run(store, RUN) as run:
        await run.begin_session(START)
        yield run


@pytest.fixture
def log(home: str) -> Log:
    return FileStore(home).log(RUN)


def said(speaker: str, text: str, *, more: bool = False, conversation: str = "c") -> MessageRecorded:
    return MessageRecorded(conversation=conversation, speaker=speaker, text=text, more=more)


def called(call: str, tool: str) -> ToolCalled:
    return ToolCalled(conversation="c", call=call, tool=tool)


def returned(call: str, status: str = "completed", output: str | None = None) -> ToolReturned:
    raw = msgspec.Raw(msgspec.json.encode(output))
    return ToolReturned(conversation="c", call=call, status=status, output=raw)


async def transcript_lines(log: Log, budget: int = 10_000) -> list[str]:
    text = (await history_of(log, ("c",), budget)).prompt_with_history("now")
    return text.partition("=== EXECUTION HISTORY ===\n")[2].partition("\n\n=== CURRENT")[0].splitlines()


async def test_a_message_written_in_parts_is_one(run: OwnedRun, log: Log) -> None:
    await run.append(said("user", "Why?"), said("agent", "Be", more=True), said("agent", "cau", more=True))
    await run.append(said("agent", "se."), said("agent", "And so on."))
    assert await transcript_lines(log) == ["[USER]: Why?", "[ASSISTANT]: Because.", "[ASSISTANT]: And so on."]


async def test_a_message_that_was_never_finished_is_told_as_far_as_it_came(run: OwnedRun, log: Log) -> None:
    await run.append(said("agent", "It is", more=True), said("agent", " because", more=True), CUT)
    await run.append(STARTED, said("user", "Yes?"), said("agent", "Well", more=True))
    assert await transcript_lines(log) == ["[ASSISTANT]: It is because", "[USER]: Yes?", "[ASSISTANT]: Well"]


async def test_a_result_stands_after_its_call_whatever_came_between(run: OwnedRun, log: Log) -> None:
    await run.append(called("1", "read"), called("2", "grep"), returned("2", output="two"), returned("1", output="one"))
    assert await transcript_lines(log) == [
        *("[TOOL CALL: read]", "[TOOL RESULT: read] one"),
        *("[TOOL CALL: grep]", "[TOOL RESULT: grep] two"),
    ]


async def test_a_call_id_used_again_in_a_later_turn_has_its_own_result(run: OwnedRun, log: Log) -> None:
    await run.append(STARTED, called("1", "read"), returned("1", output="old"), ENDED)
    await run.append(STARTED, called("1", "grep"), returned("1", output="new"), ENDED)
    assert [line for line in await transcript_lines(log) if "RESULT" in line] == [
        "[TOOL RESULT: read] old",
        "[TOOL RESULT: grep] new",
    ]


@pytest.mark.parametrize(
    ("result", "shown"),
    [
        (returned("1", "interrupted"), "interrupted"),
        (returned("1", "failed", "no such file"), "(failed) no such file"),
        (returned("1", "completed"), "completed"),
        (ToolReturned(conversation="c", call="1", content=msgspec.Raw(b'["x"]')), "x"),
    ],
)
async def test_how_a_call_ended_is_told(run: OwnedRun, log: Log, result: ToolReturned, shown: str) -> None:
    await run.append(called("1", "saw"), result)
    assert await transcript_lines(log) == ["[TOOL CALL: saw]", f"[TOOL RESULT: saw] {shown}"]


async def test_thoughts_words_of_ours_and_other_conversations_are_not_told(run: OwnedRun, log: Log) -> None:
    await run.append(said("user", "a"), said("thought", "hm"), said("system", "Go on."), said("agent", "b"))
    await run.append(said("agent", "elsewhere", conversation="d"), said("user", '"conversation":"c"', conversation="d"))
    assert await transcript_lines(log) == ["[USER]: a", "[ASSISTANT]: b"]


async def test_the_newest_fit_into_the_budget_and_it_says_that_there_was_more(run: OwnedRun, log: Log) -> None:
    await run.append(*(said("user", f"message {number}") for number in range(100)))
    lines = await transcript_lines(log, budget=100)
    assert "left out" in lines[0]
    assert lines[1:] == [f"[USER]: message {number}" for number in range(100 - len(lines) + 1, 100)]
    assert sum(map(len, lines[1:])) <= 100


async def test_an_empty_conversation_has_no_history(run: OwnedRun, log: Log) -> None:
    await run.append(STARTED)
    assert not await history_of(log, ("c",))


@pytest.mark.parametrize(
    ("events", "heard"),
    [
        ([], False),
        ([said("system", "Go on.")], False),
        ([said("thought", "hm")], True),
        ([said("agent", "Yes")], True),
        ([called("1", "read")], True),
    ],
)
async def test_a_turn_was_heard_when_the_agent_did_something_in_it(
    run: OwnedRun, log: Log, events: list[Event], heard: bool
) -> None:
    await run.append(TurnStarted(conversation="c", turn="before"), said("agent", "an older turn"), ENDED)
    await run.append(STARTED, said("user", "a"), *events)
    assert await was_heard(log, "c", "t") is heard


ASKED = [STARTED, said("user", "Build it")]
GO_ON = [STARTED, said("system", "Go on.")]
IN_FLIGHT = [called("1", "read"), returned("1", output="a\nb"), called("2", "saw"), called("3", "drill")]
LOST = [returned("2", "interrupted"), returned("3", "interrupted")]
READ = KnownCall("read", CallOutcome.COMPLETED, "a\nb")
SAW, DRILL = (KnownCall(tool, CallOutcome.UNKNOWN) for tool in ("saw", "drill"))
ASKS = [called("4", "mcp__holdfast__request_research"), returned("4", "interrupted")]


def received(tool: str, conversation: str = "c", topic: str = "kelp") -> InboxConsumed:
    body = {"role": "worker", "signal": {"topic": topic}, "conversation": conversation}
    raw = msgspec.Raw(msgspec.json.encode(body))
    return InboxConsumed(cursor=1, message=f"m-{conversation}-{tool}", kind=f"signal.{tool}", body=raw)


def turn(*calls: KnownCall, rebooted: bool = False, reports: tuple[ReceivedReport, ...] = ()) -> InterruptedTurn:
    return InterruptedTurn("Build it", calls, reports, rebooted=rebooted)


@pytest.mark.parametrize(
    ("events", "interrupted"),
    [
        ([], None),
        ([*ASKED, ENDED], None),
        ([*ASKED], None),
        ([*ASKED, CUT], turn()),
        ([*ASKED, *IN_FLIGHT, *LOST, CUT], turn(READ, SAW, DRILL)),
        (
            [*ASKED, *IN_FLIGHT, returned("2", "failed", "dull"), CUT],
            turn(READ, SAW._replace(outcome=CallOutcome.FAILED, result="dull"), DRILL),
        ),
        ([*ASKED, CUT, *ASKED, ENDED], None),
        (
            [*ASKED, *IN_FLIGHT, *LOST, CUT, *GO_ON, called("2", "file"), CUT],
            turn(READ, SAW, DRILL, KnownCall("file", CallOutcome.UNKNOWN)),
        ),
        ([*ASKED, CUT, *GO_ON, ENDED], None),
        ([*ASKED, LOST_POWER], turn(rebooted=True)),
        ([*ASKED, LOST_POWER, *GO_ON, CUT], turn(rebooted=True)),
        ([*ASKED, LOST_POWER, *GO_ON, ENDED, *ASKED, CUT], turn()),
        ([*ASKED, *ASKS, CUT, received("request_research")], turn(KnownCall("request_research", CallOutcome.RECEIVED))),
        (
            [*ASKED, *ASKS, CUT, received("request_research", "d")],
            turn(KnownCall("request_research", CallOutcome.NOT_RECEIVED)),
        ),
        ([*ASKED, CUT, received("request_research")], turn(reports=(ReceivedReport("request_research", "kelp"),))),
        ([received("request_research"), *ASKED, CUT], turn()),
    ],
)
async def test_an_interrupted_turn_has_the_users_request_and_what_is_known_of_each_call(
    run: OwnedRun, log: Log, events: list[Event], interrupted: InterruptedTurn | None
) -> None:
    if events:
        await run.append(*events)
    assert await interrupted_turn(log, "c") == interrupted


async def test_messages_of_continuing_prompts_are_not_in_the_request(run: OwnedRun, log: Log) -> None:
    first = TurnStarted(conversation="c", turn="t", messages=["m-1"], notices=["task k"])
    then = TurnStarted(conversation="c", turn="t", messages=["m-2"], notices=["tasks/T-1"])
    await run.append(first, said("user", "Build it"), CUT, then, said("system", "Go on."), CUT)
    found = await interrupted_turn(log, "c")
    assert found is not None
    assert (found.later_messages, found.notices) == (frozenset({"m-2"}), frozenset({"task k"}))


async def test_a_continuing_prompt_is_in_the_history_when_it_delivered_messages(run: OwnedRun, log: Log) -> None:
    def continued(text: str, *messages: str) -> list[Event]:
        start = TurnStarted(conversation="c", turn=text[:1], messages=list(messages))
        return [start, MessageRecorded(conversation="c", speaker="system", text=text, turn=text[:1]), ENDED]

    await run.append(*continued("1 again"), *continued("2 again, and mind the kelp", "m"), *continued("3 again"))
    assert await transcript_lines(log) == ["[USER]: 2 again, and mind the kelp"]
    await run.append(*continued(f"4 {'x' * 9_000} and mind the kelp", "n"))
    (last,) = (
        line
        for line in await transcript_lines(log)
        if "mind the kelp" in line and "left out" not in line and "2" not in line
    )
    assert last.endswith("and mind the kelp")
