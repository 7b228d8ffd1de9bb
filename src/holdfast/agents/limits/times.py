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
    "bst": "Europe/London",
    "jst": "Asia/Tokyo",
    "kst": "Asia/Seoul",
    **dict.fromkeys(("aest", "aedt"), "Australia/Sydney"),
}
_OFFSET = re.compile(r"(?:utc|gmt)([+-])(\d{1,2}):?(\d\d)?", re.IGNORECASE)

_SPAN = (
    r"(?:\d+(?:\.\d+)?|\ban?\b)\s*"
    r"(?:weeks?|w|days?|d|hours?|hrs?|hr|h|milliseconds?|ms|minutes?|mins?|m|seconds?|secs?|s)(?![a-z])"
)
_DURATION = re.compile(
    r"\b(?:in|after|within|wait|another)(?:\s+(?:about|approximately|around|another|up to|less than|~))?"
    rf"\s*(?:[:=~]\s*)?(?P<spans>{_SPAN}(?:(?:\s*,\s*|\s+and\s+|\s*){_SPAN})*)",
    re.IGNORECASE,
)
_ONE_SPAN = re.compile(r"(?P<number>\d+(?:\.\d+)?|\ban?\b)\s*(?P<unit>ms|millisecond|[wdhms])", re.IGNORECASE)
_AHEAD = re.compile(
    r"again|retry|reset|refresh|available|renew|restore|regain|resume|wait|replenish|expire", re.IGNORECASE
)
_ALLOWANCE = re.compile(r"\b(?:requests?|messages?|prompts?|tokens?|calls?|queries|times)\s*$", re.IGNORECASE)
_DAYS = ("date", "weekday", "relative")
_ROLLOVER = dt.timedelta(days=100)  # without a year, a day further ahead has passed: limits last a month at most
_AHEAD_CHARS = 40  # between such a word and the time

_EPOCH = re.compile(r"(?<!\d)(1[6-9]\d{8}|[2-3]\d{9})(\d{3})?(?!\d)")
_ISO = re.compile(
    r"(?<![\w-])(?P<date>\d{4}-\d\d-\d\d)(?:(?:T|,?\s+(?:at\s+)?)(?P<time>\d\d:\d\d(?::\d\d(?:\.\d+)?)?)"
    r"\s?(?P<offset>Z\b|[+-]\d\d:?\d\d)?)?"
)


def _day(at: str) -> str:
    """The pattern of a day: Oct 9, 2026; 9 Oct; Monday; tomorrow. `at` tells its groups from those of another one."""
    month, number, year = f"(?:{'|'.join(_MONTHS)})[a-z]*", r"\d{1,2}(?:st|nd|rd|th)?", r"(?:,?\s+\d{4}(?!\d|:))?"
    weekday = f"(?:{'|'.join(_WEEKDAYS)})[a-z]*"
    return (
        rf"(?:(?:{weekday}\.?,?\s+)?(?P<date{at}>{month}\.?\s+{number}{year}|{number}\s+{month}{year})\b"
        rf"|(?P<weekday{at}>{weekday})|(?P<relative{at}>today|tomorrow))"
    )


_ZONE = (
    rf"(?:\s*\(?(?P<zone>[A-Za-z]+/[A-Za-z_/+-]+\d*|(?:UTC|GMT)[+-]\d{{1,2}}(?::?\d\d)?"
    rf"|(?!(?:on|{'|'.join((*_MONTHS, *_WEEKDAYS))}|today|tomorrow)\b)[A-Za-z]{{1,8}})\b\)?)?"
)
_NAMED_ZONE = re.compile(_ZONE, re.IGNORECASE)
_MOMENT = re.compile(
    r"\b(?:at|resets?|until|on|after|by)\s+(?:(?:at|on)\s+)?"
    rf"(?:{_day('_before')}(?:,?\s+(?:at\s+)?|\b))?"
    r"(?:(?P<hour>\d{1,2})(?::(?P<minute>\d\d))?(?::\d\d)?\s*(?P<half>[ap]\.?m\b\.?)?|(?P<name>midnight|noon))?"
    rf"{_ZONE}(?:,?\s+(?:on\s+)?{_day('_after')})?",
    re.IGNORECASE,
)


def reset_time(text: str, now: float, local: dt.tzinfo | None = None) -> float | None:
    """Return the reset time that a text names (Unix time), else None. Times without a zone are in the local one."""
    for read in (_durations, _iso_moments, _epochs, _moments):
        found = [at for at in read(text, now, local) if now - _MAX_PAST_S <= at <= now + MAX_RESET_S]
        if found:
            return next((at for at in found if at > now), found[0])  # an error may also say when it happened
    return None


