"""How to continue after an interruption: automatically, or with a person's choice.

A: a resumable checkpoint (or nothing left to do) and no issue since → continue automatically.
B: an issue since the checkpoint → restart, skip, custom instructions, or retry.
C: no resumable checkpoint → restart with the plan, with a new plan, or custom instructions.

A choice is data: what to do, and a person's instructions. Text is parsed into a choice in one place (`parse_choice`),
where a person or a setting gave it, and never again.

A session that resumes asks `workspace_actions`, brings git in line with the log, asks `task_actions`, and records
what was done (`resume_events`). It carries out what they say and chooses nothing itself.
"""

from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

import msgspec

from holdfast.core.events import Event
from holdfast.core.events.issue import BlockerReported, WarningLogged
from holdfast.core.events.phase import PhaseReopened
from holdfast.core.events.plan import PlanCreated
from holdfast.core.events.session import RunResumed
from holdfast.core.events.task import TaskSkipped
from holdfast.core.events.work import TaskReopened, TaskRestarted
from holdfast.core.phase_state import PhaseStatus
from holdfast.core.state import BranchStatus, CheckpointReached, Issue, PendingChoice, RunState
from holdfast.core.task_state import BEGUN_STATUSES, Plan, Task, TaskStage, TaskStatus
from holdfast.core.work.plan import natural_sort_key, plan_graph
from holdfast.leaf.errors import BadInput, DecisionNeeded, PlanRejected

NOTHING_LEFT = "complete"  # the next step when every task is done: only the session must end
ASK = "ask"  # the policy that leaves the choice to a person

_DONE_STATUSES = frozenset({TaskStatus.COMPLETE, TaskStatus.SKIPPED})
_CHOSEN_REASON = "chosen when the run was resumed"
_RETRY_REASON = "tried again when the run was resumed"


class ResumeCase(StrEnum):
    AUTO = "auto"
    WAITING = "waiting"  # a phase waits for approval
    ISSUES = "issues"
    NO_CHECKPOINT = "no_checkpoint"
    COMPLETE = "complete"


class Choice(StrEnum):
    """What an option does, independent of its letter. Logs of older versions have `fix` for `retry`."""

    RETRY = "retry"  # the same agent continues its work
    RESTART = "restart"  # a new agent on a new branch; the old work is saved
    SKIP = "skip"
    CUSTOM = "custom"  # retry, with a person's instructions
    REPLAN = "replan"


_CHOICES = frozenset(Choice)
_POLICIES = {  # the first choice that is offered
    "retry": (Choice.RETRY, Choice.RESTART),
    "fix": (Choice.RETRY, Choice.RESTART),
    "restart": (Choice.RESTART,),
    "skip": (Choice.SKIP,),
    "replan": (Choice.REPLAN,),
}
ON_ISSUE = (*_POLICIES, ASK)  # how to continue by a name; any other text is instructions


class ResumeOption(msgspec.Struct, frozen=True, omit_defaults=True):
    key: str
    label: str
    choice: Choice
    warning: str | None = None


class ResumeDecision(msgspec.Struct, frozen=True):
    """`chosen` is a choice that was recorded before a crash and not carried out: no one is asked again."""

    case: ResumeCase
    next_step: str | None = None
    affected: tuple[str, ...] = ()
    options: tuple[ResumeOption, ...] = ()
    chosen: Choice | None = None

    @property
    def offered_choices(self) -> tuple[Choice, ...]:
        return tuple(option.choice for option in self.options)


class ResumeChoice(msgspec.Struct, frozen=True):
    """How to continue. Without a choice, automatically; the instructions go into every later prompt."""

    choice: Choice | None = None
    instructions: str | None = None


