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


FAMILY = (LogRepaired,)
