"""The wall clock, as the envelope writes it. Passed in as a value, so that tests own time."""

from collections.abc import Callable
from datetime import UTC, datetime

Clock = Callable[[], str]


def now() -> str:
    """The present moment, e.g. `2026-02-14T10:00:00.000Z`."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
