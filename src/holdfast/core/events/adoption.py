"""A session of another tool that became a run."""

from typing import ClassVar

from holdfast.core.events.base import Event


class RunAdopted(Event, frozen=True, kw_only=True):
    """The run continues a session of another tool. What that tool recorded follows, marked as imported.

    `path` is its file or folder, `session` its own id, `branch` and `commit` where its work was. `worktree` is the
    folder whose uncommitted files are in the run. `findings` are remarks for people.
    """

    type: ClassVar[str] = "run.adopted"
    tool: str
    version: str | None = None
    path: str
    session: str | None = None
    branch: str | None = None
    commit: str | None = None
    worktree: str | None = None
    findings: list[str] = []


FAMILY = (RunAdopted,)
