"""Finds when a provider accepts requests again, from the headers and the body of its error. Pure."""

import datetime as dt
import json
import re
from collections.abc import Iterator, Mapping
from email.utils import parsedate_to_datetime
from typing import Any

_DURATION = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m(?!s))?(?:([\d.]+)s)?(?:([\d.]+)ms)?")
_MAX_DEPTH = 20  # of what an agent or a provider sent
_MAX_RESET_S = 400 * 24 * 3600.0  # a later reset is a parsing error


def resets_at(headers: Mapping[str, str], body: object, now: float) -> float | None:
    """Return the latest reset time that a refusal names (Unix time), when all limits are off; None without one."""
    named = {name.lower(): value for name, value in headers.items()}
    resets = [*_retry_after(named, now), *_reset_headers(named, now), *_resets_in_body(body, now)]
    sensible = [at for at in resets if now - 60 <= at <= now + _MAX_RESET_S]
    return max(sensible) if sensible else None


def _retry_after(headers: Mapping[str, str], now: float) -> Iterator[float]:
    if (value := _parse_number(headers.get("retry-after-ms"))) is not None:
        yield now + value / 1000
    elif (raw := headers.get("retry-after")) is not None:
        if (value := _parse_number(raw)) is not None:
            yield now + value
        else:
            try:
                yield parsedate_to_datetime(raw).timestamp()
            except ValueError:
                return


def _reset_headers(headers: Mapping[str, str], now: float) -> Iterator[float]:
    for name, value in headers.items():
        if "ratelimit" not in name or not re.search(r"-reset(-|$)", name):
            continue
        remaining, status = (
            headers.get(re.sub(r"-reset(-|$)", rf"-{other}\1", name)) for other in ("remaining", "status")
        )
        if (remaining is not None and _parse_number(remaining) != 0) or (status or "").startswith("allowed"):
            continue  # this limit was not reached
        at = _parse_moment(value, now)
        if at is not None:
            yield at


def _resets_in_body(body: object, now: float, depth: int = 0) -> Iterator[float]:
    """Yield Google's RetryInfo and quotaResetTimeStamp; `resets_at` and `resets_in_seconds` of subscription limits."""
    decoded = _decode(body) if isinstance(body, str) else body
    if isinstance(decoded, dict):
        yield from (at for key, value in decoded.items() if (at := _reset_of(key, value, now)) is not None)
    values = decoded.values() if isinstance(decoded, dict) else decoded if isinstance(decoded, list) else ()
    for value in values if depth < _MAX_DEPTH else ():
        yield from _resets_in_body(value, now, depth + 1)


def _reset_of(key: object, value: object, now: float) -> float | None:
    if key in ("retryDelay", "resets_in_seconds", "retry_after", "retryAfter"):
        return _parse_moment(value, now, is_duration=True)
    return _parse_moment(value, now) if key in ("quotaResetTimeStamp", "resets_at", "reset_at", "resetsAt") else None


def _decode(text: str) -> object:
    """Some agents pass the provider's answer on in a text."""
    try:
        return json.JSONDecoder().raw_decode(text, text.index("{"))[0]
    except (ValueError, RecursionError):
        return None


def _parse_moment(value: Any, now: float, *, is_duration: bool = False) -> float | None:
    """Parse a number (since 1970, or from now if it is small), a duration such as 6m0s, or a date."""
    number = _parse_number(value)
    if number is not None:
        return now + number if is_duration or number < now / 10 else number
    text = str(value)
    found = _DURATION.fullmatch(text)
    if text and found and any(found.groups()):
        days, hours, minutes, seconds, milliseconds = (float(part or 0) for part in found.groups())
        return now + days * 86400 + hours * 3600 + minutes * 60 + seconds + milliseconds / 1000
    try:
        return dt.datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None


def _parse_number(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def to_iso(timestamp: float) -> str:
    return dt.datetime.fromtimestamp(timestamp, dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
