"""Handlers of the plan, and of tasks as they move through their stages."""

import msgspec

from holdfast.core.events.issue import BlockerReported
from holdfast.core.events.plan import PlanCreated, PlannedTask
from holdfast.core.events.task import TaskCompleted, TaskFailed, TaskSkipped, TaskStarted, WaveCompleted, WaveStarted
from holdfast.core.events.work import (
    COMMIT_HOOK,
    VERDICT_KEEPING_REASONS,
    CaseSubmitted,
    CommitChanged,
    CommitRefused,
    IterationEnded,
    LearningsProposed,
    MergeConflicted,
    TaskCommitted,
    TaskReopened,
    TaskRestarted,
    ValidationFinished,
    ValidationStarted,
    ValidatorFinished,
    VerdictGiven,
)
from holdfast.core.fold.handlers.base import on
from holdfast.core.fold.handlers.inbox import drop_replies, mark_delivered, requeue_for_others, requeue_unheard
from holdfast.core.fold.handlers.notices import note_change
from holdfast.core.fold.handlers.open_issues import add_issue, blocks_task, issue_from_event
from holdfast.core.log.codec import Line
from holdfast.core.messages.notices import task_text
from holdfast.core.state import RunState
from holdfast.core.task_index import drop_task_index, note_status, note_wave, task_index
from holdfast.core.task_state import BEGUN_STATUSES, Check, EvaluatorVerdict, Plan, Task, TaskStage, TaskStatus, Wave

_MAX_VERDICTS = 50  # the newest, per task
_MAX_LEARNINGS = 200  # the newest, per run
_BLOCKABLE_STATUSES = (TaskStatus.FAILED, *BEGUN_STATUSES)


@on(PlanCreated)
def _plan_created(state: RunState, _: Line, event: PlanCreated) -> None:
    drop_task_index(state)
    closed = _tasks_of_closed_waves(state.plan)
    before = state.plan.order if state.plan is not None else []
    blocked_by: dict[str, list[str]] = {}
    for dependency in event.dependencies:
        blocked_by.setdefault(str(dependency.task_id), []).append(str(dependency.blocked_by))
    state.plan = Plan(
        order=[str(task.id) for task in event.tasks],
        waves={wave.wave: Wave([str(task) for task in wave.task_ids]) for wave in event.waves},
        blocked_by=blocked_by,
        overview=event.overview,
        source=event.source,
        needs_design=event.needs_design,
    )
    known = set(state.plan.order)
    state.tasks = _rename_finished_tasks(state.tasks, event.tasks)
    state.tasks = {n: t for n, t in state.tasks.items() if n in known or t.status is not TaskStatus.PENDING}
    for planned in event.tasks:
        task = state.tasks.setdefault(str(planned.id), Task())
        made_from, was = task.done_key or task.key, task_text(task)
        task.summary, task.agent = planned.summary or task.summary, planned.agent or task.agent
        task.wants = planned.agent
        task.description, task.acceptance_criteria = planned.description, planned.acceptance_criteria
        task.files, task.key = planned.files or task.files, planned.key
        note_change(state, task, was)
        if None in (made_from, task.key):
            continue  # without keys it is unknown whether it changed
        back = (
            task.status in _BLOCKABLE_STATUSES and str(planned.id) not in before
        )  # it returned to the plan; its issues were dropped when it left
        if back or (task.status is not TaskStatus.PENDING and made_from != task.key):
            _reopen(state, str(planned.id))
        elif task.status is TaskStatus.PENDING and task.done_key == task.key:
            task.status = TaskStatus.COMPLETE  # it was changed, and changed back before it was started
    for conversation_id, conversation in state.conversations.items():
        if conversation.task is not None and conversation.task not in known:
            requeue_for_others(state, conversation_id, conversation.task)
    if state.run is not None:  # issues of tasks that left the plan need no decision
        state.issues = [i for i in state.issues if i.task is None or blocks_task(state, i)]
    drop_task_index(state)  # the waves change below
    for wave in state.plan.waves.values():
        still = (name in closed and state.tasks[name].status is not TaskStatus.PENDING for name in wave.task_ids)
        wave.started = wave.completed = bool(wave.task_ids) and all(still)


def _tasks_of_closed_waves(plan: Plan | None) -> set[str]:
    """The tasks of waves that were closed."""
    waves = plan.waves.values() if plan is not None else ()
    return {name for wave in waves if wave.completed for name in wave.task_ids}


