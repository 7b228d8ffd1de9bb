"""Branches that a run made, and where they went; and what was done where git and the log disagreed."""

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
    """A branch or a worktree is not as the log has it, and this is done about it. Written before it is done.

    `subject` is the branch, or the worktree's folder. What a task lost by it, its worker is told with its next prompt.
    """

    type: ClassVar[str] = "workspace.reconciled"
    subject: str
    action: str
    message: str
    task: str | int | None = None


FAMILY = (BranchCreated, BranchMerged, BranchDeleted, WorkspaceReconciled)