def parse_choice(policy: str | None, instructions: str | None, decision: ResumeDecision) -> ResumeChoice | None:
    """The choice that a policy and instructions mean; None when a person must be asked.

    A policy that is not the name of a choice is taken as instructions; instructions are never read as a name.
    """
    named = policy in _POLICIES or policy in (None, ASK)
    if not named:
        instructions = "\n\n".join(text for text in (policy, instructions) if text)
    if policy is None or policy == ASK or not named:
        return ResumeChoice(Choice.CUSTOM, instructions) if instructions else None
    for choice in _POLICIES[policy]:
        if choice in decision.offered_choices:
            return ResumeChoice(choice, instructions)
    offered = ", ".join(choice for choice in decision.offered_choices if choice is not Choice.CUSTOM)
    raise BadInput(f"--on-issue {policy} is not possible here; use one of {offered}, or your own instructions")


def is_choice_due(decision: ResumeDecision, on_issue: str | None) -> bool:
    """Whether a choice is needed; or one is given, and replaces a recorded one that was not carried out completely."""
    continues = decision.case in (ResumeCase.COMPLETE, ResumeCase.AUTO, ResumeCase.WAITING)
    return not continues or (decision.chosen is not None and on_issue is not None)


def given_choice(
    decision: ResumeDecision, *, on_issue: str | None, instructions: str | None, default: str | None
) -> ResumeChoice | None:
    """The choice that options make, and settings by `default`; None when a person must be asked, or none is due."""
    if is_choice_due(decision, on_issue):
        return parse_choice(on_issue or default, instructions, decision)
    return ResumeChoice(None, instructions) if instructions is not None else None


def decide_resume(
    *,
    finished: bool,
    checkpoint: CheckpointReached | None,
    issues: Sequence[Issue],
    plan: Plan | None,
    tasks: Mapping[str, Task],
    chosen: str | None = None,
) -> ResumeDecision:
    """Decide how to resume. `chosen` is a recorded choice that was not carried out completely."""
    recorded = Choice(chosen) if chosen in _CHOICES else None  # a newer version may know more of them
    done = _is_done(plan, tasks)
    next_step = NOTHING_LEFT if done else checkpoint.plan_step if checkpoint else None
    if finished:
        return ResumeDecision(ResumeCase.COMPLETE, NOTHING_LEFT if done else None)
    affected = tuple(sorted({issue.task for issue in issues if issue.task is not None}, key=natural_sort_key))
    if issues:
        options = _issue_options(affected, checkpoint, plan, tasks)
        if recorded is not None:
            return ResumeDecision(ResumeCase.AUTO, next_step, affected, options, recorded)
        return ResumeDecision(ResumeCase.ISSUES, next_step, affected, options)
    if recorded is not None:
        return ResumeDecision(ResumeCase.AUTO, next_step, options=_no_checkpoint_options(plan), chosen=recorded)
    if done or (checkpoint is not None and checkpoint.resumable):
        return ResumeDecision(ResumeCase.AUTO, next_step)
    return ResumeDecision(ResumeCase.NO_CHECKPOINT, options=_no_checkpoint_options(plan))


def with_pending_approval(decision: ResumeDecision, phase: str | None) -> ResumeDecision:
    """The decision for a run in which `phase` waits for approval: it continues with the answer."""
    undecided = decision.case in (ResumeCase.AUTO, ResumeCase.NO_CHECKPOINT) and decision.chosen is None
    if phase is None or not undecided:
        return decision
    return ResumeDecision(ResumeCase.WAITING, f"{phase}, once it is approved or sent back for changes")


def tasks_for_choice(choice: Choice, state: RunState, affected: Sequence[str]) -> list[str]:
    """The tasks that a choice applies to, in the plan's order.

    These are failed or blocked tasks. Restart and skip include tasks in progress that the issues name; a restart
    without any such task includes everything that is not done.
    """
    blocked = {issue.task for issue in state.issues if issue.type == BlockerReported.type}
    in_progress = [name for name, task in state.tasks.items() if _is_unmerged(task)]
    failed = [name for name, task in state.tasks.items() if task.status is TaskStatus.FAILED]
    found = {*failed, *(name for name in in_progress if name in blocked)}
    if choice in (Choice.SKIP, Choice.RESTART):
        found |= {name for name in in_progress if name in affected}
    if choice is Choice.RESTART and not found:
        found = set(in_progress)
    return [name for name in state.tasks if name in found]


