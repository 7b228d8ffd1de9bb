"""What the log says of itself."""

from typing import ClassVar

from holdfast.core.events.base import Event


class LogRepaired(Event, frozen=True, kw_only=True):
    """A torn tail was set aside when the log was opened: `bytes` of it, kept in the file `kept_as`."""

    type: ClassVar[str] = "log.repaired"
    position: int
    bytes: int
    kept_as: str
    reason: str


FAMILY = (LogRepaired,)
