"""A run goes back to an earlier point of its log, or begins with the past of another. No log is ever cut."""

from enum import StrEnum
from typing import ClassVar

import msgspec

from holdfast.core.events.base import Event


class RewindAxis(StrEnum):
    """What a rewind takes back. `conversation` includes the state of the plan."""

    BOTH = "both"
    FILES = "files"
    CONVERSATION = "conversation"


class RunRewound(Event, frozen=True, kw_only=True):
    """The run continues from `position`; what the log has between there and `at` is abandoned.

    Positions are offsets into the log; `at` is where this event begins. `undoes` is the `at` of the rewind that this
    one takes back. With `only: files` no event is abandoned, with `only: conversation` no file changes. Version 2: an
    older Holdfast would continue the abandoned part, so it must refuse the run.
    """

    type: ClassVar[str] = "run.rewound"
    envelope_version: ClassVar[int] = 2
    at: int
    position: int
    only: str = RewindAxis.BOTH
    undoes: int | None = None
    point: str | None = None
    task: str | None = None


class RewindFinished(Event, frozen=True, kw_only=True):
    """Worktrees and branches are at the point of the last `run.rewound`. `salvaged` are refs of what they were."""

    type: ClassVar[str] = "run.rewind_finished"
    salvaged: list[str] = []


class BranchPoint(msgspec.Struct, frozen=True):
    """Where a branch and its worktree were: `tip`, and the files of the snapshot or commit `commit`."""

    branch: str
    base: str
    tip: str
    commit: str
    task: str | None = None


class RunForked(Event, frozen=True, kw_only=True):
    """The run begins with the past of `parent` up to `position`, where the link of its log was `chain`.

    The events before this one, in the same append, are that past under the run's own names. `branches` is where its
    branches begin; `snapshots` are refs of the past's snapshots, so that nothing of the parent is needed any more.
    `after_planning` is how many of the events before this one came after the planning of the past.
    """

    type: ClassVar[str] = "run.forked"
    parent: str
    position: int
    chain: str | None = None
    point: str | None = None
    branches: list[BranchPoint] = []
    snapshots: dict[str, str] = {}
    after_planning: int | None = None


FAMILY = (RunRewound, RewindFinished, RunForked)
