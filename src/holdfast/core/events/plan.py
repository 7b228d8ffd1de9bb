"""The plan: which tasks there are, what each waits for, and which can run at once."""

from typing import ClassVar

import msgspec

from holdfast.core.events.base import Event


class PlannedTask(msgspec.Struct, frozen=True, kw_only=True):
    id: str | int
    summary: str | None = None
    agent: str | None = None


class PlannedWave(msgspec.Struct, frozen=True, kw_only=True):
    wave: int
    task_ids: list[str | int]


class Dependency(msgspec.Struct, frozen=True, kw_only=True):
    task_id: str | int
    blocked_by: str | int


class PlanCreated(Event, frozen=True, kw_only=True):
    """A plan was made, or made anew: the newest one counts."""

    type: ClassVar[str] = "plan.created"
    tasks: list[PlannedTask] = []
    waves: list[PlannedWave] = []
    dependencies: list[Dependency] = []


FAMILY = (PlanCreated,)
