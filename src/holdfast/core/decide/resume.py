"""How to go on after an interruption: by itself, or which choices a person has, and what a choice means.

A: a checkpoint that can be resumed from (or nothing left to do) and nothing wrong since → go on by itself.
B: something went wrong since the checkpoint → restart, skip, other instructions, or retry.
C: no checkpoint to go on from → restart with the plan, with a new plan, or other instructions.

A choice is data: what is to be done, and with it a person's own instructions. Text is read as a choice in one place
(`choice_of`), where a person or a setting gave it; from there on it is never read again.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum

import msgspec

from holdfast.core.events.issue import BlockerReported
from holdfast.core.state import CheckpointReached, Issue, Plan, RunState, Stage, Task, TaskStatus
from holdfast.core.work.plan import by_number, graph_of
from holdfast.leaf.errors import BadInput, PlanRejected

NOTHING_LEFT = "complete"  # the next step when every task is done: only the session is left to be ended
ASK = "ask"  # the policy that leaves the choice to a person

_NOT_WAITING = frozenset({TaskStatus.COMPLETE, TaskStatus.SKIPPED})


class Case(StrEnum):
    AUTO = "auto"
    WAITING = "waiting"  # a phase asks for approval: it continues with the answer
    ISSUES = "issues"
    NO_CHECKPOINT = "no_checkpoint"
    COMPLETE = "complete"


class Choice(StrEnum):
    """What an option does, whatever letter it has on the screen. Logs of older versions have `fix` for `retry`."""

    RETRY = "retry"  # the same agent goes on with the work it has
    RESTART = "restart"  # a new agent, on a new branch; the old work is saved
    SKIP = "skip"
    CUSTOM = "custom"  # retry, with a person's instructions
    REPLAN = "replan"


_CHOICES = frozenset(Choice)
_POLICIES = {  # a name may mean several choices: the first that is offered
    "retry": (Choice.RETRY, Choice.RESTART),
    "fix": (Choice.RETRY, Choice.RESTART),
    "restart": (Choice.RESTART,),
    "skip": (Choice.SKIP,),
    "replan": (Choice.REPLAN,),
}


class Option(msgspec.Struct, frozen=True, omit_defaults=True):
    key: str
    label: str
    choice: Choice
    warning: str | None = None


class Decision(msgspec.Struct, frozen=True):
    """`chosen` when a choice is recorded already and a crash came before it was acted on: nobody is asked again."""

    case: Case
    next_step: str | None = None
    affected: tuple[str, ...] = ()
    options: tuple[Option, ...] = ()
    chosen: Choice | None = None

    @property
    def offered(self) -> tuple[Choice, ...]:
        return tuple(option.choice for option in self.options)


class ResumeChoice(msgspec.Struct, frozen=True):
    """How to go on. Without a choice, by itself; instructions are for every prompt from here on."""

    choice: Choice | None = None
    instructions: str | None = None


def choice_of(policy: str | None, instructions: str | None, decision: Decision) -> ResumeChoice | None:
    """What a policy and instructions mean for a decision; None when a person is to be asked.

    A policy that names no choice is itself the instructions; instructions that were given as such never name one.
    """
    named = policy in _POLICIES or policy in (None, ASK)
    if not named:
        instructions = "\n\n".join(text for text in (policy, instructions) if text)
    if policy is None or policy == ASK or not named:
        return ResumeChoice(Choice.CUSTOM, instructions) if instructions else None
    for choice in _POLICIES[policy]:
        if choice in decision.offered:
            return ResumeChoice(choice, instructions)
    offered = ", ".join(choice for choice in decision.offered if choice is not Choice.CUSTOM)
    raise BadInput(f"--on-issue {policy} is not possible here; possible are {offered}, or your own instructions")


def decide_resume(
    *,
    finished: bool,
    checkpoint: CheckpointReached | None,
    issues: Sequence[Issue],
    plan: Plan | None,
    tasks: Mapping[str, Task],
    chosen: str | None = None,
) -> Decision:
    """`chosen` is a choice that is recorded and was not acted on to the end."""
    recorded = Choice(chosen) if chosen in _CHOICES else None  # a newer version may know more of them
    done = _is_done(plan, tasks)
    next_step = NOTHING_LEFT if done else checkpoint.plan_step if checkpoint else None
    if finished:
        return Decision(Case.COMPLETE, NOTHING_LEFT if done else None)
    affected = tuple(sorted({issue.task for issue in issues if issue.task is not None}, key=by_number))
    if issues:
        options = _after_issues(affected, checkpoint, plan, tasks)
        if recorded is not None:
            return Decision(Case.AUTO, next_step, affected, options, recorded)
        return Decision(Case.ISSUES, next_step, affected, options)
    if recorded is not None:
        return Decision(Case.AUTO, next_step, options=_without_checkpoint(plan), chosen=recorded)
    if done or (checkpoint is not None and checkpoint.resumable):
        return Decision(Case.AUTO, next_step)
    return Decision(Case.NO_CHECKPOINT, options=_without_checkpoint(plan))


def at_gate(decision: Decision, gate: str | None) -> Decision:
    """The same, of a run in which the phase `gate` waits for a person's approval: it continues with the answer."""
    undecided = decision.case in (Case.AUTO, Case.NO_CHECKPOINT) and decision.chosen is None
    if gate is None or not undecided:
        return decision
    return Decision(Case.WAITING, f"{gate}, once it is approved or sent back for changes")


