"""What a session's process tells its worker, a JSON line each."""

from enum import StrEnum

import msgspec


class ReportKind(StrEnum):
    BEAT = "beat"  # its event loop runs
    WAITING = "waiting"  # another process owns the run
    ENDED = "ended"  # the session ended, and its log says so
    DRAINED = "drained"  # it ended because the worker asked; another worker continues
    FENCED = "fenced"  # it lost its lease: another machine has the run
    REFUSED = "refused"  # this machine cannot run it
    FAILED = "failed"  # by a fault outside of the run, such as a database that is away
    DIED = "died"  # the process ended without a report; the worker concludes this


class SessionReport(msgspec.Struct, frozen=True, omit_defaults=True):
    kind: ReportKind
    reason: str | None = None
    detail: str | None = None
    resumes_at: str | None = None
    after_s: float | None = None  # when to try again