def _rename_finished_tasks(tasks: dict[str, Task], planned: list[PlannedTask]) -> dict[str, Task]:
    """Finished work is identified by its key: it moves to the id that the new plan uses for it."""
    keys = {str(task.id): task.key for task in planned}
    spare: dict[str | None, list[str]] = {}
    for name, task in tasks.items():
        if task.done_key is not None and task.done_key != keys.get(name):
            spare.setdefault(task.done_key, []).append(name)
    lacking = [name for name, key in keys.items() if name not in tasks or tasks[name].done_key != key]
    renamed = {name: spare[keys[name]].pop(0) for name in lacking if spare.get(keys[name])}
    moved = {*renamed, *renamed.values()}
    kept = {name: task for name, task in tasks.items() if name not in moved}
    return kept | {new: _without_conversations(tasks[old]) for new, old in renamed.items()}


def _without_conversations(task: Task) -> Task:
    """Its agents know it by its old id, so further work starts a new conversation."""
    return msgspec.structs.replace(task, worker=None, evaluator=None)


@on(TaskStarted)
def _task_started(state: RunState, _: Line, event: TaskStarted) -> None:
    task = _set_status(state, event.task_id, TaskStatus.IN_PROGRESS)
    task.summary = event.summary or task.summary
    task.agent, task.files = event.agent or task.agent, event.files or task.files
    task.done_key, task.learned = None, False
    next_iteration(state, task)


@on(TaskCompleted)
def _task_completed(state: RunState, _: Line, event: TaskCompleted) -> None:
    task = _set_status(state, event.task_id, TaskStatus.COMPLETE)
    task.summary = event.summary or task.summary
    task.files_changed, task.done_key = event.files_changed, event.key or task.key
    task.outcome = event.outcome
    task.before, task.losses = None, {}
    drop_replies(state, str(event.task_id))


@on(TaskSkipped)
def _task_skipped(state: RunState, _: Line, event: TaskSkipped) -> None:
    task = _set_status(state, event.task_id, TaskStatus.SKIPPED)
    task.reason = event.reason
    requeue_for_others(state, task.worker, str(event.task_id))
    drop_replies(state, str(event.task_id))


@on(TaskFailed)
def _task_failed(state: RunState, line: Line, event: TaskFailed) -> None:
    task = _set_status(state, event.task_id, TaskStatus.FAILED)
    task.error, task.attempts = event.error, event.attempts
    add_issue(state, state.issues, line, issue_from_event(state, line, event, task_id=str(event.task_id)))


@on(TaskReopened)
def _task_reopened(state: RunState, _: Line, event: TaskReopened) -> None:
    _schedule_again(state, str(event.task_id), event.reason)


@on(TaskRestarted)
def _task_restarted(state: RunState, _: Line, event: TaskRestarted) -> None:
    """Its next worker is new and gets the messages that the old one may not have received."""
    task = _schedule_again(state, str(event.task_id), event.reason)
    requeue_unheard(state, task.worker)
    task.worker, task.since = None, 0


def _schedule_again(state: RunState, task_id: str, reason: str | None) -> Task:
    task = _reopen(state, task_id)
    task.reason, task.done_key = reason, None
    for number in task_index(state).waves_of(task_id):
        _wave(state, number).completed = False
        note_wave(state, number, closed=False)
    return task


def _reopen(state: RunState, task_id: str) -> Task:
    """Make a task pending, without blockers and with all limits reset; its verdicts are kept."""
    task = _set_status(state, task_id, TaskStatus.PENDING)
    task.stage = TaskStage.WORK
    task.iteration = task.evaluations = task.conflicted = task.refused = 0
    task.case = task.commit = task.evaluator = None
    task.tree = task.head = task.merging = task.unchecked = task.recheck = task.hook_refused = None
    task.conflicts, task.checks = [], []
    _drop_blockers(state, task_id)
    return task


def next_iteration(state: RunState, task: Task, reason: str | None = None) -> None:
    """Start the next iteration: the worker gets a prompt, whose kind follows from the task's state."""
    task.stage, task.case, task.reason, task.recheck = TaskStage.WORK, None, reason, None
    task.iteration += 1
    worker = state.conversations.get(task.worker) if task.worker is not None else None
    task.since = worker.turns if worker is not None else 0


@on(LearningsProposed)
def _learnings_proposed(state: RunState, _: Line, event: LearningsProposed) -> None:
    _task(state, event.task_id).learned |= bool(event.learnings)
    state.learnings += [learning for learning in event.learnings if learning not in state.learnings]
    del state.learnings[:-_MAX_LEARNINGS]


@on(CaseSubmitted)
def _case_submitted(state: RunState, _: Line, event: CaseSubmitted) -> None:
    task = _task(state, event.task_id)
    task.stage, task.case = TaskStage.VALIDATE, bytes(event.case).decode()
    mark_delivered(state, task.worker)
    _drop_blockers(state, str(event.task_id))