def _durations(text: str, now: float, _: dt.tzinfo | None) -> list[float]:
    """Those after a word such as "again" or "resets" first: "10 requests in 1 minute; try again in 20 seconds"."""
    ahead, others = [], []
    for match in _DURATION.finditer(text):
        before = text[max(0, match.start() - _AHEAD_CHARS) : match.start()]
        seconds = sum(_seconds(span) for span in _ONE_SPAN.finditer(match["spans"]))
        if _AHEAD.search(before + match[0]) is not None:
            ahead.append(now + seconds)
        elif _ALLOWANCE.search(before) is None:
            others.append(now + seconds)
    return ahead + others


def _seconds(span: re.Match[str]) -> float:
    unit = span["unit"].lower()
    number = 1.0 if span["number"].lower().startswith("a") else float(span["number"])
    return number * _UNITS_S["ms" if unit.startswith("mill") else unit]


def _epochs(text: str, _: float, __: dt.tzinfo | None) -> list[float]:
    return [float(match[1]) for match in _EPOCH.finditer(text)]


def _iso_moments(text: str, _: float, local: dt.tzinfo | None) -> Iterator[float]:
    for match in _ISO.finditer(text):
        if match["time"] is None and _AHEAD.search(text[max(0, match.start() - _AHEAD_CHARS) : match.start()]) is None:
            continue  # a day alone: it may be part of a name
        offset = "+00:00" if match["offset"] == "Z" else match["offset"] or ""
        try:
            moment = dt.datetime.fromisoformat(f"{match['date']}T{match['time'] or '00:00'}{offset}")
        except ValueError:
            continue
        if moment.tzinfo is None:
            named = _NAMED_ZONE.match(text, match.end())
            moment = moment.replace(tzinfo=_zone(named["zone"]) if named is not None else None)
        yield (moment if moment.tzinfo is not None else moment.replace(tzinfo=local)).timestamp()


def _moments(text: str, now: float, local: dt.tzinfo | None) -> Iterator[float]:
    for match in _MOMENT.finditer(text):
        named = _NAMED_ZONE.match(text, match.end())
        zone = _zone(match["zone"]) or _zone(named["zone"] if named is not None else None) or local
        today = dt.datetime.fromtimestamp(now, zone)
        try:
            moment = _moment(match, today)
        except ValueError:
            continue  # the 31st of June
        if moment is not None:
            yield moment.timestamp()


def _moment(match: re.Match[str], today: dt.datetime) -> dt.datetime | None:
    """Return the next such moment, or one that has just passed. "at 5" says too little."""
    date, weekday, relative = (match[f"{name}_before"] or match[f"{name}_after"] for name in _DAYS)
    if not (date or weekday or relative or match["half"] or match["minute"] or match["name"]):
        return None
    earliest = today - dt.timedelta(seconds=_MAX_PAST_S)
    moment = today.replace(hour=_hour(match), minute=int(match["minute"] or 0), second=0, microsecond=0)
    if date:
        name, day, year = (re.search(pattern, date) for pattern in ("[A-Za-z]{3,}", r"\b\d{1,2}(?!\d)", r"\d{4}"))
        if name is None or day is None:
            return None
        month = _MONTHS.index(name[0][:3].lower()) + 1
        moment = moment.replace(year=int(year[0]) if year else today.year, month=month, day=int(day[0]))
        next_year = moment.replace(year=today.year + 1) if year is None and moment < earliest else moment
        return next_year if next_year - today < _ROLLOVER else moment
    if weekday:
        moment += dt.timedelta(days=(_WEEKDAYS.index(weekday[:3].lower()) - today.weekday()) % 7)
        return moment if moment >= earliest else moment + dt.timedelta(days=7)
    if relative:
        return moment + dt.timedelta(days=relative.lower() == "tomorrow")
    return moment if moment >= earliest else moment + dt.timedelta(days=1)


def _hour(match: re.Match[str]) -> int:
    if match["name"]:
        return 12 if match["name"].lower() == "noon" else 0
    hour, half = int(match["hour"] or 0), (match["half"] or "").lower()[:1]
    return hour % 12 + 12 * (half == "p") if half else hour


def _zone(name: str | None) -> dt.tzinfo | None:
    if name is None:
        return None
    offset = _OFFSET.fullmatch(name)
    if offset is not None:
        ahead = dt.timedelta(hours=int(offset[2]), minutes=int(offset[3] or 0))
        return dt.timezone(-ahead if offset[1] == "-" else ahead) if ahead < dt.timedelta(hours=24) else None
    known = _ZONES.get(name.lower(), name if "/" in name else None)
    try:
        return ZoneInfo(known) if known is not None else None
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None
