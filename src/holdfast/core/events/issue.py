"""Errors, blockers and warnings."""

from typing import ClassVar

from holdfast.core.events.base import Event


class ErrorEncountered(Event, frozen=True, kw_only=True):
    """`retried`: Holdfast tries again by itself, in a later session at the latest, so no person has to decide."""

    type: ClassVar[str] = "error.encountered"
    error: str | None = None
    file: str | None = None
    line: int | None = None
    attempts: int | None = None
    resolved: bool = False
    retried: bool = False


class BlockerReported(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "blocker.reported"
    description: str | None = None
    task_id: str | int | None = None
    phase: str | None = None
    resolved: bool = False


class WarningLogged(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "warning.logged"
    message: str | None = None


FAMILY = (ErrorEncountered, BlockerReported, WarningLogged)
