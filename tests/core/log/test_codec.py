import json
import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.events import TYPES, Envelope, Event
from holdfast.core.events.conversation import ToolCalled
from holdfast.core.events.session import SessionStart
from holdfast.core.events.task import TaskCompleted, TaskStarted
from holdfast.core.log.codec import (
    CODEC,
    Codec,
    InvalidEventData,
    Line,
    Malformed,
    data_of,
    encode,
    is_json,
    parse,
    parse_lines,
)
from tests.core.examples import EXAMPLES
from tests.core.logs import entry, foreign
from tests.core.strategies import GARBAGE, events, examples

HEAD = b'{"sid":"s1","seq":3,"type":"somebody.elses"'
DEEP = b"[" * 100_000 + b"]" * 100_000


def line_of(raw: bytes) -> Line:
    line = parse(raw)
    assert isinstance(line, Line), line
    return line


def reason_of(raw: bytes) -> str:
    line = parse(raw)
    assert isinstance(line, Malformed), line
    return line.reason


# Writing


def test_the_envelope_is_written_in_the_order_of_the_protocol_with_every_key() -> None:
    written = json.loads(encode(Envelope(sid="s1", seq=0, type="session.start", data=SessionStart())))
    assert list(written) == [
        "v",
        "ts",
        "sid",
        "seq",
        "type",
        "feature",
        "agent",
        "pane_id",
        "data",
        "trace_id",
        "span_id",
    ]


def test_a_line_holds_no_newline_whatever_its_text() -> None:
    assert entry(SessionStart(feature="two\nlines\r\n\u2028")).count(b"\n") == 1


@given(events())
@examples(150)
def test_an_event_that_is_written_reads_back_as_itself(event: Event) -> None:
    assert CODEC.event(line_of(entry(event))) == event


# Reading what is an event


@pytest.mark.parametrize(
    "raw",
    [
        HEAD + b"}",
        HEAD + b"}\r",
        HEAD + b"} ",
        b"  \t" + HEAD + b"}",
        b"\xef\xbb\xbf" + HEAD + b"}",
        b"\xef\xbb\xbf" + HEAD + b"}\r",
        b'{ "sid" : "s1" , "seq" : 3 , "type" : "somebody.elses" }',
        HEAD + b',"v":1}',
        HEAD + b',"pane_id":{"any":"thing"},"chain":5,"newer":[1]}',
    ],
)
def test_what_stands_around_an_event_does_not_matter(raw: bytes) -> None:
    line = line_of(raw)
    assert (line.sid, line.seq, line.type, line.v, line.ts) == ("s1", 3, "somebody.elses", 1, None)


@pytest.mark.parametrize("raw", [b"", b" ", b"\t", b"\r", b" \r", b"\xef\xbb\xbf", b"\x0b\x0c"])
def test_a_blank_line_is_nothing(raw: bytes) -> None:
    assert parse(raw) is None


@pytest.mark.parametrize("seq", [0, 1, 2**53])
def test_a_sequence_number_may_be_as_large_as_javascript_counts(seq: int) -> None:
    assert line_of(foreign("x", seq)).seq == seq


def test_a_line_of_five_megabytes_is_read_whole() -> None:
    text = "ü" * 2_500_000
    line = line_of(foreign("message.recorded", data={"text": text}))
    assert data_of(line) == {"text": text}


@pytest.mark.parametrize("data", [b"", b',"data":null', b',"data": null ', b',"data":{}'])
def test_data_that_is_null_or_missing_is_an_event_with_nothing_to_say(data: bytes) -> None:
    line = line_of(b'{"sid":"s1","seq":0,"type":"session.start"' + data + b"}")
    assert CODEC.event(line) == SessionStart()
    assert data_of(line) == {}


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (rb"cut \ud83d", "cut \ufffd"),
        (rb"cut \uD83d, and on", "cut \ufffd, and on"),
        (rb"\udead\ud83d\udeadbeef", "\ufffd\U0001f6adbeef"),
        (rb"\ud83d\ud83d\udead", "\ufffd\U0001f6ad"),
        (rb"\ud83d and \\ud83d", "\ufffd and \\ud83d"),
        (rb"\\ud83d", "\\ud83d"),
    ],
)
def test_text_that_was_cut_inside_a_character_does_not_lose_its_event(written: bytes, read: str) -> None:
    """JavaScript slices by half characters, and writes the half as an escape that is JSON but no text."""
    raw = b'{"sid":"s1","seq":0,"type":"task.completed","data":{"taskId":"1","summary":"' + written + b'"}}'
    assert CODEC.event(line_of(raw)) == TaskCompleted(task_id="1", summary=read)
    assert is_json(raw)
    assert parse_lines(raw + b"\n") == [parse(raw)]


