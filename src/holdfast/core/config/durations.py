"""Durations as people write them: `90m`, `1h30m`, `45s`, or a number of seconds."""

import re

DURATION_PATTERN = r"^(?=.)(\d+(\.\d+)?d)?(\d+(\.\d+)?h)?(\d+(\.\d+)?m)?(\d+(\.\d+)?s)?$"
MAX_DURATION_S = 10 * 365 * 86400.0  # anything longer is a typing error

_DURATION = re.compile(DURATION_PATTERN, re.ASCII)
_PART = re.compile(r"(\d+(?:\.\d+)?)([dhms])", re.ASCII)
_UNITS = {"d": 86400, "h": 3600, "m": 60, "s": 1}


def parse_duration(text: str) -> float:
    """The duration in seconds. `ValueError` says how to write one."""
    if not _DURATION.fullmatch(text):
        raise ValueError(f"{text!r} is not a duration; write 90m, 2h, 1h30m or 45s, or a number of seconds")
    total = sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))
    if total > MAX_DURATION_S:
        raise ValueError(f"{text!r} is too long; the maximum is ten years")
    return total


def format_duration(duration_s: float) -> str:
    """The shortest text with exactly the same value."""
    if duration_s != int(duration_s):
        return f"{duration_s!r}s"
    rest, parts = int(duration_s), []
    for unit, size in _UNITS.items():
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"