def tasks_of(choice: Choice, state: RunState, affected: Sequence[str]) -> list[str]:
    """The tasks that a choice is about, in the plan's order.

    Those that failed or are blocked. Restart and skip also take those that the issues name and that go on; a restart
    for which no task is named is about everything that is not done.
    """
    blocked = {issue.task for issue in state.issues if issue.type == BlockerReported.type}
    begun = [name for name, task in state.tasks.items() if _is_under_way(task)]
    failed = [name for name, task in state.tasks.items() if task.status is TaskStatus.FAILED]
    found = {*failed, *(name for name in begun if name in blocked)}
    if choice in (Choice.SKIP, Choice.RESTART):
        found |= {name for name in begun if name in affected}
    if choice is Choice.RESTART and not found:
        found = set(begun)
    return [name for name in state.tasks if name in found]


def _is_under_way(task: Task) -> bool:
    """In progress, and not merged yet: merged work is never done again."""
    return task.status is TaskStatus.IN_PROGRESS and task.stage is not Stage.COMPLETE


def _is_done(plan: Plan | None, tasks: Mapping[str, Task]) -> bool:
    """True when the plan has tasks and each of them is complete or skipped, whatever the last checkpoint expected."""
    names = plan.order if plan is not None else []
    return bool(names) and all(name in tasks and tasks[name].status in _NOT_WAITING for name in names)


def _after_issues(
    affected: tuple[str, ...],
    checkpoint: CheckpointReached | None,
    plan: Plan | None,
    tasks: Mapping[str, Task],
) -> tuple[Option, ...]:
    """The letters are the Resume Protocol's; retry is ours."""
    if affected:
        names, their = _named(affected), "their" if len(affected) > 1 else "its"
        restart = f"Restart {names} from scratch: new branch, new agent; {their} work so far is saved"
        skip = f"Continue past it — skip {names}, proceed to next wave"
        retry = f"Retry {names}: keep {their} work and conversation"
    else:
        start = f'"{checkpoint.label}"' if checkpoint else "the beginning"
        restart = f"Restart from {start}: new branches, new agents for what was in progress; its work so far is saved"
        skip = "Continue past it — proceed to the next planned step"
        retry = "Retry: keep the work and the conversations"
    return (
        Option("A", restart, Choice.RESTART),
        Option("B", skip, Choice.SKIP, warning=_left_without_input(affected, plan, tasks)),
        Option("C", "Provide custom instructions", Choice.CUSTOM),
        Option("D", retry, Choice.RETRY),
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
