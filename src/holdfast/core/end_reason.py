"""Why a session ended: the values in `session.end` and `--json`.

A log of another tool may have other reasons. They are kept unchanged, and mean that no work is left.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class EndReason(StrEnum):
    ALL_DONE = "all_done"
    PLANNED = "planned"  # the run was created and never started
    STOPPED = "stopped"  # by `holdfast stop`
    INTERRUPTED = "interrupted"  # by a signal
    WAITING = "waiting"  # for a person
    IDLE = "idle"  # every conversation of a chat waits for its user
    REWOUND = "rewound"  # the run was taken back to a point within it; in no `session.end`
    PARKED = "parked"  # a step failed for reasons outside its task
    QUOTA = "quota"  # the provider's usage limit; it continues when that resets
    OUTAGE = "outage"  # the provider or the network cannot be reached
    DISK_SPACE = "disk_space"  # little is left
    DAY_BUDGET = "day_budget"  # of all runs; it continues when the day turns
    REPOSITORY_BUDGET = "repository_budget"  # of all runs of the repository
    ERROR = "error"
    WALL_CLOCK = "wall_clock"
    TOKEN_CAP = "token_cap"  # noqa: S105 - a number of them
    COST_CAP = "cost_cap"
    FAILED = "failed"  # a task or phase, for a reason not listed below
    ITERATION_CAP = "iter_cap"
    EVALUATOR_CAP = "evaluator_cap"
    NO_CASE = "no_case"
    TASK_BUDGET = "task_budget"
    EMPTY_RESPONSES = "empty_responses"  # several turns in a row without any output
    REFUSED = "refused"  # tool calls were refused, and nothing changed
    DECLINED = "declined"  # the model declined to do it
    REVIEW_CAP = "review_cap"  # a review did not pass within its limit
    CHECKS_CAP = "checks_cap"  # the checks of a phase did not pass within its limit
    NO_PLAN = "no_plan"


class TaskFailure(StrEnum):
    """Why a task or a phase failed, if no end reason says it. The session then ends with `failed`."""

    BLOCKED = "blocked"  # its agent reported a blocker
    CONFLICTS = "conflicts"  # its merge had conflicts too often


RESUMABLE_REASONS = frozenset(EndReason) - {EndReason.ALL_DONE}
TASK_REASONS = (
    EndReason.ITERATION_CAP,
    EndReason.EVALUATOR_CAP,
    EndReason.NO_CASE,
    EndReason.TASK_BUDGET,
    EndReason.EMPTY_RESPONSES,
    EndReason.REFUSED,
    EndReason.DECLINED,
)
PHASE_REASONS = (EndReason.REVIEW_CAP, EndReason.CHECKS_CAP, EndReason.EMPTY_RESPONSES)

_TEXTS: Final[Mapping[str, str]] = {
    EndReason.ALL_DONE: "all tasks done",
    EndReason.PLANNED: "prepared, not started",
    EndReason.STOPPED: "stopped on request",
    EndReason.INTERRUPTED: "interrupted by a signal",
    EndReason.WAITING: "waiting for you",
    EndReason.IDLE: "idle; the next message continues it",
    EndReason.REWOUND: "rewound",
    EndReason.QUOTA: "the provider's usage limit is reached",
    EndReason.OUTAGE: "the provider cannot be reached",
    EndReason.DISK_SPACE: "little disk space is left",
    EndReason.DAY_BUDGET: "the budget of the day is spent (budgets.day_dollars, budgets.day_tokens)",
    EndReason.REPOSITORY_BUDGET: (
        "the budget of the repository is spent (budgets.repository_dollars, budgets.repository_tokens)"
    ),
    EndReason.TASK_BUDGET: "the budget of the task is spent (budgets.task_dollars, budgets.task_tokens)",
    EndReason.WALL_CLOCK: "time limit reached (caps.wall_clock)",
    EndReason.TOKEN_CAP: "token limit reached (caps.tokens)",
    EndReason.COST_CAP: "cost limit reached (caps.dollars)",
    EndReason.ITERATION_CAP: "iteration limit reached (caps.iterations)",
    EndReason.EVALUATOR_CAP: "evaluator limit reached (caps.evaluator_calls)",
    EndReason.NO_CASE: "the worker never submitted its case",
    EndReason.EMPTY_RESPONSES: "the agent's turns were empty",
    EndReason.REFUSED: "tool calls were refused and nothing was changed",
    EndReason.DECLINED: "the agent declined",
    EndReason.REVIEW_CAP: "review limit reached",
    EndReason.CHECKS_CAP: "limit of failed checks reached",
    EndReason.NO_PLAN: "no plan was submitted",
}


def end_reason_text(reason: str | None) -> str:
    """Return a reason as text for people; the log and `--json` keep the code. Any other text stays unchanged."""
    return _TEXTS.get(reason, reason) if reason else "normally"
