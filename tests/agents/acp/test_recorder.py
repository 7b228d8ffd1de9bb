"""Facts of the scribe: a log hardly longer than what was said, and every call that started has an end."""

from typing import Any

import msgspec
import pytest

from holdfast.agents.acp.bounded_json import MAX_TEXT_CHARS
from holdfast.agents.acp.recorder import FLUSH_DELAY_S, MAX_BUFFER_CHARS, EventRecorder
from holdfast.core.events import Event
from holdfast.core.events.budget import UsageRecorded
from holdfast.core.events.conversation import (
    AgentMisbehaved,
    AgentPlanned,
    CommandsListed,
    MessageRecorded,
    ModeChanged,
    ToolCalled,
    ToolDetailed,
    ToolReturned,
)
from holdfast.leaf.errors import StorageFailed
from tests.agents.company import Book
from tests.support.wait import until


class Hand:
    """A scribe, what it wrote, and the time."""

    def __init__(self) -> None:
        self.now = 0.0
        self.book = Book()
        self.scribe = EventRecorder("c", self.book.store, self.book.hint, lambda: self.now)

    async def say(self, text: str, kind: str = "agent_message_chunk") -> None:
        await self.scribe.update({"sessionUpdate": kind, "content": {"type": "text", "text": text}})

    async def tell(self, kind: str, /, **fields: Any) -> None:
        await self.scribe.update({"sessionUpdate": kind, **fields})

    @property
    def events(self) -> list[Event]:
        return self.book.events


@pytest.fixture
def hand() -> Hand:
    return Hand()


def message(text: str, speaker: str = "agent", *, turn: str | None = None, more: bool = False) -> MessageRecorded:
    return MessageRecorded(conversation="c", speaker=speaker, text=text, turn=turn, more=more)


async def test_streamed_text_becomes_one_message(hand: Hand) -> None:
    for piece in ("Hel", "lo, ", "world"):
        await hand.say(piece)
    assert hand.events == []
    await hand.scribe.flush()
    assert hand.events == [message("Hello, world")]


async def test_streamed_text_is_shown_at_once(hand: Hand) -> None:
    await hand.say("Hel")
    await hand.say("hm", "agent_thought_chunk")
    assert hand.book.hints == [("agent", "Hel"), ("thought", "hm")]


async def test_a_log_of_a_hundred_thousand_deltas_is_hardly_longer_than_the_text(hand: Hand) -> None:
    pieces = [f"word{number} " for number in range(100_000)]
    for piece in pieces:
        await hand.say(piece)
    await hand.scribe.flush()
    text = "".join(pieces)
    assert hand.book.said() == text
    assert sum(len(msgspec.json.encode(event)) for event in hand.events) <= 2 * len(text)


async def test_a_long_message_is_written_in_parts_of_which_only_the_last_is_the_end(hand: Hand) -> None:
    await hand.say("a" * MAX_BUFFER_CHARS)
    await hand.say("b" * MAX_BUFFER_CHARS)
    await hand.say("c")
    await hand.scribe.flush()
    assert [(event.more, event.text[0]) for event in hand.events if isinstance(event, MessageRecorded)] == [
        (True, "a"),
        (True, "b"),
        (False, "c"),
    ]


async def test_text_that_waited_long_enough_is_written(hand: Hand) -> None:
    await hand.say("a")
    hand.now += FLUSH_DELAY_S
    await hand.say("b")
    assert hand.events == [message("ab", more=True)]


async def test_text_that_nothing_comes_after_is_written_too() -> None:
    book = Book()
    scribe = EventRecorder("c", book.store, book.hint, flush_delay_s=0.01)
    await scribe.update({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "I wait."}})
    await until(lambda: bool(book.events))
    await scribe.update({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": " On."}})
    await scribe.flush()
    assert [event.text for event in book.events if isinstance(event, MessageRecorded)] == ["I wait.", " On."]
    assert [event.more for event in book.events if isinstance(event, MessageRecorded)] == [True, False]


async def test_late_text_that_cannot_be_written_is_told_to_whoever_listens() -> None:
    async def full(*events: Event) -> None:
        raise StorageFailed("the disk is full")

    scribe = EventRecorder("c", full, lambda *_: None, flush_delay_s=0.0)
    words = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "x"}}
    scribe._text.append("x")
    scribe._speaker = "agent"
    scribe._flush_late()
    await until(lambda: scribe._late_flush is not None and scribe._late_flush.done())
    with pytest.raises(StorageFailed):
        await scribe.update(words)


async def test_text_is_written_before_what_comes_after_it(hand: Hand) -> None:
    await hand.say("I look.")
    await hand.tell("tool_call", toolCallId="1", title="Look")
    assert [type(event) for event in hand.events] == [MessageRecorded, ToolCalled]


