"""Spending by day and repository: each usage once, by the local day on which it was recorded."""

import datetime as dt
from zoneinfo import ZoneInfo

import pytest

from holdfast.core.day_spending import KEPT_DAYS, Spending, SpendingLimits, count_usage, exceeded, forget_old_days
from holdfast.core.events.base import Envelope
from holdfast.core.events.budget import UsageRecorded
from holdfast.core.log.codec import encode

BERLIN, NEW_YORK = ZoneInfo("Europe/Berlin"), ZoneInfo("America/New_York")


def usage(at: str, **more: object) -> bytes:
    event = UsageRecorded(**{"conversation": "c", "input_tokens": 100, "output_tokens": 20, **more})  # type: ignore[arg-type]
    return encode(Envelope(sid="s", seq=1, ts=at, type=event.type, data=event)) + b"\n"


def counted(*lines: bytes, zone: dt.tzinfo = BERLIN) -> Spending:
    spending = Spending()
    count_usage(spending, "repo", b"".join(lines), zone)
    return spending


def test_a_usage_counts_on_its_local_day() -> None:
    lines = usage("2026-02-14T22:59:00.000Z", dollars=1.0), usage("2026-02-14T23:00:00.000Z", estimate=0.5)
    in_berlin = counted(*lines).days
    assert (in_berlin["2026-02-14"].dollars, in_berlin["2026-02-15"].estimate) == (1.0, 0.5)
    assert [*counted(*lines, zone=NEW_YORK).days] == ["2026-02-14"]


@pytest.mark.parametrize(
    ("last", "first_of_next"),
    [
        ("2026-03-29T21:59:59.000Z", "2026-03-29T22:00:00.000Z"),  # the day has 23 hours
        ("2026-10-25T22:59:59.000Z", "2026-10-25T23:00:00.000Z"),  # the day has 25
    ],
)
def test_days_end_at_local_midnight_when_the_clocks_change(last: str, first_of_next: str) -> None:
    assert len(counted(usage(last), usage(first_of_next)).days) == 2


def test_what_was_brought_from_elsewhere_was_not_spent_here() -> None:
    assert counted(usage("2026-02-14T12:00:00.000Z", conversation=None)).repositories == {}


@pytest.mark.parametrize(
    ("limits", "setting"),
    [
        (SpendingLimits(day_tokens=240), "day_tokens"),
        (SpendingLimits(day_tokens=241), None),
        (SpendingLimits(day_dollars=1.5), "day_dollars"),
        (SpendingLimits(day_dollars=1.51), None),
        (SpendingLimits(repository_tokens=240), "repository_tokens"),
        (SpendingLimits(repository_dollars=1.5, day_dollars=9), "repository_dollars"),
        (SpendingLimits(), None),
    ],
)
def test_reported_and_estimated_cost_count_against_a_budget(limits: SpendingLimits, setting: str | None) -> None:
    found = counted(usage("2026-02-14T12:00:00.000Z", dollars=1.0), usage("2026-02-14T12:00:00.000Z", estimate=0.5))
    assert exceeded(found, limits, "2026-02-14", "repo") == setting
    assert (
        exceeded(found, limits._replace(repository_tokens=None, repository_dollars=None), "2026-02-15", "repo") is None
    )
    assert exceeded(found, limits._replace(day_tokens=None, day_dollars=None), "2026-02-14", "other") is None


def test_old_days_are_forgotten_and_repositories_are_not() -> None:
    start = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
    found = counted(*(usage((start + dt.timedelta(days=n)).isoformat()) for n in range(KEPT_DAYS + 5)))
    forget_old_days(found)
    assert len(found.days) == KEPT_DAYS
    assert min(found.days) == "2026-01-06"
    assert found.repositories["repo"].tokens == 120 * (KEPT_DAYS + 5)
