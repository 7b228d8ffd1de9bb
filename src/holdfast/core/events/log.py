"""Events about the log itself."""

from typing import ClassVar

from holdfast.core.events.base import Event


class LogRepaired(Event, frozen=True, kw_only=True):
    """A torn tail of `bytes` bytes was moved to the file `kept_as` when the log was opened."""

    type: ClassVar[str] = "log.repaired"
    position: int
    bytes: int
    kept_as: str
    reason: str


class LogWithheld(Event, frozen=True, kw_only=True):
    """Stands for an `event` of an archived run that a retention `rule` withholds.

    Never appended: it replaces the line, in the same place, with its length, time, number and link.
    """

    type: ClassVar[str] = "log.withheld"
    rule: str
    event: str


class RetentionApplied(Event, frozen=True, kw_only=True):
    """A retention `rule` withholds `events` (`bytes` long) that come before the position `until`.

    `digest` is of all `all_events` that are withheld up to there, with the links before them. The event is written
    before anything is withheld.
    """

    type: ClassVar[str] = "retention.applied"
    rule: str
    events: int
    bytes: int
    until: int
    all_events: int
    digest: str


FAMILY = (LogRepaired, LogWithheld, RetentionApplied)
