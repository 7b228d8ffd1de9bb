"""Why a session ended: the reasons that `session.end` and `--json` have.

A log of another tool may give reasons of its own; those are kept as they are, and count as an end without work left.
"""

from enum import StrEnum


class EndReason(StrEnum):
    ALL_DONE = "all_done"
    PLANNED = "planned"  # the run is prepared and was never started
    STOPPED = "stopped"  # by `holdfast stop`
    INTERRUPTED = "interrupted"  # by a signal
    WAITING = "waiting"  # for a person
    PARKED = "parked"  # a step failed for reasons outside its task
    ERROR = "error"
    WALL_CLOCK = "wall_clock"
    TOKEN_CAP = "token_cap"  # noqa: S105 - a number of them
    COST_CAP = "cost_cap"
    FAILED = "failed"  # of a task or a phase, for a reason that is none of the following
    ITERATION_CAP = "iter_cap"
    EVALUATOR_CAP = "evaluator_cap"
    NO_CASE = "no_case"
    EMPTY_RESPONSES = "empty_responses"  # an agent said and did nothing, several times in a row
    REFUSED = "refused"  # tool calls were refused, and nothing changed
    REVIEW_CAP = "review_cap"  # a review did not pass within its limit
    CHECKS_CAP = "checks_cap"  # the checks of a phase did not pass within its limit
    NO_PLAN = "no_plan"


WORK_LEFT = frozenset(EndReason) - {EndReason.ALL_DONE}  # a resume goes on after these
OF_TASKS = (
    EndReason.ITERATION_CAP,
    EndReason.EVALUATOR_CAP,
    EndReason.NO_CASE,
    EndReason.EMPTY_RESPONSES,
    EndReason.REFUSED,
)
OF_PHASES = (EndReason.REVIEW_CAP, EndReason.CHECKS_CAP, EndReason.EMPTY_RESPONSES)
