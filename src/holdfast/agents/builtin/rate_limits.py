"""When a provider will take more: read from the headers and the body of its refusal. Pure."""

import datetime as dt
import re
from collections.abc import Iterator, Mapping
from email.utils import parsedate_to_datetime
from typing import Any

_SPAN = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m(?!s))?(?:([\d.]+)s)?(?:([\d.]+)ms)?")
_LONGEST = 400 * 24 * 3600.0  # seconds: a reset further away than this is a misreading


def resets_at(headers: Mapping[str, str], body: object, now: float) -> float | None:
    """Seconds since 1970; None when the refusal does not say. At the latest of what it says all limits are off."""
    named = {name.lower(): value for name, value in headers.items()}
    told = [*_retry_after(named, now), *_reset_headers(named, now), *_in_body(body, now)]
    sensible = [at for at in told if now - 60 <= at <= now + _LONGEST]
    return max(sensible) if sensible else None


def _retry_after(headers: Mapping[str, str], now: float) -> Iterator[float]:
    if (value := _number(headers.get("retry-after-ms"))) is not None:
        yield now + value / 1000
    elif (raw := headers.get("retry-after")) is not None:
        if (value := _number(raw)) is not None:
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
        remaining = headers.get(re.sub(r"-reset(-|$)", r"-remaining\1", name))
        if remaining is not None and _number(remaining) != 0:
            continue  # this limit was not the one that was hit
        at = _moment(value, now)
        if at is not None:
            yield at


def _in_body(body: object, now: float) -> Iterator[float]:
    """Google's RetryInfo and quotaResetTimeStamp; `resets_at` and `resets_in_seconds` of subscription limits."""
    if isinstance(body, dict):
        for key, value in body.items():
            if key in ("retryDelay", "resets_in_seconds", "retry_after"):
                at = _moment(value, now, span=True)
            elif key in ("quotaResetTimeStamp", "resets_at", "reset_at"):
                at = _moment(value, now)
            else:
                yield from _in_body(value, now)
                continue
            if at is not None:
                yield at
    elif isinstance(body, list):
        for value in body:
            yield from _in_body(value, now)


def _moment(value: Any, now: float, *, span: bool = False) -> float | None:
    """A number (since 1970, or from now when it is small), a span such as 6m0s, or a date."""
    number = _number(value)
    if number is not None:
        return now + number if span or number < now / 10 else number
    text = str(value)
    found = _SPAN.fullmatch(text)
    if text and found and any(found.groups()):
        days, hours, minutes, seconds, milliseconds = (float(part or 0) for part in found.groups())
        return now + days * 86400 + hours * 3600 + minutes * 60 + seconds + milliseconds / 1000
    try:
        return dt.datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None


def _number(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def iso(at: float) -> str:
    return dt.datetime.fromtimestamp(at, dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
