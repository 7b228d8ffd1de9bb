"""A run goes back to an earlier point of its log; the log itself stays as it is."""

from enum import StrEnum
from typing import ClassVar

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


FAMILY = (RunRewound, RewindFinished)
