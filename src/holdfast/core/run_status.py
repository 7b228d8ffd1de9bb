"""The status of a run, as `ls`, `show`, `top` and their `--json` report it."""

from enum import StrEnum


class RunStatus(StrEnum):
    """Statuses other than end reasons. A run whose session ended before it was done has its `EndReason` as status."""

    OPEN = "open"  # the newest session has no end; its owner decides between the next two. Never shown
    RUNNING = "running"
    INTERRUPTED = "interrupted"  # by a death or a signal; the same word as `EndReason.INTERRUPTED`
    DONE = "done"
    ARCHIVED = "archived"
    EMPTY = "empty"  # nothing is recorded yet
    UNREADABLE = "unreadable"
