"""Reads when a limit resets from what an agent says about it: "in 3 hours 2 minutes", "resets 3pm (Europe/Berlin)"."""

import datetime as dt
import re
from collections.abc import Iterator
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

MAX_RESET_S = 400 * 24 * 3600.0  # a later reset is a parsing error
_MAX_PAST_S = 60.0  # of a reset that is reported late; an earlier one is about something else
_UNITS_S = {"w": 604_800.0, "d": 86_400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_ZONES = {
    **dict.fromkeys(("utc", "gmt", "z"), "UTC"),
    **dict.fromkeys(("pt", "pst", "pdt", "pacific"), "America/Los_Angeles"),
    **dict.fromkeys(("mt", "mst", "mdt"), "America/Denver"),
    **dict.fromkeys(("ct", "cst", "cdt"), "America/Chicago"),
    **dict.fromkeys(("et", "est", "edt", "eastern"), "America/New_York"),
    **dict.fromkeys(("cet", "cest"), "Europe/Berlin"),
}

_SPAN = (
    r"\d+(?:\.\d+)?\s*(?:weeks?|w|days?|d|hours?|hrs?|h|milliseconds?|ms|minutes?|mins?|m|seconds?|secs?|s)(?![a-z])"
)
_DURATION = re.compile(
    r"\b(?:in|after|within|wait|another)(?:\s+(?:about|approximately|around|another|up to|~))?\s*[:=~]?\s*"
    rf"(?P<spans>{_SPAN}(?:(?:\s*,\s*|\s+and\s+|\s*){_SPAN})*)",
    re.IGNORECASE,
)
_ONE_SPAN = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>ms|millisecond|[wdhms])", re.IGNORECASE)
_AHEAD = re.compile(r"again|retry|reset|refresh|available|renew|restore|wait|replenish|expire", re.IGNORECASE)
_AHEAD_CHARS = 40  # between such a word and the time

_EPOCH = re.compile(r"(?<!\d)(1[6-9]\d{8}|[2-3]\d{9})(\d{3})?(?!\d)")
_ISO = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:\s?(?:Z|UTC|[+-]\d\d:?\d\d))?")
_MOMENT = re.compile(
    r"\b(?:at|resets?|until|on|after|by)\s+(?:(?:at|on)\s+)?"
    rf"(?:(?:(?P<month>{'|'.join(_MONTHS)})[a-z]*\.?\s+(?P<day>\d{{1,2}})(?:st|nd|rd|th)?(?:,?\s+(?P<year>\d{{4}}))?"
    rf"|(?P<weekday>{'|'.join(_WEEKDAYS)})[a-z]*|(?P<relative>today|tomorrow))(?:,?\s+(?:at\s+)?|\b))?"
    r"(?:(?P<hour>\d{1,2})(?::(?P<minute>\d\d))?(?::\d\d)?\s*(?P<half>[ap]\.?m\b\.?)?|(?P<name>midnight|noon))?"
    r"(?:\s*\(?(?P<zone>[A-Za-z]+/[A-Za-z_/]+|[A-Za-z]{1,8})\b)?",
    re.IGNORECASE,
)


def reset_time(text: str, now: float, local: dt.tzinfo | None = None) -> float | None:
    """Return the reset time that a text names (Unix time), else None. Times without a zone are in the local one."""
    for read in (_durations, _iso_moments, _epochs, _moments):
        found = [at for at in read(text, now, local) if now - _MAX_PAST_S <= at <= now + MAX_RESET_S]
        if found:
            return found[0]
    return None


def _durations(text: str, now: float, _: dt.tzinfo | None) -> list[float]:
    """Those after a word such as "again" or "resets" first: "10 requests in 1 minute; try again in 20 seconds"."""
    found = [*_DURATION.finditer(text)]
    found.sort(key=lambda match: _AHEAD.search(text[max(0, match.start() - _AHEAD_CHARS) : match.end()]) is None)
    return [now + sum(_seconds(span) for span in _ONE_SPAN.finditer(match["spans"])) for match in found]


def _seconds(span: re.Match[str]) -> float:
    unit = span["unit"].lower()
    return float(span["number"]) * _UNITS_S["ms" if unit.startswith("mill") else unit]


def _epochs(text: str, _: float, __: dt.tzinfo | None) -> list[float]:
    return [float(match[1]) for match in _EPOCH.finditer(text)]


def _iso_moments(text: str, _: float, local: dt.tzinfo | None) -> Iterator[float]:
    for match in _ISO.finditer(text):
        written = re.sub(r"\s?(?:Z|UTC)$", "+00:00", match[0])
        moment = dt.datetime.fromisoformat(written) if _is_date(written) else None
        if moment is not None:
            yield (moment if moment.tzinfo is not None else moment.replace(tzinfo=local)).timestamp()


def _is_date(text: str) -> bool:
    try:
        dt.datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _moments(text: str, now: float, local: dt.tzinfo | None) -> Iterator[float]:
    for match in _MOMENT.finditer(text):
        zone = _zone(match["zone"]) or local
        today = dt.datetime.fromtimestamp(now, zone)
        try:
            moment = _moment(match, today)
        except ValueError:
            continue  # the 31st of June
        if moment is not None:
            yield moment.timestamp()


def _moment(match: re.Match[str], today: dt.datetime) -> dt.datetime | None:
    """Return the next such moment. "at 5" says too little."""
    has_day = any(match[name] for name in ("month", "weekday", "relative"))
    if not (has_day or match["half"] or match["minute"] or match["name"]):
        return None
    moment = today.replace(hour=_hour(match), minute=int(match["minute"] or 0), second=0, microsecond=0)
    if match["month"]:
        month = _MONTHS.index(match["month"].lower()) + 1
        moment = moment.replace(year=int(match["year"] or today.year), month=month, day=int(match["day"]))
        is_over = match["year"] is None and moment < today - dt.timedelta(days=1)
        return moment.replace(year=today.year + 1) if is_over else moment
    if match["weekday"]:
        ahead = (_WEEKDAYS.index(match["weekday"].lower()) - today.weekday()) % 7
        moment += dt.timedelta(days=ahead)
        return moment if moment > today else moment + dt.timedelta(days=7)
    if match["relative"]:
        return moment + dt.timedelta(days=match["relative"].lower() == "tomorrow")
    return moment if moment > today else moment + dt.timedelta(days=1)


def _hour(match: re.Match[str]) -> int:
    if match["name"]:
        return 12 if match["name"].lower() == "noon" else 0
    hour, half = int(match["hour"] or 0), (match["half"] or "").lower()[:1]
    return hour % 12 + 12 * (half == "p") if half else hour


def _zone(name: str | None) -> dt.tzinfo | None:
    if name is None:
        return None
    known = _ZONES.get(name.lower(), name if "/" in name else None)
    try:
        return ZoneInfo(known) if known is not None else None
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None
