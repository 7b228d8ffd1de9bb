"""Quiet hours and days by the local clock, also when summer time begins or ends."""

import datetime as dt
from zoneinfo import ZoneInfo

import pytest

from holdfast.core.notify.schedule import day_of, is_past, is_quiet, next_day

BERLIN = ZoneInfo("Europe/Berlin")


def at(text: str, zone: ZoneInfo = BERLIN, fold: int = 0) -> float:
    return dt.datetime.fromisoformat(text).replace(tzinfo=zone, fold=fold).timestamp()


@pytest.mark.parametrize(
    ("hours", "time", "quiet"),
    [
        ("22:00-07:00", "21:59", False),
        ("22:00-07:00", "22:00", True),
        ("22:00-07:00", "03:00", True),
        ("22:00-07:00", "06:59", True),
        ("22:00-07:00", "07:00", False),
        ("12:00-13:00", "12:30", True),
        ("12:00-13:00", "13:00", False),
        ("8:00-8:00", "08:00", False),
        (None, "03:00", False),
    ],
)
def test_quiet_hours(hours: str | None, time: str, *, quiet: bool) -> None:
    assert is_quiet(hours, at(f"2026-02-14T{time}"), BERLIN) is quiet


def test_quiet_hours_follow_the_clock_when_summer_time_begins_and_ends() -> None:
    assert is_quiet("22:00-07:00", at("2026-03-29T06:30"), BERLIN)
    assert not is_quiet("22:00-07:00", at("2026-03-29T07:00"), BERLIN)
    assert is_quiet("02:00-03:00", at("2026-10-25T02:30", fold=0), BERLIN)
    assert is_quiet("02:00-03:00", at("2026-10-25T02:30", fold=1), BERLIN)


@pytest.mark.parametrize(("day", "hours"), [("2026-02-14", 24), ("2026-03-29", 23), ("2026-10-25", 25)])
def test_a_day_is_as_long_as_it_is_on_the_clock(day: str, hours: int) -> None:
    start = at(f"{day}T00:00")
    assert day_of(start, BERLIN) == day
    assert next_day(start, BERLIN) - start == hours * 3600
    assert day_of(next_day(start, BERLIN) - 1, BERLIN) == day
    assert day_of(next_day(start, BERLIN), BERLIN) > day


def test_the_same_moment_is_another_day_in_another_zone() -> None:
    moment = at("2026-02-14T23:30", ZoneInfo("America/New_York"))
    assert day_of(moment, ZoneInfo("America/New_York")) == "2026-02-14"
    assert day_of(moment, BERLIN) == "2026-02-15"


def test_past_a_time_of_day() -> None:
    assert not is_past("08:00", at("2026-02-14T07:59"), BERLIN)
    assert is_past("8:00", at("2026-02-14T08:00"), BERLIN)