class Opening(StrEnum):
    """How a session begins, by what the one before it left."""

    START = "start"  # the run was prepared, and never worked on
    FINISH_PLANNING = "finish planning"  # its preparation was interrupted: it may have no worktree yet
    RESUME = "resume"


def opening_of(state: RunState) -> Opening:
    newest = state.newest_session()
    if newest is None or newest.command != "plan":
        return Opening.RESUME
    if state.conversations or any(task.status is not TaskStatus.PENDING for task in state.tasks.values()):
        return Opening.RESUME  # a fork, with work of its parent
    return Opening.START if newest.ended else Opening.FINISH_PLANNING


def is_finished(decision: ResumeDecision, *, has_news: bool) -> bool:
    """Whether a resume has nothing to do. News are unhandled messages and a changed plan."""
    return decision.case is ResumeCase.COMPLETE and not has_news


def resolve_choice(decision: ResumeDecision, given: ResumeChoice | None) -> ResumeChoice:
    """The choice that a resume acts on; `DecisionNeeded` when it needs one and none was given.

    Where none is needed, instructions stand alone; a choice only replaces one that was recorded before.
    """
    if decision.case in (ResumeCase.ISSUES, ResumeCase.NO_CHECKPOINT):
        if given is None or given.choice is None:
            options = "; ".join(f"{option.key}: {option.label}" for option in decision.options)
            names = f"{Choice.RETRY}|{Choice.RESTART}|{Choice.SKIP}"
            raise DecisionNeeded(
                f"a decision is needed ({options}); choose with --on-issue {names}, or --instructions TEXT"
            )
        return given
    given = given or ResumeChoice()
    return given if decision.chosen is not None else ResumeChoice(None, given.instructions)


class ResumeStep(StrEnum):
    DISCARD = "discard"  # the worktree and branch of a task that restarts; its work is salvaged first
    DELETE = "delete"  # the worktree and branch of a task that is complete, and had nothing to be merged
    FAIL = "fail"  # a task that is skipped: its work is kept, as that of a failed one is
    UNWIND = "unwind"  # the commit of a failed attempt: its changes become files again, to be worked on


class ResumeAction(NamedTuple):
    step: ResumeStep
    task: str


class ChosenTasks(NamedTuple):
    """A recorded choice, and those of its tasks that are still there."""

    choice: Choice | None = None
    tasks: tuple[str, ...] = ()
    instructions: str | None = None

    @property
    def is_retry(self) -> bool:
        return self.choice not in (None, Choice.SKIP, Choice.RESTART)


def chosen_tasks(state: RunState) -> ChosenTasks:
    """What the log says was chosen and not acted on to the end. A choice of a newer version is not ours to act on."""
    pending: PendingChoice | None = state.choice
    if pending is None or pending.choice not in _CHOICES:
        return ChosenTasks()
    tasks = tuple(name for name in pending.tasks if name in state.tasks)
    return ChosenTasks(Choice(pending.choice), tasks, pending.instructions)


def workspace_actions(state: RunState, chosen: ChosenTasks) -> list[ResumeAction]:
    """What is removed before branches and worktrees are compared with the log."""
    discarded = chosen.tasks if chosen.choice is Choice.RESTART else ()
    completed = [name for name, task in state.tasks.items() if task.status is TaskStatus.COMPLETE]
    return [
        *(ResumeAction(ResumeStep.DISCARD, name) for name in discarded),
        *(ResumeAction(ResumeStep.DELETE, name) for name in completed if _has_open_branch(state, name)),
    ]


