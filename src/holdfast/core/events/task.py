"""Tasks and waves: started, completed, failed, skipped."""

from typing import ClassVar

import msgspec

from holdfast.core.events.base import Event


class TaskStarted(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "task.started"
    task_id: str | int = msgspec.field(name="taskId")
    summary: str | None = None
    agent: str | None = None
    files: list[str] | None = None


class TaskCompleted(Event, frozen=True, kw_only=True):
    """`outcome` is the result in the worker's words."""

    type: ClassVar[str] = "task.completed"
    task_id: str | int = msgspec.field(name="taskId")
    summary: str | None = None
    files_changed: list[str] | None = None
    key: str | None = None
    outcome: str | None = None


class TaskFailed(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "task.failed"
    task_id: str | int = msgspec.field(name="taskId")
    error: str | None = None
    attempts: int | None = None


class TaskSkipped(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "task.skipped"
    task_id: str | int = msgspec.field(name="taskId")
    reason: str | None = None


class WaveStarted(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "wave.started"
    wave: int


class WaveCompleted(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "wave.completed"
    wave: int


FAMILY = (TaskStarted, TaskCompleted, TaskFailed, TaskSkipped, WaveStarted, WaveCompleted)
