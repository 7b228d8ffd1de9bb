"""Spans of time: what people write, and what it means."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.config.durations import MAX_DURATION_S, format_duration, parse_duration


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("45s", 45),
        ("90m", 5400),
        ("2h", 7200),
        ("1d", 86400),
        ("1h30m", 5400),
        ("1d2h3m4s", 93784),
        ("0s", 0),
        ("1.5h", 5400),
        ("0.25s", 0.25),
    ],
)
def test_a_span_is_read(written: str, meant: float) -> None:
    assert parse_duration(written) == meant


@pytest.mark.parametrize(
    "written", ["", "5", "m", "1x", "1 h", "-1s", "1m1h", "1h1h", "1e3s", "nan", "infs", "٣s", "1h\n", "1,5h", ".5s"]
)
def test_what_is_no_span_is_told_how_it_is_written(written: str) -> None:
    with pytest.raises(ValueError, match="is not a duration; write 90m, 2h, 1h30m or 45s, or a number of seconds"):
        parse_duration(written)


@pytest.mark.parametrize("written", ["4000d", "9" * 400 + "d"])
def test_nobody_waits_for_ten_years(written: str) -> None:
    with pytest.raises(ValueError, match="too long"):
        parse_duration(written)


@pytest.mark.parametrize(
    ("span", "written"),
    [(0, "0s"), (45.0, "45s"), (5400, "1h30m"), (90061, "1d1h1m1s"), (0.5, "0.5s"), (61.5, "61.5s")],
)
def test_a_span_is_spelled(span: float, written: str) -> None:
    assert format_duration(span) == written


@given(st.integers(0, int(MAX_DURATION_S)) | st.floats(0.001, 1e6))
def test_what_is_spelled_means_the_same(span: float) -> None:
    assert parse_duration(format_duration(span)) == span
