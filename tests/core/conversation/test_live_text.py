"""What is shown of an open turn: the text in the log, and what hints have beyond it."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.conversation.live_text import Hint, LiveText, OpenText
from holdfast.core.events import Event
from holdfast.core.events.conversation import (
    MessageRecorded,
    ToolCalled,
    TurnEnded,
    TurnInterrupted,
    TurnStarted,
)

START = TurnStarted(conversation="c", turn="t")


def recorded(text: str, *, more: bool = True, speaker: str = "agent") -> MessageRecorded:
    return MessageRecorded(conversation="c", turn="t", speaker=speaker, text=text, more=more)


def hint(offset: int, text: str, *, turn: str = "t", speaker: str = "agent") -> Hint:
    return Hint("c", turn, speaker, offset, text)


def shown(live: LiveText) -> str | None:
    found = live.open_texts().get("c")
    return found.text if found is not None else None


def test_hint_continues_the_recorded_text() -> None:
    live = LiveText([START, recorded("Hello, ")])
    assert live.add(hint(7, "world"))
    assert shown(live) == "Hello, world"
    assert live.unrecorded("c", "t", "agent") == "world"


def test_hint_that_the_log_already_has_changes_nothing() -> None:
    live = LiveText([START, recorded("Hello, world")])
    assert not live.add(hint(7, "world"))
    assert shown(live) == "Hello, world"


def test_hint_that_the_log_has_in_part_adds_the_rest() -> None:
    live = LiveText([START, recorded("Hello, wo")])
    assert live.add(hint(7, "world"))
    assert live.unrecorded("c", "t", "agent") == "rld"


def test_text_after_a_gap_waits_for_the_log() -> None:
    live = LiveText([START])
    live.add(hint(7, "world"))
    assert shown(live) is None
    live.record(recorded("Hello, "))
    assert shown(live) == "Hello, world"


def test_hint_before_the_start_of_its_turn_is_kept() -> None:
    live = LiveText()
    live.add(hint(0, "Hello"))
    live.record(START)
    assert shown(live) == "Hello"


def test_complete_message_is_no_longer_open() -> None:
    live = LiveText([START])
    live.add(hint(0, "Hello"))
    live.record(recorded("Hello", more=False))
    assert shown(live) is None
    live.add(hint(5, "Then"))
    assert shown(live) == "Then"


def test_tool_call_ends_a_message_that_was_stored_in_parts() -> None:
    live = LiveText([START, recorded("Hello")])
    live.record(ToolCalled(conversation="c", call="1", tool="Look", turn="t"))
    assert shown(live) is None


def test_message_follows_a_thought() -> None:
    live = LiveText([START])
    live.add(hint(0, "hm", speaker="thought"))
    assert live.open_texts() == {"c": OpenText("thought", "hm")}
    live.record(recorded("hm", more=False, speaker="thought"))
    live.add(hint(0, "So"))
    assert live.open_texts() == {"c": OpenText("agent", "So")}


def test_late_hint_of_an_ended_turn_is_ignored() -> None:
    for end in (TurnEnded(conversation="c", turn="t"), TurnInterrupted(conversation="c", turn="t")):
        live = LiveText([START, end])
        assert not live.add(hint(0, "Hello"))
        assert shown(live) is None
        assert live.add(hint(0, "Again", turn="t2"))


def test_other_conversations_are_apart() -> None:
    live = LiveText([START, recorded("Hello")])
    live.record(ToolCalled(conversation="d", call="1", tool="Look"))
    live.add(Hint("d", "t", "agent", 0, "Other"))
    assert {name: text.text for name, text in live.open_texts().items()} == {"c": "Hello", "d": "Other"}


def test_only_the_end_of_a_long_message_is_kept() -> None:
    live = LiveText([START])
    for _ in range(10):
        live.record(recorded("x" * 1_000))
    live.add(hint(10_000, "y"))
    assert shown(live) == "x" * 3_999 + "y"


Step = Event | Hint


@st.composite
def histories(draw: st.DrawFn) -> tuple[str, Sequence[Step]]:
    """A text, and what a client receives of it: the log in order, hints lost, doubled and in any order."""
    text = draw(st.text(st.sampled_from("ab \n日😀"), max_size=60))
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=6)))
    log = [recorded(text[start:end]) for start, end in zip([0, *cuts], cuts, strict=False)]
    places = st.tuples(st.integers(0, len(text)), st.integers(0, 20))
    hints = [hint(start, text[start : start + size]) for start, size in draw(st.lists(places, max_size=12))]
    steps: list[Step] = list(hints)
    at = 0
    for event in log:
        at = draw(st.integers(at, len(steps)))
        steps.insert(at, event)
        at += 1
    return text, steps


@given(histories())
def test_nothing_is_doubled_or_missing(history: tuple[str, Sequence[Step]]) -> None:
    """Shown is the beginning of what was said: all of the log, and every hint that joins it."""
    text, steps = history
    live, in_log, known = LiveText([START]), 0, set[int]()
    for step in steps:
        if isinstance(step, Hint):
            live.add(step)
            known |= set(range(step.offset, step.end))
        else:
            assert isinstance(step, MessageRecorded)
            live.record(step)
            in_log += len(step.text)
        end = in_log
        while end in known:
            end += 1
        assert text[:in_log] + live.unrecorded("c", "t", "agent") == text[:end]
        assert (shown(live) or "") == text[:end]
