"""How to go on after an interruption: by itself, or which choices a person has.

A: a checkpoint that can be resumed from and nothing wrong since → go on by itself.
B: something went wrong since the checkpoint → fix and restart, continue past it, or other instructions.
C: no checkpoint to go on from → restart with the plan, with a new plan, or other instructions.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum

import msgspec

from holdfast.core.plan import by_number, graph_of
from holdfast.core.state import CheckpointReached, Issue, Plan, Task, TaskStatus
from holdfast.leaf.errors import PlanRejected

_NOT_WAITING = frozenset({TaskStatus.COMPLETE, TaskStatus.SKIPPED})


class Case(StrEnum):
    AUTO = "auto"
    ISSUES = "issues"
    NO_CHECKPOINT = "no_checkpoint"
    COMPLETE = "complete"


class Choice(StrEnum):
    """What an option does, whatever letter it has on the screen."""

    FIX = "fix"
    SKIP = "skip"
    CUSTOM = "custom"
    RESTART = "restart"
    REPLAN = "replan"


class Option(msgspec.Struct, frozen=True, omit_defaults=True):
    key: str
    label: str
    choice: Choice
    warning: str | None = None


class Decision(msgspec.Struct, frozen=True):
    case: Case
    next_step: str | None = None
    affected: tuple[str, ...] = ()
    options: tuple[Option, ...] = ()


def decide_resume(
    *,
    finished: bool,
    checkpoint: CheckpointReached | None,
    issues: Sequence[Issue],
    plan: Plan | None,
    tasks: Mapping[str, Task],
) -> Decision:
    next_step = checkpoint.plan_step if checkpoint else None
    if finished:
        return Decision(Case.COMPLETE)
    if issues:
        affected = tuple(sorted({issue.task for issue in issues if issue.task is not None}, key=by_number))
        return Decision(Case.ISSUES, next_step, affected, _after_issues(affected, checkpoint, plan, tasks))
    if checkpoint is not None and checkpoint.resumable:
        return Decision(Case.AUTO, next_step)
    return Decision(Case.NO_CHECKPOINT, options=_without_checkpoint(plan))


def _after_issues(
    affected: tuple[str, ...],
    checkpoint: CheckpointReached | None,
    plan: Plan | None,
    tasks: Mapping[str, Task],
) -> tuple[Option, ...]:
    names = _named(affected)
    if affected:
        fix = f"Fix the problem, restart {names} from scratch"
        skip = f"Continue past it — skip {names}, proceed to next wave"
    else:
        start = f'"{checkpoint.label}"' if checkpoint else "the beginning"
        fix = f"Fix the problem, restart from {start}"
        skip = "Continue past it — proceed to the next planned step"
    return (
        Option("A", fix, Choice.FIX),
        Option("B", skip, Choice.SKIP, warning=_left_without_input(affected, plan, tasks)),
        Option("C", "Provide custom instructions", Choice.CUSTOM),
    )


def _left_without_input(skipped: tuple[str, ...], plan: Plan | None, tasks: Mapping[str, Task]) -> str | None:
    """Which unfinished tasks would miss what a skipped one was to give them."""
    if plan is None or not skipped:
        return None
    try:
        waiting = graph_of(plan).dependents(skipped)
    except PlanRejected as error:
        return f"the plan cannot tell what depends on it: {error}"
    unfinished = [name for name in waiting if name not in tasks or tasks[name].status not in _NOT_WAITING]
    if not unfinished:
        return None
    return f"{_named(unfinished)} would be left without {'their' if len(unfinished) > 1 else 'its'} input"


def _without_checkpoint(plan: Plan | None) -> tuple[Option, ...]:
    with_plan = "reuse existing plan" if plan is not None and plan.order else "same goal, no plan was made"
    return (
        Option("A", f"Restart from scratch ({with_plan})", Choice.RESTART),
        Option("B", "Restart from scratch (create new plan)", Choice.REPLAN),
        Option("C", "Provide custom instructions", Choice.CUSTOM),
    )


def _named(tasks: Sequence[str]) -> str:
    if len(tasks) == 1:
        return f"Task #{tasks[0]}"
    return "Tasks " + ", ".join(f"#{task}" for task in tasks)
