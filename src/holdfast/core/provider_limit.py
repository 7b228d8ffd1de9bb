"""How long an agent gets no prompt, after its provider's limit or outage."""

from enum import StrEnum
from typing import NamedTuple

import msgspec


class LimitKind(StrEnum):
    QUOTA = "quota"
    OUTAGE = "outage"


class ProviderLimit(msgspec.Struct):
    """The newest limit or outage that an agent met. `until`, `resets_at` and the others are times in UTC."""

    kind: LimitKind
    until: str
    since: str | None = None  # of this refusal
    began: str | None = None  # of the first refusal in a row
    resets_at: str | None = None
    provider: str | None = None
    how: str | None = None
    detail: str | None = None
    attempts: int = 1


class BackOff(NamedTuple):
    """In seconds: the first wait, doubled before each later one, and the longest."""

    first: float
    longest: float

    def delay_s(self, attempts: int) -> float:
        return min(self.first * 2.0 ** min(attempts - 1, 32), self.longest)


class LimitPolicy(NamedTuple):
    """How long to wait when nothing says how long, how long a session waits before it ends."""

    quota: BackOff = BackOff(300.0, 3600.0)
    outage: BackOff = BackOff(5.0, 300.0)
    quota_wait_s: float = 300.0
    outage_wait_s: float = 1800.0