def task_actions(state: RunState, chosen: ChosenTasks, worktrees: Collection[str]) -> list[ResumeAction]:
    """What is done for the chosen tasks once the workspace is as the log says. `worktrees`: tasks that have a folder.

    A task without its branch was being restarted when another choice was made: there is nothing to unwind.
    """
    if chosen.choice is Choice.SKIP:
        in_progress = (name for name in chosen.tasks if state.tasks[name].status in BEGUN_STATUSES)
        return [ResumeAction(ResumeStep.FAIL, name) for name in in_progress if name in worktrees]
    if chosen.is_retry:
        return [ResumeAction(ResumeStep.UNWIND, name) for name in chosen.tasks if _has_open_branch(state, name)]
    return []


class ResumeOutcome(msgspec.Struct, frozen=True):
    """What was found and done, for the log."""

    instructions: str | None = None  # those that were given with this resume
    last_sid: str | None = None  # the session that it continues
    salvaged: Mapping[str, list[str]] = {}  # by task: the refs that have its old work
    unwound: Sequence[str] = ()
    settled: Sequence[str] = ()
    reconciled: Sequence[str] = ()
    warnings: Sequence[str] = ()
    plan: PlanCreated | None = None  # the source of the plan was changed meanwhile


def resume_events(state: RunState, chosen: ChosenTasks, outcome: ResumeOutcome) -> list[Event]:
    """All of a resume, for one commit. `run.resumed` is last: torn off, the choice stands and all is done again."""
    changes = [*_choice_events(chosen, outcome.salvaged), *_reopen_failed_phases(state)]
    plan: list[Event] = [outcome.plan] if outcome.plan is not None else []
    skips = chosen.choice is Choice.SKIP  # skipped, whatever the plan says
    return [
        *(WarningLogged(message=text) for text in outcome.warnings),
        *([*plan, *changes] if skips else [*changes, *plan]),
        _resumed_event(state, chosen, outcome),
    ]


def _choice_events(chosen: ChosenTasks, salvaged: Mapping[str, list[str]]) -> list[Event]:
    """What a choice means for its tasks."""
    match chosen.choice:
        case None:
            return []
        case Choice.SKIP:
            return [TaskSkipped(task_id=name, reason=_CHOSEN_REASON) for name in chosen.tasks]
        case Choice.RESTART:
            return [
                TaskRestarted(task_id=name, reason=_CHOSEN_REASON, salvaged=salvaged[name]) for name in chosen.tasks
            ]
        case _:
            return [TaskReopened(task_id=name, reason=_RETRY_REASON) for name in chosen.tasks]


def _reopen_failed_phases(state: RunState) -> list[Event]:
    """A phase that failed is tried again, whatever was chosen for the tasks: there is no way around one.

    A review that did not pass leads to what it found, never past it.
    """
    failed = [name for name, phase in state.phases.items() if phase.status is PhaseStatus.FAILED]
    return [PhaseReopened(phase=name, reason=_RETRY_REASON) for name in failed]


def _resumed_event(state: RunState, chosen: ChosenTasks, outcome: ResumeOutcome) -> RunResumed:
    last, tasks = state.sessions.get(outcome.last_sid or ""), list(chosen.tasks)
    return RunResumed(
        summary=_summary(state, chosen, plan_changed=outcome.plan is not None),
        last_stop=last.stop_reason if last is not None else None,
        decision=chosen.choice,
        retried=tasks if chosen.is_retry else [],
        skipped=tasks if chosen.choice is Choice.SKIP else [],
        restarted=tasks if chosen.choice is Choice.RESTART else [],
        salvaged=[ref for refs in outcome.salvaged.values() for ref in refs],
        pending=[name for name, task in state.tasks.items() if task.status is TaskStatus.PENDING],
        unwound=list(outcome.unwound),
        settled=list(outcome.settled),
        reconciled=list(outcome.reconciled),
        instructions=outcome.instructions if chosen.choice is None else chosen.instructions,
    )