@pytest.mark.parametrize("task_id", ["2", 2])
def test_task_ids_may_be_text_or_numbers(task_id: str | int) -> None:
    assert CODEC.event(line_of(foreign("task.started", data={"taskId": task_id}))) == TaskStarted(task_id=task_id)


# Reading what is none


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b'{"sid":"s1","seq":3,"ty', "cut short: the JSON ends in the middle"),
        (b'{"sid":"s1","seq":3,"type":"\xc3', "cut short"),
        (b"not json", "not JSON"),
        (b"}", "not JSON"),
        (HEAD + b"}" + HEAD + b"}", "trailing characters"),
        (HEAD + b"} rest", "cut short|trailing characters"),
        (b"\0" * 4096, "zero bytes, as an interrupted write leaves them"),
        (b"\0\0\0 ", "zero bytes"),
        (b"\0\0\0" + HEAD + b"}", "not JSON"),
        (b'{"sid":"\xff\xfe","seq":3,"type":"x"}', "not UTF-8 text"),
        (b'{"sid":"\xed\xa0\x80","seq":3,"type":"x"}', "not UTF-8 text"),
        ((HEAD + b"}").decode().encode("utf-16"), "not JSON"),
        (HEAD + b',"data":NaN}', "not JSON"),
        (HEAD + b',"data":{"x":-Infinity}}', "not JSON"),
        (HEAD + b',"data":{"x":"\x01"}}', "not JSON"),
        (HEAD + b',"data":' + DEEP + b"}", "nested too deeply to read"),
        (HEAD + b',"newer":' + DEEP + b"}", "nested too deeply to read"),
        (b'{"a":' * 100_000, "cut short|nested too deeply"),
        (DEEP, "not an event: Expected `object`, got `array`"),
        (b"[]", "not an event: Expected `object`, got `array`"),
        (b"17", "not an event: Expected `object`, got `int`"),
        (b"{}", "not an event: .*missing required field `sid`"),
        (b'{"sid":"s1","type":"x"}', "missing required field `seq`"),
        (b'{"sid":"s1","seq":0}', "missing required field `type`"),
        (b'{"sid":null,"seq":0,"type":"x"}', r"not an event: .*at `\$.sid`"),
        (b'{"sid":"s1","seq":-1,"type":"x"}', r"not an event: .*>= 0.*at `\$.seq`"),
        (b'{"sid":"s1","seq":1.5,"type":"x"}', r"not an event: .*at `\$.seq`"),
        (b'{"sid":"s1","seq":1.0,"type":"x"}', r"not an event: .*at `\$.seq`"),
        (b'{"sid":"s1","seq":true,"type":"x"}', r"not an event: .*at `\$.seq`"),
        (b'{"sid":"s1","seq":"1","type":"x"}', r"not an event: .*at `\$.seq`"),
        (b'{"sid":"s1","seq":null,"type":"x"}', r"not an event: .*at `\$.seq`"),
        (b'{"sid":"s1","seq":9007199254740993,"type":"x"}', r"not an event: .*at `\$.seq`"),
        (b'{"sid":"s1","seq":' + b"9" * 5_000 + b',"type":"x"}', r"not an event: .*at `\$.seq`"),
    ],
)
def test_what_is_no_event_is_passed_over_with_its_reason(raw: bytes, why: str) -> None:
    reason = reason_of(raw)
    assert re.search(why, reason), reason
    assert "\n" not in reason
    assert len(reason) < 200


def test_an_object_over_two_lines_is_no_event_and_neither_is_its_rest() -> None:
    first, second, third = parse_lines(HEAD + b',"data":\n{"a":1}}\n' + HEAD + b"}\n")
    assert isinstance(first, Malformed)
    assert isinstance(second, Malformed)
    assert isinstance(third, Line)


@given(st.binary(max_size=60))
@examples(300)
def test_no_bytes_make_the_reader_raise(raw: bytes) -> None:
    parse(raw)
    is_json(raw)
    parse_lines(raw + b"\n")


