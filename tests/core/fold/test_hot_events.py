"""Hot events are read in one go, and means what it means when each line is looked at by itself."""

from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.events.budget import UsageRecorded
from holdfast.core.events.conversation import ConversationOpened, MessageRecorded, ToolCalled, ToolReturned, TurnStarted
from holdfast.core.fold.fold import Fold
from holdfast.core.fold.hot_events import read_hot_lines
from tests.core.logs import entry, fold_once, foreign, session_log
from tests.core.strategies import GARBAGE, events, examples, lines

TURN = (
    TurnStarted(conversation="c", turn="t"),
    MessageRecorded(conversation="c", speaker="agent", text="ü"),
    ToolCalled(conversation="c", call="1", tool="read", input=msgspec.Raw(b'{"path":"a"}')),
    ToolReturned(conversation="c", call="1"),
    UsageRecorded(input_tokens=3),
)

ODD: dict[str, Callable[[bytes], bytes]] = {
    "not UTF-8 in a word of the head": lambda line: line.replace(b'"agent":null', b'"agent":"\xff"'),
    "not UTF-8 in the time": lambda line: line.replace(b'"ts":"', b'"ts":"\xff'),
    "not UTF-8 in the data": lambda line: line.replace(b'"c"', b'"\xff"'),
    "half a character in the data": lambda line: line.replace(b'"c"', rb'"\ud83d"'),
    "a number for a word": lambda line: line.replace(b'"agent":null', b'"agent":7'),
    "a number for the time": lambda line: line.replace(b'"ts":"', b'"ts":1,"was":"'),
    "no time": lambda line: line.replace(b'"ts":"', b'"was":"'),
    "a list for the feature": lambda line: line.replace(b'"feature":null', b'"feature":[]'),
    "an older version": lambda line: line.replace(b'"v":1', b'"v":0'),
    "a newer version": lambda line: line.replace(b'"v":1', b'"v":2'),
    "a version in words": lambda line: line.replace(b'"v":1', b'"v":"1"'),
    "no version": lambda line: line.replace(b'"v":1,', b""),
    "no data": lambda line: line.replace(b'"data"', b'"said"'),
    "data that is nothing": lambda line: line.replace(b'"data":{', b'"data":null,"said":{'),
    "data that does not fit": lambda line: line.replace(b'"c"', b"5"),
    "data twice": lambda line: line.replace(b'"data":{', b'"data":5,"data":{'),
    "two types": lambda line: line.replace(b'"type"', b'"type":"tool.called","type"'),
    "a type escaped": lambda line: line.replace(b'"type":"t', rb'"type":"\u0074'),
    "an unknown type": lambda line: line.replace(b'"type":"', b'"type":"x'),
    "no type": lambda line: line.replace(b'"type"', b'"kind"'),
    "no number": lambda line: line.replace(b'"seq":', b'"seq":-'),
    "a byte order mark": lambda line: b"\xef\xbb\xbf" + line,
    "space around it": lambda line: b"\x0c \t" + line[:-1] + b" \r\x0b\n",
    "two on a line": lambda line: line[:-1] + line,
    "torn": lambda line: line[: len(line) // 2] + b"\n",
    "blank": lambda line: b" \r\n",
}


def each_by_itself(data: bytes) -> Fold:
    """The fold that trusts no line: told to leave one out (which is not there), it reads none in one go."""
    return fold_once(data, skip_lines=frozenset({0}))


def assert_the_same(data: bytes) -> None:
    at_once, slowly, of_lines = fold_once(data), each_by_itself(data), Fold()
    of_lines.feed_lines([line + b"\n" for line in data.split(b"\n")[:-1]])
    assert at_once.state == of_lines.state == slowly.state
    assert at_once.repeated == of_lines.repeated == slowly.repeated


@pytest.mark.parametrize("name", ODD)
def test_an_odd_line_among_talk_means_what_it_means_alone(name: str) -> None:
    """First of a session, between others, and last; once, and again and again."""
    hot_lines = session_log(*TURN * 3).splitlines(keepends=True)
    for step in (1, 2, 7, len(hot_lines)):
        for first in range(min(step, len(hot_lines))):
            log = [ODD[name](line) if at % step == first else line for at, line in enumerate(hot_lines)]
            assert_the_same(b"".join(log))


@st.composite
def conversations(draw: st.DrawFn) -> bytes:
    """Mostly hot events of one session, in order; some are odd, lost, repeated, or between lines of other sessions."""
    log: list[bytes] = []
    seq = 0
    for _ in range(draw(st.integers(1, 30))):
        happens = draw(st.integers(0, 15))
        event = draw(events() if happens == 0 else st.sampled_from(TURN))
        line = entry(event, seq, agent=draw(st.sampled_from([None, "a"])))
        if happens == 1:
            line = draw(lines())
        elif happens == 2:
            line = draw(st.sampled_from(GARBAGE)) + b"\n"
        elif happens in (3, 4, 5):
            line = draw(st.sampled_from(sorted(ODD)).map(ODD.__getitem__))(line)
        log.append(line)
        seq += draw(st.sampled_from([1] * 12 + [0, 2]))
    return b"".join(log)


@given(conversations())
@examples(200)
def test_talk_among_anything_folds_as_line_by_line(data: bytes) -> None:
    assert_the_same(data)


def test_talk_ends_at_the_first_line_that_is_something_else() -> None:
    hot_lines = session_log(*TURN).splitlines(keepends=True)
    for other in (foreign("never.heard.of", 9), entry(ConversationOpened(conversation="c"), 9), b"{}\n", b"\n"):
        unread = iter([*hot_lines, other, *hot_lines])
        assert len(read_hot_lines(unread)) == len(hot_lines)
        assert len(read_hot_lines(unread)) == len(hot_lines)
        assert read_hot_lines(iter([other, *hot_lines])) == []
    assert read_hot_lines(iter([])) == []
