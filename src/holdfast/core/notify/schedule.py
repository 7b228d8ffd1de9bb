"""Quiet hours and times of day, by the local clock: correct when it is set, and when summer time begins or ends."""

import datetime as dt
import re
from typing import NamedTuple

TIME_PATTERN = r"^([01]?\d|2[0-3]):[0-5]\d$"
QUIET_PATTERN = r"^([01]?\d|2[0-3]):[0-5]\d-([01]?\d|2[0-3]):[0-5]\d$"


class QuietHours(NamedTuple):
    """From one minute of the day to another, which may be on the next day. None in between when both are equal."""

    start: int
    end: int

    def contains(self, minute: int) -> bool:
        if self.start <= self.end:
            return self.start <= minute < self.end
        return minute >= self.start or minute < self.end


def parse_time(text: str) -> int:
    """`8:30` as a minute of the day."""
    if not re.fullmatch(TIME_PATTERN, text):
        raise ValueError(f"{text!r} is not a time of day; write 08:30")
    hour, minute = text.split(":")
    return int(hour) * 60 + int(minute)


def parse_quiet_hours(text: str) -> QuietHours:
    if not re.fullmatch(QUIET_PATTERN, text):
        raise ValueError(f"{text!r} are no quiet hours; write 22:00-07:00")
    start, end = text.split("-")
    return QuietHours(parse_time(start), parse_time(end))


def is_quiet(hours: str | None, now: float, zone: dt.tzinfo | None = None) -> bool:
    """`now` is a Unix time; without a zone, hours are in the machine's zone."""
    if hours is None:
        return False
    local = dt.datetime.fromtimestamp(now, zone)
    return parse_quiet_hours(hours).contains(local.hour * 60 + local.minute)


def day_of(now: float, zone: dt.tzinfo | None = None) -> str:
    """The local date, as `2026-02-14`."""
    return dt.datetime.fromtimestamp(now, zone).date().isoformat()


def is_past(time: str, now: float, zone: dt.tzinfo | None = None) -> bool:
    """Whether it is this time of day or later."""
    local = dt.datetime.fromtimestamp(now, zone)
    return local.hour * 60 + local.minute >= parse_time(time)


def next_day(now: float, zone: dt.tzinfo | None = None) -> float:
    """When the next local day begins, as a Unix time."""
    local = dt.datetime.fromtimestamp(now, zone)
    tomorrow = dt.datetime.combine(local.date() + dt.timedelta(days=1), dt.time(), zone)
    return tomorrow.timestamp()