async def test_another_speaker_ends_a_message(hand: Hand) -> None:
    await hand.say("hm", "agent_thought_chunk")
    await hand.say("Yes.")
    await hand.say("hm again", "agent_thought_chunk")
    await hand.scribe.flush()
    assert hand.events == [message("hm", "thought"), message("Yes."), message("hm again", "thought")]


async def test_our_own_words_are_not_written_again(hand: Hand) -> None:
    await hand.say("do it", "user_message_chunk")
    await hand.scribe.flush()
    assert hand.events == []


async def test_everything_in_a_turn_carries_its_id(hand: Hand) -> None:
    hand.scribe.turn_id = "t1"
    await hand.say("a")
    await hand.tell("tool_call", toolCallId="1", title="Look")
    hand.scribe.turn_id = None
    await hand.say("late")
    await hand.scribe.flush()
    assert [event.turn for event in hand.events if isinstance(event, MessageRecorded | ToolCalled)] == [
        "t1",
        "t1",
        None,
    ]


async def test_other_content_is_named(hand: Hand) -> None:
    for content in (
        {"type": "image", "mimeType": "image/png"},
        {"type": "resource_link", "uri": "file:///a"},
        {},
        None,
    ):
        await hand.tell("agent_message_chunk", content=content)
    await hand.tell("agent_message_chunk", content={"type": "text", "text": None})
    await hand.scribe.flush()
    assert hand.book.said() == "[image image/png][resource_link file:///a][something]"


async def test_a_tool_call_is_written_when_it_starts_and_when_it_ends(hand: Hand) -> None:
    await hand.tell("tool_call", toolCallId="1", title="Run", kind="execute", status="pending", rawInput={"a": 1})
    for number in range(1000):
        await hand.tell("tool_call_update", toolCallId="1", status="in_progress", content=[{"n": number}])
    await hand.tell("tool_call_update", toolCallId="1", status="completed", content=None, rawOutput={"ok": True})
    called, returned = hand.events
    assert isinstance(called, ToolCalled)
    assert isinstance(returned, ToolReturned)
    assert (called.tool, called.kind, bytes(called.input)) == ("Run", "execute", b'{"a":1}')
    assert (returned.status, bytes(returned.output), bytes(returned.content)) == (
        "completed",
        b'{"ok":true}',
        b'[{"n":999}]',
    )


async def test_a_call_that_is_over_at_once_is_both(hand: Hand) -> None:
    await hand.tell("tool_call", toolCallId="1", title="Run", status="failed")
    assert [type(event) for event in hand.events] == [ToolCalled, ToolReturned]


async def test_an_update_of_an_unknown_call_starts_it(hand: Hand) -> None:
    await hand.tell("tool_call_update", toolCallId="1", title="Run", status="completed")
    assert [type(event) for event in hand.events] == [ToolCalled, ToolReturned]


async def test_a_call_that_is_over_does_not_start_again_by_a_late_update(hand: Hand) -> None:
    await hand.tell("tool_call", toolCallId="1", title="Run")
    for _ in range(3):
        await hand.tell("tool_call_update", toolCallId="1", status="completed")
    assert [type(event) for event in hand.events] == [ToolCalled, ToolReturned]


async def test_an_id_can_be_used_for_another_call(hand: Hand) -> None:
    for _ in range(2):
        await hand.tell("tool_call", toolCallId="1", title="Run")
        await hand.tell("tool_call_update", toolCallId="1", status="completed")
    assert [type(event) for event in hand.events] == [ToolCalled, ToolReturned] * 2


async def test_calls_in_flight_are_interrupted_at_death_and_only_once(hand: Hand) -> None:
    await hand.tell("tool_call", toolCallId="1", title="Run")
    await hand.tell("tool_call", toolCallId="2", title="Look", status="completed")
    await hand.say("I was abou")
    last = hand.scribe.final_events()
    assert last == [message("I was abou"), ToolReturned(conversation="c", call="1", status="interrupted")]
    assert hand.scribe.final_events() == []


async def test_a_plan_is_written_when_it_changes(hand: Hand) -> None:
    for status in ("pending", "pending", "completed", "completed"):
        await hand.tell("plan", entries=[{"content": "look", "status": status}])
    assert [type(event) for event in hand.events] == [AgentPlanned, AgentPlanned]


async def test_plan_that_changes_all_the_time_is_stored_now_and_then(hand: Hand) -> None:
    for number in range(10_000):
        await hand.tell("plan", entries=[{"content": f"{number} of 10000"}])
    assert len(hand.events) == 50
    await hand.scribe.flush()
    last = hand.events[-1]
    assert isinstance(last, AgentPlanned)
    assert b"9999 of 10000" in bytes(last.entries)
    assert len(hand.events) == 51