def _summary(state: RunState, chosen: ChosenTasks, *, plan_changed: bool) -> str:
    done = sum(task.status in _DONE_STATUSES for task in state.tasks.values())
    in_progress = [name for name, task in state.tasks.items() if task.status in BEGUN_STATUSES]
    continuing = [name for name in in_progress if name not in chosen.tasks]
    verb = {Choice.SKIP: "skipping", Choice.RESTART: "restarting from scratch"}.get(
        chosen.choice or Choice.RETRY, "retrying"
    )
    parts = [
        f"in phase {state.phase}" if state.phase is not None else "",
        f"{done} of {len(state.tasks)} tasks done",
        f"continuing {', '.join(continuing)}" if continuing else "",
        f"{verb} {', '.join(chosen.tasks)}" if chosen.tasks else "",
        "the plan was changed meanwhile" if plan_changed else "",
    ]
    return "; ".join(part for part in parts if part)


def _has_open_branch(state: RunState, task_id: str) -> bool:
    return any(
        branch.task == task_id and branch.status is BranchStatus.IN_PROGRESS for branch in state.branches.values()
    )


def _is_unmerged(task: Task) -> bool:
    """Whether a task is in progress and not merged yet. Merged work is never repeated."""
    return task.status in BEGUN_STATUSES and task.stage is not TaskStage.COMPLETE


def _is_done(plan: Plan | None, tasks: Mapping[str, Task]) -> bool:
    """Whether the plan has tasks and all are complete or skipped, whatever the last checkpoint expected."""
    names = plan.order if plan is not None else []
    return bool(names) and all(name in tasks and tasks[name].status in _DONE_STATUSES for name in names)


def _issue_options(
    affected: tuple[str, ...],
    checkpoint: CheckpointReached | None,
    plan: Plan | None,
    tasks: Mapping[str, Task],
) -> tuple[ResumeOption, ...]:
    """Options A to C are from the Resume Protocol; retry is Holdfast's."""
    if affected:
        names, their = _task_names(affected), "their" if len(affected) > 1 else "its"
        restart = f"Restart {names} from scratch: new branch, new agent; {their} work so far is saved"
        skip = f"Continue past it — skip {names}, proceed to next wave"
        retry = f"Retry {names}: keep {their} work and conversation"
    else:
        start = f'"{checkpoint.label}"' if checkpoint else "the beginning"
        restart = f"Restart from {start}: new branches, new agents for what was in progress; its work so far is saved"
        skip = "Continue past it — proceed to the next planned step"
        retry = "Retry: keep the work and the conversations"
    return (
        ResumeOption("A", restart, Choice.RESTART),
        ResumeOption("B", skip, Choice.SKIP, warning=_skip_warning(affected, plan, tasks)),
        ResumeOption("C", "Provide custom instructions", Choice.CUSTOM),
        ResumeOption("D", retry, Choice.RETRY),
    )


def _skip_warning(skipped: tuple[str, ...], plan: Plan | None, tasks: Mapping[str, Task]) -> str | None:
    """A warning about unfinished tasks that depend on skipped ones."""
    if plan is None or not skipped:
        return None
    try:
        waiting = plan_graph(plan).dependents(skipped)
    except PlanRejected as error:
        return f"the tasks that depend on it are unknown: {error}"
    unfinished = [name for name in waiting if name not in tasks or tasks[name].status not in _DONE_STATUSES]
    if not unfinished:
        return None
    return f"{_task_names(unfinished)} would be missing {'their' if len(unfinished) > 1 else 'its'} input"


def _no_checkpoint_options(plan: Plan | None) -> tuple[ResumeOption, ...]:
    with_plan = "reuse existing plan" if plan is not None and plan.order else "same goal, no plan was made"
    return (
        ResumeOption("A", f"Restart from scratch ({with_plan})", Choice.RESTART),
        ResumeOption("B", "Restart from scratch (create new plan)", Choice.REPLAN),
        ResumeOption("C", "Provide custom instructions", Choice.CUSTOM),
    )


def _task_names(tasks: Sequence[str]) -> str:
    if len(tasks) == 1:
        return f"Task #{tasks[0]}"
    return "Tasks " + ", ".join(f"#{task}" for task in tasks)