def _drop_blockers(state: RunState, task_id: str) -> None:
    """Drop the blockers that the task's worker reported."""
    state.issues = [i for i in state.issues if not (i.type == BlockerReported.type and i.task == task_id)]


@on(ValidationStarted)
def _validation_started(state: RunState, _: Line, event: ValidationStarted) -> None:
    task = _task(state, event.task_id)
    task.tree, task.head, task.merging, task.checks = event.tree, event.head, event.merging, []


@on(ValidatorFinished)
def _validator_finished(state: RunState, _: Line, event: ValidatorFinished) -> None:
    _record_check(
        _task(state, event.task_id),
        Check(event.name, event.passed, event.output, event.problem, event.flaky, event.excused),
    )


def _record_check(task: Task, check: Check) -> None:
    task.checks = [*(other for other in task.checks if other.name != check.name), check]


@on(ValidationFinished)
def _validation_finished(state: RunState, _: Line, event: ValidationFinished) -> None:
    task = _task(state, event.task_id)
    task.tree = event.tree or task.tree
    if event.passed:
        task.stage = TaskStage.COMMIT if task.recheck in VERDICT_KEEPING_REASONS else TaskStage.EVALUATE
    else:
        next_iteration(state, task)


@on(CommitChanged)
def _commit_changed(state: RunState, _: Line, event: CommitChanged) -> None:
    task = _task(state, event.task_id)
    task.tree, task.head, task.merging = event.tree, event.commit, None
    task.unchecked, task.recheck = event.commit, event.reason
    task.stage, task.conflicts = TaskStage.VALIDATE, []


@on(CommitRefused)
def _commit_refused(state: RunState, _: Line, event: CommitRefused) -> None:
    task = _task(state, event.task_id)
    task.hook_refused = event.tree
    _record_check(task, Check(COMMIT_HOOK, passed=False, output=event.output))
    next_iteration(state, task)


@on(VerdictGiven)
def _verdict_given(state: RunState, line: Line, event: VerdictGiven) -> None:
    task = _task(state, event.task_id)
    task.evaluations += 1
    task.evaluator = None  # the next case gets an evaluator that has not seen this one
    task.verdicts.append(
        EvaluatorVerdict(
            event.iteration,
            event.accept,
            event.category,
            event.concern,
            event.evidence,
            event.next_step,
            event.synthetic,
            line.ts,
        )
    )
    del task.verdicts[:-_MAX_VERDICTS]
    if event.accept:
        task.stage = TaskStage.COMMIT
    else:
        next_iteration(state, task)


@on(IterationEnded)
def _iteration_ended(state: RunState, _: Line, event: IterationEnded) -> None:
    task = _task(state, event.task_id)
    task.evaluator = None  # it was evaluating an iteration without a result
    next_iteration(state, task, event.reason)


@on(TaskCommitted)
def _task_committed(state: RunState, _: Line, event: TaskCommitted) -> None:
    task = _task(state, event.task_id)
    task.commit = event.commit
    task.unchecked = task.recheck = task.hook_refused = None
    task.conflicts = []
    task.stage = TaskStage.MERGE if event.commit is not None else TaskStage.COMPLETE


@on(MergeConflicted)
def _merge_conflicted(state: RunState, _: Line, event: MergeConflicted) -> None:
    task = _task(state, event.task_id)
    task.conflicts = event.files
    task.conflicted += 1
    next_iteration(state, task)


def _task(state: RunState, task_id: str | int) -> Task:
    return state.tasks.setdefault(str(task_id), Task())


def _set_status(state: RunState, task_id: str | int, status: TaskStatus) -> Task:
    """Set the status of a task. Its earlier failure is no longer an issue, because the task continued."""
    name = str(task_id)
    state.issues = [i for i in state.issues if not (i.type == TaskFailed.type and i.task == name)]
    task = state.tasks.setdefault(name, Task())
    before = task.status
    task.status, task.error, task.attempts, task.reason = status, None, None, None
    note_status(state, name, before, status)
    return task


@on(WaveStarted)
def _wave_started(state: RunState, _: Line, event: WaveStarted) -> None:
    _wave(state, event.wave).started = True


@on(WaveCompleted)
def _wave_completed(state: RunState, _: Line, event: WaveCompleted) -> None:
    _wave(state, event.wave).completed = True
    note_wave(state, event.wave, closed=True)


def _wave(state: RunState, number: int) -> Wave:
    if state.plan is None:
        state.plan = Plan()
    if number not in state.plan.waves:
        state.plan.waves[number] = Wave()
        drop_task_index(state)
    return state.plan.waves[number]
