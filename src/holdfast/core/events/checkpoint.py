"""Named points that a run can resume from."""

from typing import ClassVar

from holdfast.core.events.base import Event


class Checkpoint(Event, frozen=True, kw_only=True):
    """`resumable: false` marks a point for information only: a run does not resume from it automatically."""

    type: ClassVar[str] = "checkpoint"
    label: str
    branch: str | None = None
    commit: str | None = None
    plan_step: str | None = None
    resumable: bool = True


FAMILY = (Checkpoint,)
