"""Spans of time as people write them: `90m`, `1h30m`, `45s`, or a number of seconds."""

import re

PATTERN = r"^(?=.)(\d+(\.\d+)?d)?(\d+(\.\d+)?h)?(\d+(\.\d+)?m)?(\d+(\.\d+)?s)?$"
LONGEST = 10 * 365 * 86400.0  # beyond this nobody meant it

_WRITTEN = re.compile(PATTERN, re.ASCII)
_PART = re.compile(r"(\d+(?:\.\d+)?)([dhms])", re.ASCII)
_UNITS = {"d": 86400, "h": 3600, "m": 60, "s": 1}


def seconds(written: str) -> float:
    """`ValueError` says how it is written."""
    if not _WRITTEN.fullmatch(written):
        raise ValueError(f"{written!r} is no span of time; write 90m, 2h, 1h30m or 45s, or a number of seconds")
    total = sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(written))
    if total > LONGEST:
        raise ValueError(f"{written!r} is too long; ten years are the most")
    return total


def spelled(span: float) -> str:
    """The shortest way to write it that means exactly the same."""
    if span != int(span):
        return f"{span!r}s"
    rest, parts = int(span), []
    for unit, size in _UNITS.items():
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"
