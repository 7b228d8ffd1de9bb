"""Withholding replaces lines in place: positions, order, chain and state stay what they were."""

from holdfast.core.events import Event
from holdfast.core.events.conversation import MessageRecorded, ToolCalled, TurnEnded, TurnStarted
from holdfast.core.events.session import RunCreated, SessionStart
from holdfast.core.fold.fold import Fold
from holdfast.core.fold.handlers import HANDLERS
from holdfast.core.log import chain
from holdfast.core.log.verification import LogVerification, Verifier
from holdfast.core.log.withholding import TRANSCRIPTS, WITHHELD_EVENTS, Measurement, is_placeholder, withhold
from holdfast.store.base import Head, WriterContext
from holdfast.store.sequencer import Sequencer

NOW = "2026-02-14T10:00:00.000Z"


async def _no_snapshot() -> None: ...


def _sequencer() -> Sequencer:
    return Sequencer(WriterContext("aaaaaaaa", "demo", Head(), lambda: NOW, lambda _: None, _no_snapshot))


def _said(text: str) -> MessageRecorded:
    return MessageRecorded(conversation="c", speaker="agent", text=text, turn="1")


def _log() -> tuple[Sequencer, list[bytes]]:
    sequencer, data = _sequencer(), b""
    calls: list[list[Event]] = [
        [SessionStart(command="run"), RunCreated(run_id="demo-abc234", goal="kelp")],
        [TurnStarted(conversation="c", turn="1"), _said("one " * 50), _said("two"), _said("")],
        [ToolCalled(conversation="c", call="1", tool="Read", turn="1"), _said('\u2603 "log.withheld"')],
        [_said("three"), TurnEnded(conversation="c", turn="1", stop_reason="end_turn")],
    ]
    for events in calls:
        data += sequencer.encode_lines(events)
        sequencer.take_pending()
    return sequencer, data.splitlines(keepends=True)


def _withheld() -> tuple[list[bytes], list[bytes]]:
    sequencer, lines = _log()
    measured = Measurement(TRANSCRIPTS)
    for raw in lines:
        measured.add(raw)
    until = sequencer.position
    lines.append(sequencer.encode_lines([measured.record(until)]))
    sequencer.take_pending()
    return lines, list(withhold(lines, TRANSCRIPTS, until))


def _verified(lines: list[bytes]) -> LogVerification:
    verifier = Verifier(must_be_chained=True)
    verifier.feed(b"".join(lines))
    return verifier.result()


def test_events_that_are_withheld_have_no_handler() -> None:
    """A fold of the whole log and one of what is left must agree, in every later version too."""
    assert not {kind.type for kind in WITHHELD_EVENTS} & HANDLERS.keys()


def test_withheld_lines_keep_their_length_link_and_marks() -> None:
    before, after = _withheld()
    replaced = [(old, new) for old, new in zip(before, after, strict=True) if old != new]
    assert len(replaced) == 5
    for old, new in replaced:
        assert len(old) == len(new)
        assert is_placeholder(new)
        assert b"one" not in new
        assert chain.carried_link(old) == chain.carried_link(new)
        assert chain.has_more_to_come(old) == chain.has_more_to_come(new)
        assert old.endswith(b" \n") == new.endswith(b" \n")


def test_fold_gives_the_same_state() -> None:
    folds = []
    for lines in _withheld():
        fold = Fold()
        fold.feed(b"".join(lines))
        folds.append(fold.state)
    assert folds[0] == folds[1]


def test_log_is_whole_before_and_after() -> None:
    before, after = (_verified(lines) for lines in _withheld())
    assert (before.damage, after.damage) == ((), ())
    assert before.withheld == ()
    assert [(part.rule, part.events, part.at) for part in after.withheld] == [(TRANSCRIPTS, 5, NOW)]


def test_withholding_twice_changes_nothing() -> None:
    _, after = _withheld()
    assert list(withhold(after, TRANSCRIPTS, len(b"".join(after)))) == after


def test_second_record_counts_what_the_first_withheld() -> None:
    _, lines = _withheld()
    measured = Measurement(TRANSCRIPTS)
    for raw in lines:
        measured.add(raw)
    record = measured.record(0)
    assert (record.events, record.all_events) == (0, 5)


def test_withheld_line_without_a_record_is_damage() -> None:
    _, after = _withheld()
    assert _verified(after[:-1]).damage_count == 1