# Many lines at once: a fast path that must not show

OBJECTS = (
    HEAD + b"}",
    HEAD + b',"data":{"a":{}}}',
    HEAD + b',"data":{"text":"}\n{"}}',
    HEAD + b',"data":\n{}}',
    HEAD + b',"data":[{}\n,{}]}',
    b'{"sid":"s2","seq":0,"type":"task.started","data":{"taskId":1}}',
    b"{}",
    b"[]",
    b'"}\n{"',
)


PIECES = (
    *(b"\n", b"\n", b" \n", b"\r\n", b" ", b"}\n{", b"} \n{", b","),
    *OBJECTS,
    *(raw + b"\n" for raw in OBJECTS),
    *GARBAGE,
    *(entry(EXAMPLES[name]) for name in ("task.started", "message.recorded", "tool.called")),
)


@given(st.lists(st.sampled_from(PIECES), max_size=10).map(b"".join))
@examples(500)
def test_lines_read_together_are_the_lines_read_one_by_one(data: bytes) -> None:
    assert parse_lines(data) == [parse(raw) for raw in data.split(b"\n")[:-1]]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n",
        b"\n\n",
        HEAD + b"}",
        HEAD + b"}\n" + HEAD + b"}",
        HEAD + b"}\n\n" + HEAD + b"}\n",
        HEAD + b"}" + HEAD + b"}\n",
        HEAD + b"}" + HEAD + b"}\n" + HEAD + b',"data":\n{}}\n',
        HEAD + b',"data":{"x":"}\n{"}}' + HEAD + b"}\n",
        HEAD + b',"data":{"x":"} \n{"}}' + HEAD + b"}\n",
        HEAD + b',"data":[{}\n{}]}' + HEAD + b"}\n",
        HEAD + b"} \n" + HEAD + b"}  \n" + HEAD + b"}\n",
        b"\xef\xbb\xbf" + HEAD + b"}\r\n" + HEAD + b"}\r\n",
        HEAD + b',"data":' + DEEP + b"}\n" + HEAD + b"}\n",
        HEAD + b',"data":{"x":"\xff"}}\n' + HEAD + b"}\n",
    ],
)
def test_glue_blanks_and_strays_do_not_shift_lines(data: bytes) -> None:
    assert parse_lines(data) == [parse(raw) for raw in data.split(b"\n")[:-1]]


# Data, typed


@pytest.mark.parametrize("data", [b"[]", b"7", b'"text"', b"true"])
def test_data_that_is_no_object_does_not_fit_and_has_no_fields(data: bytes) -> None:
    line = line_of(b'{"sid":"s1","seq":0,"type":"session.start","data":' + data + b"}")
    assert data_of(line) == {}
    with pytest.raises(InvalidEventData, match=r"data does not fit session\.start: Expected `object`"):
        CODEC.event(line)


@pytest.mark.parametrize(
    ("kind", "data", "why"),
    [
        ("task.started", b"null", "missing required field `taskId`"),
        ("task.started", b"{}", "missing required field `taskId`"),
        ("task.started", b'{"taskId":true}', r"at `\$.taskId`"),
        ("task.started", b'{"taskId":1.0}', r"at `\$.taskId`"),
        ("task.started", b'{"taskId":' + b"9" * 5_000 + b"}", "out of range"),
        ("error.encountered", b'{"resolved":"false"}', r"at `\$.resolved`"),
        ("session.start", b'{"command":"\xff"}', "utf-8"),
        ("usage.recorded", b'{"dollars":1e999}', "out of range"),
    ],
)
def test_data_that_does_not_fit_its_type_says_where(kind: str, data: bytes, why: str) -> None:
    line = line_of(b'{"sid":"s1","seq":0,"type":"' + kind.encode() + b'","data":' + data + b"}")
    with pytest.raises(InvalidEventData, match=f"data does not fit {kind}: .*{why}"):
        CODEC.event(line)


def test_unknown_fields_are_passed_over_and_kept_for_who_asks() -> None:
    line = line_of(foreign("task.started", data={"taskId": "1", "estimate": {"hours": 3}}))
    assert CODEC.event(line) == TaskStarted(task_id="1")
    assert data_of(line) == {"taskId": "1", "estimate": {"hours": 3}}


