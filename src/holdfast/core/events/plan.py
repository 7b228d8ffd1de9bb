"""The plan: its tasks, their dependencies, and waves of tasks that can run at once."""

from typing import ClassVar

import msgspec

from holdfast.core.events.base import Event


class PlannedTask(msgspec.Struct, frozen=True, kw_only=True):
    """`key` is a hash of the task's content: finished work with the same key is not repeated."""

    id: str | int
    summary: str | None = None
    agent: str | None = None
    description: str = ""
    acceptance_criteria: list[str] = []
    files: list[str] = []
    key: str | None = None


class PlannedWave(msgspec.Struct, frozen=True, kw_only=True):
    wave: int
    task_ids: list[str | int]


class Dependency(msgspec.Struct, frozen=True, kw_only=True):
    task_id: str | int
    blocked_by: str | int


class PlanCreated(Event, frozen=True, kw_only=True):
    """A new plan; the newest one counts. `source` is the file or folder that it was read from."""

    type: ClassVar[str] = "plan.created"
    tasks: list[PlannedTask] = []
    waves: list[PlannedWave] = []
    dependencies: list[Dependency] = []
    overview: str = ""
    source: str | None = None
    needs_design: bool = False


FAMILY = (PlanCreated,)
