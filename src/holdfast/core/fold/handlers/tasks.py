"""The plan, and each task on its way through its stages."""

import msgspec

from holdfast.core.events.issue import BlockerReported
from holdfast.core.events.plan import PlanCreated, PlannedTask
from holdfast.core.events.task import TaskCompleted, TaskFailed, TaskSkipped, TaskStarted, WaveCompleted, WaveStarted
from holdfast.core.events.work import (
    COMMIT_HOOK,
    VERDICT_STANDS,
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
from holdfast.core.fold.handlers.inbox import acted_on, drop_replies, give_back, hand_on
from holdfast.core.fold.handlers.notices import note_change
from holdfast.core.fold.handlers.open_issues import holds_up_a_task, issue_of, keep
from holdfast.core.log.codec import Line
from holdfast.core.messages.notices import as_told
from holdfast.core.state import Check, Plan, RunState, Stage, Task, TaskStatus, Verdict, Wave

_VERDICTS = 50  # the newest of a task
_LEARNINGS = 200  # the newest of a run
_HELD_UP = (TaskStatus.FAILED, TaskStatus.IN_PROGRESS)  # as those may be


@on(PlanCreated)
def _plan_created(state: RunState, _: Line, event: PlanCreated) -> None:
    closed = _closed(state.plan)
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
    state.tasks = _under_new_names(state.tasks, event.tasks)
    state.tasks = {n: t for n, t in state.tasks.items() if n in known or t.status is not TaskStatus.PENDING}
    for planned in event.tasks:
        task = state.tasks.setdefault(str(planned.id), Task())
        made_from, was = task.done_key or task.key, as_told(task)
        task.summary, task.agent = planned.summary or task.summary, planned.agent or task.agent
        task.wants = planned.agent
        task.description, task.acceptance_criteria = planned.description, planned.acceptance_criteria
        task.files, task.key = planned.files or task.files, planned.key
        note_change(state, task, was)
        if None in (made_from, task.key):
            continue  # nobody can tell whether it changed
        back = task.status in _HELD_UP and str(planned.id) not in before  # what was in its way went with its place
        if back or (task.status is not TaskStatus.PENDING and made_from != task.key):
            _open_again(state, str(planned.id))
        elif task.status is TaskStatus.PENDING and task.done_key == task.key:
            task.status = TaskStatus.COMPLETE  # it was changed, and changed back before anybody began
    for name, talk in state.conversations.items():
        if talk.task is not None and talk.task not in known:
            hand_on(state, name, talk.task)
    if state.run is not None:  # of what is in the plan no more, nobody need say how to go on
        state.issues = [i for i in state.issues if i.task is None or holds_up_a_task(state, i)]
    for wave in state.plan.waves.values():
        still = (name in closed and state.tasks[name].status is not TaskStatus.PENDING for name in wave.task_ids)
        wave.started = wave.completed = bool(wave.task_ids) and all(still)


def _closed(plan: Plan | None) -> set[str]:
    """The tasks of waves that were closed."""
    waves = plan.waves.values() if plan is not None else ()
    return {name for wave in waves if wave.completed for name in wave.task_ids}


def _under_new_names(tasks: dict[str, Task], planned: list[PlannedTask]) -> dict[str, Task]:
    """Finished work is known by its key: it goes to whichever name the plan has for it now."""
    keys = {str(task.id): task.key for task in planned}
    spare: dict[str | None, list[str]] = {}
    for name, task in tasks.items():
        if task.done_key is not None and task.done_key != keys.get(name):
            spare.setdefault(task.done_key, []).append(name)
    lacking = [name for name, key in keys.items() if name not in tasks or tasks[name].done_key != key]
    renamed = {name: spare[keys[name]].pop(0) for name in lacking if spare.get(keys[name])}
    gone = {*renamed, *renamed.values()}
    kept = {name: task for name, task in tasks.items() if name not in gone}
    return kept | {new: _without_talk(tasks[old]) for new, old in renamed.items()}


def _without_talk(task: Task) -> Task:
    """Its agents know it by its old name: whoever is to do more for it begins afresh."""
    return msgspec.structs.replace(task, worker=None, evaluator=None)


@on(TaskStarted)
def _task_started(state: RunState, _: Line, event: TaskStarted) -> None:
    task = _moved(state, event.task_id, TaskStatus.IN_PROGRESS)
    task.summary = event.summary or task.summary
    task.agent, task.files = event.agent or task.agent, event.files or task.files
    task.done_key, task.learned = None, False
    _next_iteration(state, task)


@on(TaskCompleted)
def _task_completed(state: RunState, _: Line, event: TaskCompleted) -> None:
    task = _moved(state, event.task_id, TaskStatus.COMPLETE)
    task.summary = event.summary or task.summary
    task.files_changed, task.done_key = event.files_changed, event.key or task.key
    task.outcome = event.outcome
    task.before, task.losses = None, {}
    drop_replies(state, str(event.task_id))


@on(TaskSkipped)
def _task_skipped(state: RunState, _: Line, event: TaskSkipped) -> None:
    task = _moved(state, event.task_id, TaskStatus.SKIPPED)
    task.reason = event.reason
    hand_on(state, task.worker, str(event.task_id))
    drop_replies(state, str(event.task_id))


@on(TaskFailed)
def _task_failed(state: RunState, line: Line, event: TaskFailed) -> None:
    task = _moved(state, event.task_id, TaskStatus.FAILED)
    task.error, task.attempts = event.error, event.attempts
    keep(state, state.issues, line, issue_of(state, line, event, task=str(event.task_id)))


@on(TaskReopened)
def _task_reopened(state: RunState, _: Line, event: TaskReopened) -> None:
    _to_be_done(state, str(event.task_id), event.reason)


@on(TaskRestarted)
def _task_restarted(state: RunState, _: Line, event: TaskRestarted) -> None:
    """Its next worker is a new one, and is told what the old one may not have heard."""
    task = _to_be_done(state, str(event.task_id), event.reason)
    give_back(state, task.worker)
    task.worker, task.since = None, 0


def _to_be_done(state: RunState, name: str, reason: str | None) -> Task:
    task = _open_again(state, name)
    task.reason, task.done_key = reason, None
    for wave in state.plan.waves.values() if state.plan is not None else ():
        wave.completed = wave.completed and name not in wave.task_ids
    return task


def _open_again(state: RunState, name: str) -> Task:
    """To be done, nothing in its way and none of its caps used up; what was said of it before still counts."""
    task = _moved(state, name, TaskStatus.PENDING)
    task.stage = Stage.WORK
    task.iteration = task.evaluations = task.conflicted = task.refused = 0
    task.case = task.commit = task.evaluator = None
    task.tree = task.head = task.merging = task.unchecked = task.recheck = task.hook_refused = None
    task.conflicts, task.checks = [], []
    _unblocked(state, name)
    return task


def _next_iteration(state: RunState, task: Task, reason: str | None = None) -> None:
    """The worker is to be told something: what, follows from what is known of the task."""
    task.stage, task.case, task.reason, task.recheck = Stage.WORK, None, reason, None
    task.iteration += 1
    worker = state.conversations.get(task.worker) if task.worker is not None else None
    task.since = worker.turns if worker is not None else 0


@on(LearningsProposed)
def _learnings_proposed(state: RunState, _: Line, event: LearningsProposed) -> None:
    _task(state, event.task_id).learned |= bool(event.learnings)
    state.learnings += [one for one in event.learnings if one not in state.learnings]
    del state.learnings[:-_LEARNINGS]


@on(CaseSubmitted)
def _case_submitted(state: RunState, _: Line, event: CaseSubmitted) -> None:
    task = _task(state, event.task_id)
    task.stage, task.case = Stage.VALIDATE, bytes(event.case).decode()
    acted_on(state, task.worker)
    _unblocked(state, str(event.task_id))


def _unblocked(state: RunState, name: str) -> None:
    """What a worker reported as in its way no longer is."""
    state.issues = [i for i in state.issues if not (i.type == BlockerReported.type and i.task == name)]


@on(ValidationStarted)
def _validation_started(state: RunState, _: Line, event: ValidationStarted) -> None:
    task = _task(state, event.task_id)
    task.tree, task.head, task.merging, task.checks = event.tree, event.head, event.merging, []


@on(ValidatorFinished)
def _validator_finished(state: RunState, _: Line, event: ValidatorFinished) -> None:
    _checked(_task(state, event.task_id), Check(event.name, event.passed, event.output, event.problem, event.flaky))


def _checked(task: Task, check: Check) -> None:
    task.checks = [*(other for other in task.checks if other.name != check.name), check]


@on(ValidationFinished)
def _validation_finished(state: RunState, _: Line, event: ValidationFinished) -> None:
    task = _task(state, event.task_id)
    task.tree = event.tree or task.tree
    if event.passed:
        task.stage = Stage.COMMIT if task.recheck in VERDICT_STANDS else Stage.EVALUATE
    else:
        _next_iteration(state, task)


@on(CommitChanged)
def _commit_changed(state: RunState, _: Line, event: CommitChanged) -> None:
    task = _task(state, event.task_id)
    task.tree, task.head, task.merging = event.tree, event.commit, None
    task.unchecked, task.recheck = event.commit, event.reason
    task.stage, task.conflicts = Stage.VALIDATE, []


@on(CommitRefused)
def _commit_refused(state: RunState, _: Line, event: CommitRefused) -> None:
    task = _task(state, event.task_id)
    task.hook_refused = event.tree
    _checked(task, Check(COMMIT_HOOK, passed=False, output=event.output))
    _next_iteration(state, task)


@on(VerdictGiven)
def _verdict_given(state: RunState, line: Line, event: VerdictGiven) -> None:
    task = _task(state, event.task_id)
    task.evaluations += 1
    task.evaluator = None  # the next case is for one who has not seen this
    task.verdicts.append(
        Verdict(
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
    del task.verdicts[:-_VERDICTS]
    if event.accept:
        task.stage = Stage.COMMIT
    else:
        _next_iteration(state, task)


@on(IterationEnded)
def _iteration_ended(state: RunState, _: Line, event: IterationEnded) -> None:
    task = _task(state, event.task_id)
    task.evaluator = None  # whoever was judging judged what came to nothing
    _next_iteration(state, task, event.reason)


@on(TaskCommitted)
def _task_committed(state: RunState, _: Line, event: TaskCommitted) -> None:
    task = _task(state, event.task_id)
    task.commit = event.commit
    task.unchecked = task.recheck = task.hook_refused = None
    task.conflicts = []
    task.stage = Stage.MERGE if event.commit is not None else Stage.COMPLETE


@on(MergeConflicted)
def _merge_conflicted(state: RunState, _: Line, event: MergeConflicted) -> None:
    task = _task(state, event.task_id)
    task.conflicts = event.files
    task.conflicted += 1
    _next_iteration(state, task)


def _task(state: RunState, name: str | int) -> Task:
    return state.tasks.setdefault(str(name), Task())


def _moved(state: RunState, task_id: str | int, status: TaskStatus) -> Task:
    """The task in its new status. An earlier failure of it no longer stands: the task went on since."""
    name = str(task_id)
    state.issues = [i for i in state.issues if not (i.type == TaskFailed.type and i.task == name)]
    task = state.tasks.setdefault(name, Task())
    task.status, task.error, task.attempts, task.reason = status, None, None, None
    return task


@on(WaveStarted)
def _wave_started(state: RunState, _: Line, event: WaveStarted) -> None:
    _wave(state, event.wave).started = True


@on(WaveCompleted)
def _wave_completed(state: RunState, _: Line, event: WaveCompleted) -> None:
    _wave(state, event.wave).completed = True


def _wave(state: RunState, number: int) -> Wave:
    if state.plan is None:
        state.plan = Plan()
    return state.plan.waves.setdefault(number, Wave())
