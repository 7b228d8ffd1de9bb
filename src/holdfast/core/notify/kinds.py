"""The kinds of notifications, as settings name them."""

from enum import StrEnum


class NotificationKind(StrEnum):
    NEEDS_YOU = "needs_you"  # an agent or a phase waits for an answer
    FAILED = "failed"  # a session ended before the work was done, and needs a decision
    DONE = "done"
    PARKED = "parked"  # it waits for something other than a person: a limit, the network, disk space
    RESUMED = "resumed"
    DIGEST = "digest"  # what happened meanwhile
    TEST = "test"
