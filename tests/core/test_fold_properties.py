"""Prefix continuation and recovery determinism: a snapshot and the tail after it are as good as the whole log."""

from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.decide.analysis import analyze
from holdfast.core.log.codec import Line, parse_lines
from holdfast.core.state import RunState
from tests.core.logs import fold_all, fold_once, stored
from tests.core.strategies import examples, lines, sessions

logs = st.lists(lines(), max_size=12) | sessions().map(lambda log: log.splitlines(keepends=True))


@given(logs)
@examples(80)
def test_a_snapshot_and_its_tail_give_what_the_whole_log_gives_at_every_split(log: list[bytes]) -> None:
    whole = fold_once(b"".join(log)).state
    assert stored(whole) == whole
    for split in range(len(log) + 1):
        head = fold_once(b"".join(log[:split]))
        tail = fold_once(b"".join(log[split:]), stored(head.state))
        assert tail.state == whole
        assert head.repeated | tail.repeated == fold_once(b"".join(log)).repeated


@given(logs)
@examples(40)
def test_the_same_log_folds_to_the_same_state_every_time(log: list[bytes]) -> None:
    data = b"".join(log)
    assert fold_all(data) == fold_all(data)
    assert analyze(fold_all(data)) == analyze(fold_all(data))


@given(logs)
@examples(80)
def test_later_lines_win_as_if_the_earlier_had_never_been_written(log: list[bytes]) -> None:
    read = parse_lines(b"".join(log))
    newest = {(line.sid, line.seq): at for at, line in enumerate(read) if isinstance(line, Line)}
    kept = [
        raw if not isinstance(line, Line) or newest[line.sid, line.seq] == at else b"\n"
        for at, (raw, line) in enumerate(zip(log, read, strict=True))
    ]
    assert without_notes(fold_all(b"".join(log))) == without_notes(fold_all(b"".join(kept)))


def without_notes(state: RunState) -> RunState:
    state.duplicates = []
    return state


@given(logs)
@examples(40)
def test_every_line_is_an_event_a_note_or_blank(log: list[bytes]) -> None:
    data = b"".join(log)
    state = fold_once(data).state
    blank = parse_lines(data).count(None)
    unfit = sum(note.reason.startswith("data does not fit") for note in state.malformed)
    assert state.lines == state.events + len(state.malformed) - unfit + blank
    assert state.events == sum(session.events for session in state.sessions.values())
