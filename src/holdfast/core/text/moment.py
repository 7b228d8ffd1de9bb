"""Times as events have them (`2026-02-14T10:06:15.000Z`), as seconds since 1970, and as a countdown."""

import datetime as dt

_UNITS = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))


def parse_moment(text: str | None) -> float | None:
    """Return None for what is no time. A time without a zone is in UTC."""
    try:
        moment = dt.datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=dt.UTC)).timestamp()


def format_moment(timestamp: float) -> str:
    return dt.datetime.fromtimestamp(timestamp, dt.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def format_countdown(seconds: float) -> str:
    """`2d 3h`, `2h 5m`, `5m 10s`, `10s`, `now`: the two largest units."""
    left = max(0, round(seconds))
    parts = []
    for unit, size in _UNITS:
        if left >= size:
            parts.append(f"{left // size}{unit}")
            left %= size
        elif parts:
            break
    return " ".join(parts[:2]) or "now"
