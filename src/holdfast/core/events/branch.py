"""Branches that a run made, and where they went."""

from typing import ClassVar

from holdfast.core.events.base import Event


class BranchCreated(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "branch.created"
    name: str
    base: str | None = None
    task: str | int | None = None


class BranchMerged(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "branch.merged"
    name: str
    target: str | None = None
    conflicts: bool | None = None


class BranchDeleted(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "branch.deleted"
    name: str


FAMILY = (BranchCreated, BranchMerged, BranchDeleted)