def test_unreadable_data_is_no_data() -> None:
    assert data_of(line_of(HEAD + b',"data":{"x":"\xff"}}')) == {}


def test_an_unknown_type_is_kept_as_it_is_and_has_no_event() -> None:
    line = line_of(HEAD + b',"data":{"n":  1.50,"z":"\\u00e9"}}')
    assert bytes(line.data) == b'{"n":  1.50,"z":"\\u00e9"}'
    assert CODEC.event(line) is None


@pytest.mark.parametrize("v", [2, 10**30])
def test_a_newer_version_is_kept_as_it_is_and_has_no_event(v: int) -> None:
    line = line_of(b'{"v":%d,"sid":"s1","seq":0,"type":"task.started","data":{"taskId":1}}' % v)
    assert CODEC.event(line) is None
    assert data_of(line) == {"taskId": 1}


@pytest.mark.parametrize("raw", [b"{}", b"[1]", b"7", b'"x"'])
def test_json_is_told_from_what_is_none(raw: bytes) -> None:
    assert is_json(raw)
    assert not is_json(raw[:-1] + b"\xff")


# Old versions: a second version that does not exist yet


class TaskMoved(Event, frozen=True, kw_only=True):
    """What `task.started` might become."""

    type = "task.started"
    task: str
    at: str


class Called(ToolCalled, frozen=True, kw_only=True):
    where: str


def rename_task(data: dict[str, Any]) -> dict[str, Any]:
    return {"task": str(data["taskId"]), "at": data.get("at", "unknown")}


def place_call(data: dict[str, Any]) -> dict[str, Any]:
    return {**data, "where": "local"}


V2 = Codec(
    types={**TYPES, "task.started": TaskMoved, "tool.called": Called},
    version=2,
    upcasters={
        ("task.started", 1): rename_task,
        ("task.started", 2): lambda _: {"of": "a version after this one"},
        ("tool.called", 1): place_call,
    },
)


def test_an_older_event_is_brought_to_the_present_version() -> None:
    assert V2.event(line_of(entry(TaskStarted(task_id=7)))) == TaskMoved(task="7", at="unknown")


def test_an_event_of_the_present_version_is_not_touched() -> None:
    line = line_of(foreign("task.started", v=2, data={"task": "7", "at": "dawn"}))
    assert V2.event(line) == TaskMoved(task="7", at="dawn")


def test_a_type_that_did_not_change_needs_no_upcaster() -> None:
    assert V2.event(line_of(entry(SessionStart(command="resume")))) == SessionStart(command="resume")


def test_an_older_event_keeps_the_raw_json_inside_it() -> None:
    called = ToolCalled(conversation="c", call="k", tool="edit", input=msgspec.Raw(b'{"path":"a.py"}'))
    upcast = V2.event(line_of(entry(called)))
    assert isinstance(upcast, Called)
    assert upcast.where == "local"
    assert msgspec.json.decode(upcast.input) == {"path": "a.py"}


def test_upcasters_are_applied_one_version_after_the_other() -> None:
    codec = Codec(
        version=3,
        upcasters={
            ("session.start", 1): lambda data: {**data, "mode": "first"},
            ("session.start", 2): lambda data: {**data, "mode": data["mode"] + ", second"},
        },
    )
    assert codec.event(line_of(entry(SessionStart()))) == SessionStart(mode="first, second")
    assert codec.event(line_of(foreign("session.start", v=2, data={"mode": "x"}))) == SessionStart(mode="x, second")


@pytest.mark.parametrize("v", [0, -1, -(10**30)])
def test_a_version_before_the_first_is_read_as_the_first(v: int) -> None:
    line = line_of(b'{"v":%d,"sid":"s1","seq":0,"type":"task.started","data":{"taskId":1}}' % v)
    assert CODEC.event(line) == TaskStarted(task_id=1)


@pytest.mark.parametrize("data", [b"{}", b"null", b"[]", b'"x"', b'{"taskId":"\xff"}'])
def test_an_older_event_that_its_upcaster_cannot_read_does_not_fit(data: bytes) -> None:
    with pytest.raises(InvalidEventData, match=r"data does not fit task\.started"):
        V2.event(line_of(b'{"v":1,"sid":"s1","seq":0,"type":"task.started","data":' + data + b"}"))
