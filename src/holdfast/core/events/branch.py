"""Branches of a run, and what was done when git and the log disagreed."""

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


class WorkspaceReconciled(Event, frozen=True, kw_only=True):
    """A branch or a worktree differs from the log, and `action` is taken. Written before the action.

    `subject` is the branch or the worktree's folder. If a task lost work, its worker's next prompt says so.
    """

    type: ClassVar[str] = "workspace.reconciled"
    subject: str
    action: str
    message: str
    task: str | int | None = None


FAMILY = (BranchCreated, BranchMerged, BranchDeleted, WorkspaceReconciled)
