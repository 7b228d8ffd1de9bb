import pytest

from holdfast.core.events.session import SessionStart
from holdfast.core.log.verification import Verifier
from holdfast.core.state import MAX_KEPT
from tests.core.logs import entry, foreign


@pytest.mark.parametrize(
    ("damaged", "line", "why"),
    [
        (b"\n", 1, "blank line"),
        (b"not json\n", 1, "not JSON"),
        (b"\0\0\0\n", 1, "zero bytes"),
        (foreign("x", 0) + foreign("x", 2), 2, "gap: session s1 goes from seq 0 to 2"),
        (foreign("x", 1), 1, "gap: session s1 goes from seq -1 to 1"),
        (foreign("x", 0) + foreign("x", 0), 2, "duplicate: session s1 has seq 0 again"),
        (foreign("x", 0) + foreign("x", 2) + foreign("x", 1), 2, "gap"),
        (foreign("task.started"), 1, "data does not fit task.started"),
        (b'{"sid":"s1","seq":0,"type":"x","data":"\xff"}\n', 1, "not UTF-8 text, or not JSON, inside its data"),
    ],
)
def test_what_reading_forgives_is_damage_here(damaged: bytes, line: int, why: str) -> None:
    verifier = Verifier()
    verifier.feed(damaged)
    verdict = verifier.result()
    assert not verdict.is_intact
    assert verdict.damage[0].line == line
    assert verdict.damage[0].reason.startswith(why)


def test_a_line_without_its_end_is_damage() -> None:
    verifier = Verifier()
    verifier.feed(entry(SessionStart()))
    damage = verifier.result(b'{"sid":"s1","se').damage
    assert [(found.line, found.reason) for found in damage] == [(2, "torn: the last write has no end")]


def test_a_call_without_its_last_line_is_damage_where_that_line_should_be() -> None:
    verifier = Verifier()
    verifier.feed(entry(SessionStart()))
    damage = verifier.result(2 * entry(SessionStart())).damage
    assert [(found.line, found.reason) for found in damage] == [(4, "torn: the last write has no end")]


def test_unknown_types_and_newer_versions_are_no_damage() -> None:
    verifier = Verifier()
    verifier.feed(foreign("somebody.elses", 0) + foreign("task.started", 1, v=2))
    assert verifier.result().is_intact


def test_two_sessions_are_numbered_each_for_itself() -> None:
    verifier = Verifier()
    verifier.feed(foreign("x", 0, "a") + foreign("x", 0, "b") + foreign("x", 1, "a") + foreign("x", 1, "b"))
    verdict = verifier.result()
    assert verdict.is_intact
    assert (verdict.lines, verdict.events, verdict.sessions) == (4, 4, 2)


def test_of_much_damage_the_first_is_shown_and_all_is_counted() -> None:
    verifier = Verifier()
    verifier.feed(b"not json\n" * (MAX_KEPT + 10))
    verdict = verifier.result()
    assert (len(verdict.damage), verdict.damage_count) == (MAX_KEPT, MAX_KEPT + 10)


def test_a_log_fed_in_pieces_gets_the_same_verdict() -> None:
    lines = [foreign("x", seq) for seq in (0, 1, 1, 4)]
    whole, pieces = Verifier(), Verifier()
    whole.feed(b"".join(lines))
    for line in lines:
        pieces.feed(line)
    assert whole.result() == pieces.result()
