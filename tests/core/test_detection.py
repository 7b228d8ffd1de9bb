"""Whether a log was cut off, told from its end: without reading the rest of it."""

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.decide.analysis import (
    InterruptionDetector,
    analyze,
)
from holdfast.core.events.checkpoint import Checkpoint
from holdfast.core.events.session import SessionEnd, SessionStart
from tests.core import seed_protocol as seed
from tests.core.logs import entry, fold_all, foreign, session_log
from tests.core.strategies import examples, sessions

START = SessionStart(command="implement")
RESUME = SessionStart(command="resume")
POINT = Checkpoint(label="wave-1-complete", branch="feature/x", plan_step="wave-2-start")


def detect(newest_first: Iterable[bytes]) -> tuple[str | None, bool]:
    """What the end of a log tells."""
    detection = InterruptionDetector()
    any(detection.feed(raw) for raw in newest_first)
    return detection.sid, detection.is_interrupted


@given(sessions())
@examples(100)
def test_detection_from_the_end_is_that_of_the_protocol_and_of_the_whole_analysis(log: bytes) -> None:
    whole = analyze(fold_all(log))
    found = detect(reversed(log.splitlines()))
    assert found == (whole.sid, whole.interrupted)
    assert found == seed.newest_from_the_end(seed.records(log))


@st.composite
def damaged_sessions(draw: st.DrawFn) -> bytes:
    """Sessions one after the other, with lines that are none between them, and numbers that come again."""
    log: list[bytes] = []
    for sid in ("s1", "s2"):
        for _ in range(draw(st.integers(1, 5))):
            junk = [b"\n", b"garbage\n", foreign("session.end", 3, sid, v=2), foreign("session.end", 2, sid, data=[7])]
            seq = draw(st.integers(0, 4))
            log.append(
                draw(
                    st.sampled_from(
                        [*junk, entry(SessionEnd(), seq, sid), entry(START, seq, sid), entry(POINT, seq, sid)]
                    )
                )
            )
    return b"".join(log)


@given(damaged_sessions())
@examples(150)
def test_detection_from_the_end_sees_through_damage_as_the_whole_analysis_does(log: bytes) -> None:
    whole = analyze(fold_all(log))
    assert detect(reversed(log.splitlines())) == (whole.sid, whole.interrupted)


def test_detection_reads_no_more_than_the_newest_session() -> None:
    lines = iter(reversed((session_log(START, POINT) + session_log(RESUME, POINT, sid="s2")).splitlines()))
    assert detect(lines) == ("s2", True)
    assert len(list(lines)) == 1
    lines = iter(reversed(session_log(START, POINT, SessionEnd()).splitlines()))
    assert detect(lines) == ("s1", False)
    assert len(list(lines)) == 2


def test_detection_in_an_empty_log_finds_nothing() -> None:
    assert detect([]) == (None, False)
    assert detect([b"", b"garbage"]) == (None, False)
