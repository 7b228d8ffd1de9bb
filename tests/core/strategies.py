"""Random logs: every type of event, a few sessions, few names (so that events meet), and what damage leaves."""

from collections.abc import Sequence
from typing import Any

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from holdfast.core.events import TYPES, Event
from holdfast.core.events.conversation import FileDiff, ImportOrigin, SentFile
from holdfast.core.events.plan import Dependency, PlannedTask, PlannedWave, ProposedTask
from holdfast.core.events.rewind import BranchPoint
from tests.core.logs import entry

SIDS = ("s1", "s2", "s3")

_ids = st.sampled_from(["1", "2", 3, "T-10"])
_text = st.sampled_from(["a", "b", "", "ü\n"])
_json = st.sampled_from([b"null", b'{"a":[1,2.5]}', b'"x"']).map(msgspec.Raw)
_numbers = st.integers(-1, 3)

_BY_NAME: dict[str, st.SearchStrategy[Any]] = {
    "command": st.sampled_from(["implement", "resume", "run"]),
    "reason": st.sampled_from(["completed", "stopped", "wall_clock"]),
    "waves": st.lists(st.builds(PlannedWave, wave=_numbers, task_ids=st.lists(_ids, max_size=2)), max_size=2),
    "diffs": st.lists(st.builds(FileDiff, path=_text, old=st.none() | _text, new=_text), max_size=2),
    "dependencies": st.lists(st.builds(Dependency, task_id=_ids, blocked_by=_ids), max_size=2),
    "task_id": _ids,
    "task": _ids,
}
_BY_TYPE: dict[Any, st.SearchStrategy[Any]] = {
    str: _text,
    str | None: st.none() | _text,
    ImportOrigin | msgspec.UnsetType: st.just(msgspec.UNSET) | st.builds(ImportOrigin, at=st.none() | _text),
    str | int: _ids,
    str | int | None: st.none() | _ids,
    int: _numbers,
    int | None: st.none() | _numbers,
    float: st.sampled_from([0.0, 0.1, 2.5]),
    float | None: st.sampled_from([None, 0.1]),
    bool: st.booleans(),
    bool | None: st.sampled_from([None, True, False]),
    list[ProposedTask]: st.lists(st.builds(ProposedTask, id=_text, title=_text), max_size=2),
    list[PlannedTask]: st.lists(st.builds(PlannedTask, id=_ids, summary=st.none() | _text), max_size=3),
    list[BranchPoint]: st.lists(
        st.builds(BranchPoint, branch=_text, base=_text, tip=_text, commit=_text, task=st.none() | _text), max_size=2
    ),
    list[SentFile]: st.lists(
        st.builds(SentFile, name=_text, media_type=_text, size=st.integers(0, 9), form=_text), max_size=2
    ),
    dict[str, str]: st.dictionaries(_text, _text, max_size=2),
    list[str]: st.lists(_text, max_size=2),
    list[str] | None: st.none() | st.lists(_text, max_size=2),
    dict[str, str]: st.dictionaries(_text, _text, max_size=2),
    dict[str, Any]: st.sampled_from([{}, {"a": [1, {"b": None}], "n": 2**70}]),
    msgspec.Raw: _json,
}


def _events_of(kind: type[Event]) -> st.SearchStrategy[Event]:
    return st.builds(kind, **{field.name: _values_of(field) for field in msgspec.structs.fields(kind)})


def _values_of(field: msgspec.structs.FieldInfo) -> st.SearchStrategy[Any]:
    is_name = field.type == list[str] or (field.name == "task" and field.type == str | None)
    named = field.name in _BY_NAME and not is_name  # `tasks` are tasks, or their names
    return _BY_NAME[field.name] if named else _BY_TYPE[field.type]


def events(*types: str) -> st.SearchStrategy[Event]:
    """Any event, or any of these types."""
    return st.sampled_from(types or tuple(TYPES)).flatmap(lambda name: _EVENTS[name])


_EVENTS = {name: _events_of(kind) for name, kind in TYPES.items()}

GARBAGE: tuple[bytes, ...] = (
    b"",
    b"  ",
    b"\r",
    b"\0\0\0",
    b"{",
    b"}",
    b"not json",
    b'{"sid":"s1","seq":0,"ty',
    b'{"sid":"s1","seq":-1,"type":"task.started"}',
    b'{"sid":"s1","seq":4,"type":"task.started","data":{"nothing":"fits"}}',
    b'{"sid":"s2","seq":5,"type":"session.end","data":{"reason":7}}',
    b'{"sid":"s2","seq":6,"type":"checkpoint","v":2,"data":{"label":"newer"}}',
    b'{"sid":"s1","seq":7,"type":"somebody.elses","data":{"x":1}}',
    b'{"sid":"s1","seq":8,"type":"session.start","data":null}',
    b'\xef\xbb\xbf{"sid":"s3","seq":9,"type":"warning.logged"} \r',
    b'{"sid":"s3","seq":1,"type":"warning.logged","data":{"message":"\xff"}}',
)


@st.composite
def lines(draw: st.DrawFn, sids: Sequence[str] = SIDS) -> bytes:
    """A line of any session, at any number of it: gaps, repetitions and interleaving come by themselves."""
    if draw(st.integers(0, 5)) == 0:
        return draw(st.sampled_from(GARBAGE)) + b"\n"
    agent = draw(st.sampled_from([None, "a", "b"]))
    return entry(draw(events()), draw(st.integers(0, 12)), draw(st.sampled_from(sids)), agent=agent)


@st.composite
def sessions(draw: st.DrawFn, *, types: Sequence[str] = (), most: int = 4) -> bytes:
    """Sessions one after the other, as one program at a time writes them: numbered upwards, some numbers lost."""
    log: list[bytes] = []
    for index in range(draw(st.integers(1, most))):
        seq = 0
        for event in draw(st.lists(events(*types), min_size=1, max_size=6)):
            log.append(entry(event, seq, f"s{index}"))
            seq += draw(st.sampled_from([1, 1, 1, 2, 5]))
    return b"".join(log)


def examples(count: int) -> settings:
    """So many examples, however slow the machine."""
    return settings(max_examples=count, deadline=None, suppress_health_check=[HealthCheck.too_slow])