async def test_progress_of_a_call_is_no_event(hand: Hand) -> None:
    """A progress bar may run for days: only its last state, which is the result, is in the log."""
    await hand.tell("tool_call", toolCallId="1", title="Run")
    for number in range(10_000):
        content = [{"type": "content", "content": {"type": "text", "text": f"{number}%"}}]
        await hand.tell("tool_call_update", toolCallId="1", status="in_progress", content=content, rawOutput=number)
    assert [type(event) for event in hand.events] == [ToolCalled]
    await hand.tell("tool_call_update", toolCallId="1", status="completed")
    assert len(hand.events) == 2
    assert b"9999%" in bytes(hand.events[-1].content)  # type: ignore[attr-defined]


async def test_huge_result_is_shortened_and_says_so(hand: Hand) -> None:
    text = "start" + "x" * (20 * MAX_TEXT_CHARS) + "end"
    await hand.tell("tool_call", toolCallId="1", title="Run", status="completed", rawOutput={"stdout": text, "code": 0})
    await hand.tell("tool_call", toolCallId="2", title="Run", status="completed", rawOutput=["y" * 500_000] * 40)
    results = [bytes(event.output) for event in hand.events if isinstance(event, ToolReturned)]
    kept = msgspec.json.decode(results[0])
    assert kept["code"] == 0
    assert kept["stdout"].startswith("start")
    assert kept["stdout"].endswith("end")
    assert "characters left out" in kept["stdout"]
    assert all(len(result) < 2 * MAX_TEXT_CHARS for result in results)
    assert b"characters left out" in results[1]


async def test_what_was_spent_is_written_as_what_came_since(hand: Hand) -> None:
    for amount in (0.25, 0.25, 0.75, 0.5):
        await hand.tell("usage_update", used=1, size=2, cost={"amount": amount, "currency": "USD"})
    await hand.tell("usage_update", used=1, size=2, cost={"amount": 9, "currency": "EUR"})
    await hand.tell("usage_update", used=1, size=2)
    assert [event.dollars for event in hand.events if isinstance(event, UsageRecorded)] == [0.25, 0.5]


@pytest.mark.parametrize(
    ("told", "written"),
    [
        pytest.param((2.0, 2.5), [0.5], id="it goes on with its sum"),
        pytest.param((0.25, 0.5), [0.25, 0.25], id="it begins anew"),
        pytest.param((2.25, 0.5), [0.25], id="it goes on, and errs once"),
    ],
)
async def test_an_agent_that_came_back_is_not_paid_twice(
    hand: Hand, told: tuple[float, ...], written: list[float]
) -> None:
    hand.scribe.set_prior_cost(2.0)
    for amount in told:
        await hand.tell("usage_update", used=1, size=2)
        await hand.tell("usage_update", used=1, size=2, cost={"amount": amount, "currency": "USD"})
    assert [event.dollars for event in hand.events if isinstance(event, UsageRecorded)] == written


async def test_a_cost_of_nothing_is_told_once(hand: Hand) -> None:
    for _ in range(3):
        await hand.tell("usage_update", used=1, size=2, cost={"amount": 0, "currency": "USD"})
    await hand.tell("usage_update", used=1, size=2)
    assert [(event.dollars, event.priced) for event in hand.events if isinstance(event, UsageRecorded)] == [(0.0, True)]


async def test_tokens_count_while_a_turn_goes_on_and_once(hand: Hand) -> None:
    hand.scribe.turn_id = "t1"
    for used in (100, 90, 250):
        await hand.tell("usage_update", used=used, size=1000)
    (rest,) = hand.scribe.uncounted_usage(400, 30)
    assert isinstance(rest, UsageRecorded)
    assert [event.input_tokens for event in hand.events if isinstance(event, UsageRecorded)] == [100, 150]
    assert (rest.input_tokens, rest.output_tokens) == (150, 30)
    await hand.tell("usage_update", used=300, size=1000)
    assert hand.scribe.uncounted_usage(200, 0) == []  # more was counted already


async def test_a_mode_is_written(hand: Hand) -> None:
    await hand.tell("current_mode_update", currentModeId="plan")
    assert hand.events == [ModeChanged(conversation="c", mode="plan")]


async def test_commands_are_recorded_when_they_change_and_do_not_cut_a_message(hand: Hand) -> None:
    listed = [
        {"name": "/compact", "description": "shorten\n it", "input": {"hint": "what to keep"}},
        {"name": "two words"},
        {"name": ""},
        "review",
    ]
    await hand.say("a")
    await hand.tell("available_commands_update", availableCommands=listed)
    await hand.tell("available_commands_update", availableCommands=listed)
    await hand.say("b")
    await hand.scribe.flush()
    commands = CommandsListed(conversation="c", commands={"compact": "shorten it (what to keep)"})
    assert hand.events == [commands, message("ab")]


