"""Named points that a run can restart from."""

from typing import ClassVar

from holdfast.core.events.base import Event


class Checkpoint(Event, frozen=True, kw_only=True):
    """`resumable: false` marks a point that is worth knowing but no place to resume from by itself."""

    type: ClassVar[str] = "checkpoint"
    label: str
    branch: str | None = None
    commit: str | None = None
    plan_step: str | None = None
    resumable: bool = True


FAMILY = (Checkpoint,)
