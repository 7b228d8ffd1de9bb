"""The plan: which tasks there are, what each waits for, and which can run at once."""

from typing import ClassVar

import msgspec

from holdfast.core.events.base import Event


class PlannedTask(msgspec.Struct, frozen=True, kw_only=True):
    """`key` is a hash of what the task is made from: finished work with the same key is not done again."""

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
    """A plan was made, or made anew: the newest one counts. `source` is the file or folder that it was read from."""

    type: ClassVar[str] = "plan.created"
    tasks: list[PlannedTask] = []
    waves: list[PlannedWave] = []
    dependencies: list[Dependency] = []
    overview: str = ""
    source: str | None = None
    needs_design: bool = False


FAMILY = (PlanCreated,)