@pytest.mark.parametrize("kind", ["available_commands_update", "session_info_update", "config_option_update"])
async def test_what_is_only_for_a_screen_is_not_written_and_does_not_cut_a_message(hand: Hand, kind: str) -> None:
    await hand.say("a")
    await hand.tell(kind)
    await hand.say("b")
    await hand.scribe.flush()
    assert hand.events == [message("ab")]


async def test_unknown_updates_are_told_of_and_then_counted(hand: Hand) -> None:
    for number in range(1000):
        await hand.tell(f"dance_{number}")
    assert len(hand.events) == 20
    (rest,) = hand.scribe.final_events()
    assert isinstance(rest, AgentMisbehaved)
    assert (rest.what, rest.times) == ("an unknown update", 980)


async def test_oddities_are_told_of_and_then_counted(hand: Hand) -> None:
    for _ in range(1000):
        await hand.scribe.record_oddity("a line that is not JSON", "x")
    assert len(hand.events) == 20
    assert [event.times for event in hand.scribe.final_events() if isinstance(event, AgentMisbehaved)] == [980]


@pytest.mark.parametrize(
    "update",
    [
        {},
        {"sessionUpdate": ["plan"]},
        {"sessionUpdate": {"a": 1}},
        {"sessionUpdate": "tool_call"},
        {"sessionUpdate": "tool_call", "toolCallId": [1], "status": ["completed"], "title": {"a": 1}},
        {"sessionUpdate": "tool_call_update", "toolCallId": None, "status": {"x": 1}},
        {"sessionUpdate": "plan", "entries": "none"},
        {"sessionUpdate": "usage_update", "cost": {"amount": "much", "currency": "USD"}},
        {"sessionUpdate": "usage_update", "cost": {"amount": [1], "currency": "USD"}},
        {"sessionUpdate": "usage_update", "cost": 5},
        {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": 5}},
        {"sessionUpdate": "current_mode_update"},
    ],
)
async def test_an_update_of_any_shape_is_survived(hand: Hand, update: dict[str, Any]) -> None:
    await hand.scribe.update(update)
    await hand.say("on")
    await hand.scribe.flush()
    assert hand.book.said().endswith("on")


async def test_another_message_id_ends_a_message(hand: Hand) -> None:
    for number, piece in ((1, "Hel"), (1, "lo."), (2, "World.")):
        content = {"type": "text", "text": piece}
        await hand.tell("agent_message_chunk", content=content, messageId=f"m-{number}")
    await hand.scribe.flush()
    said = [(event.text, event.message_id) for event in hand.events if isinstance(event, MessageRecorded)]
    assert said == [("Hello.", "m-1"), ("World.", "m-2")]
    assert hand.scribe.last_message_id == "m-2"


async def test_input_that_comes_after_the_call_is_written(hand: Hand) -> None:
    """Once when it first comes, and once more at the end when it grew since."""
    await hand.tell("tool_call", toolCallId="1", title="Terminal", rawInput={})
    await hand.tell("tool_call_update", toolCallId="1", title="ls", rawInput={"command": "ls"})
    await hand.tell("tool_call_update", toolCallId="1", rawInput={"command": "ls -"})
    await hand.tell("tool_call_update", toolCallId="1", rawInput={"command": "ls -l"})
    await hand.tell("tool_call_update", toolCallId="1", status="completed")
    assert [type(event) for event in hand.events] == [ToolCalled, ToolDetailed, ToolDetailed, ToolReturned]
    detailed = [event for event in hand.events if isinstance(event, ToolDetailed)]
    assert [(event.tool, bytes(event.input)) for event in detailed] == [
        ("ls", b'{"command":"ls"}'),
        ("ls", b'{"command":"ls -l"}'),
    ]


async def test_input_that_came_with_the_call_is_not_written_again(hand: Hand) -> None:
    await hand.tell("tool_call", toolCallId="1", title="ls", rawInput={"command": "ls"})
    await hand.tell("tool_call_update", toolCallId="1", rawInput={"command": "ls"}, status="completed")
    assert [type(event) for event in hand.events] == [ToolCalled, ToolReturned]


async def test_permission_request_gives_the_input_of_a_call_that_was_announced(hand: Hand) -> None:
    await hand.tell("tool_call", toolCallId="1", title="bench")
    await hand.scribe.record_allowed_call({"toolCallId": "1", "rawInput": {"command": "make bench"}})
    assert [type(event) for event in hand.events] == [ToolCalled, ToolDetailed]


async def test_usage_names_its_task() -> None:
    book = Book()
    scribe = EventRecorder("c", book.store, book.hint, task_id="T-1")
    scribe.begin_turn("t")
    await scribe.update({"sessionUpdate": "usage_update", "used": 7, "size": 9})
    assert [
        event.task for event in [*book.events, *scribe.uncounted_usage(9, 2)] if isinstance(event, UsageRecorded)
    ] == [
        "T-1",
        "T-1",
    ]
