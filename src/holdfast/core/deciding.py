"""What a run does next: chosen from its state alone, without doing any of it.

Asked again after everything that happens, it never remembers: so a run that was cut off anywhere goes on by the same
rules by which it would have gone on without that. Each task moves through its stages; waves follow each other; within
a wave the merges keep the plan's order.
"""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import NamedTuple

from holdfast.core.events.issue import BlockerReported
from holdfast.core.state import Conversation, OpenMessage, RunState, Stage, Task, TaskStatus
from holdfast.core.workflow import Bounds, Workflow

USER_MESSAGE = "user"  # the kind of a message that is words for an agent
ASKED_FOR_VERDICT = 3  # times, before it is made up

_SETTLED = (TaskStatus.COMPLETE, TaskStatus.SKIPPED)
_CUT_OFF = ("interrupted", "cancelled")
_CAPS = ("iter_cap", "evaluator_cap", "no_case")
_SPOKE = ("end_turn", "max_tokens", "max_turn_requests")


class Do(StrEnum):
    START = "start"
    WORK = "work"
    TAKE_AS_DONE = "take as done"  # the worker need not argue that it is
    END_ITERATION = "end iteration"
    VALIDATE = "validate"
    EVALUATE = "evaluate"
    JUDGE = "judge"  # in the place of an evaluator that gives no verdict
    COMMIT = "commit"
    MERGE = "merge"
    COMPLETE = "complete"
    FAIL = "fail"
    REOPEN = "reopen"
    CLOSE_WAVE = "close wave"
    STOP = "stop"


class How(StrEnum):
    """What an agent is told."""

    BEGIN = "begin"
    AGAIN = "again"
    RESOLVE = "resolve"
    NUDGE = "nudge"
    GO_ON = "go on"
    MESSAGE = "message"


class Action(NamedTuple):
    do: Do
    task: str | None = None
    how: How | None = None
    reason: str | None = None
    wave: int | None = None


class Facts(NamedTuple):
    """What the log does not tell: the tasks that are being acted on, those that cannot be, the sitting's seconds."""

    busy: frozenset[str] = frozenset()
    stuck: frozenset[str] = frozenset()
    elapsed: float = 0.0


AT_REST = Facts()


def decide(state: RunState, workflow: Workflow, bounds: Bounds, facts: Facts = AT_REST) -> list[Action]:
    """Everything that can be done now. Nothing, while all there is to do is under way."""
    spent = _spent(state, bounds, facts)
    if spent is not None:
        return [Action(Do.STOP, reason=spent)]
    actions = list(_moves(state, workflow, bounds, facts))
    if actions or facts.busy:
        return actions
    wanting = _asked_for_more(state)
    if wanting is not None:
        return [Action(Do.REOPEN, wanting, reason="there is a message for it")]
    return [Action(Do.STOP, reason=_outcome(state))]


def _spent(state: RunState, bounds: Bounds, facts: Facts) -> str | None:
    budget = state.budget
    if bounds.wall_clock is not None and facts.elapsed >= bounds.wall_clock:
        return "wall_clock"
    if bounds.tokens is not None and budget.input_tokens + budget.output_tokens >= bounds.tokens:
        return "token_cap"
    if bounds.dollars is not None and budget.dollars >= bounds.dollars:
        return "cost_cap"
    return None


def _moves(state: RunState, workflow: Workflow, bounds: Bounds, facts: Facts) -> Iterator[Action]:
    """The moves of the first wave in which there are any. One that is stuck does not hold up those after it."""
    plan = state.plan
    if plan is None:
        return
    for number, wave in sorted(plan.waves.items()):
        if wave.completed and all(_status(state, name) in _SETTLED for name in wave.task_ids):
            continue
        if all(_status(state, name) in _SETTLED for name in wave.task_ids):
            yield Action(Do.CLOSE_WAVE, wave=number)
            return
        moves = list(_wave(state, wave.task_ids, workflow, bounds, facts))
        yield from moves if wave.started else _first_of_wave(moves, number)
        if moves or facts.busy.intersection(wave.task_ids):
            return


def _first_of_wave(moves: list[Action], number: int) -> Iterator[Action]:
    """The first start of a wave starts the wave too."""
    for move in moves:
        yield move._replace(wave=number) if move.do is Do.START and number else move
        number = 0 if move.do is Do.START else number


def _wave(state: RunState, names: list[str], workflow: Workflow, bounds: Bounds, facts: Facts) -> Iterator[Action]:
    open_slots = bounds.parallel - sum(_takes_a_slot(state.tasks.get(name)) for name in names)
    in_order = True  # every task before this one has merged, or never will
    for name in names:
        task = state.tasks.get(name) or Task()
        if task.status is TaskStatus.IN_PROGRESS and name not in facts.busy | facts.stuck:
            move = _next(state, name, task, workflow, bounds)
            if move is not None and (move.do is not Do.MERGE or in_order):
                yield move
        elif task.status is TaskStatus.PENDING and open_slots > 0 and _can_start(state, name):
            open_slots -= 1
            yield Action(Do.START, name)
        in_order = in_order and not _may_still_merge(state, name, task)


def _takes_a_slot(task: Task | None) -> bool:
    return task is not None and task.status is TaskStatus.IN_PROGRESS and task.stage is not Stage.MERGE


def _can_start(state: RunState, name: str) -> bool:
    needed = state.plan.blocked_by.get(name, []) if state.plan is not None else []
    return all(_status(state, other) in _SETTLED for other in needed)


def _may_still_merge(state: RunState, name: str, task: Task) -> bool:
    if task.status is TaskStatus.PENDING:
        return _can_start(state, name)
    return task.status is TaskStatus.IN_PROGRESS and task.stage is not Stage.COMPLETE


def _next(state: RunState, name: str, task: Task, workflow: Workflow, bounds: Bounds) -> Action | None:
    """The next step of a task that nobody is at."""
    match task.stage:
        case Stage.WORK:
            return _work(state, name, task, workflow, bounds)
        case Stage.VALIDATE:
            return Action(Do.VALIDATE, name)
        case Stage.EVALUATE if workflow.evaluate and not task.conflicts:
            return _evaluate(state, name, task, bounds)
        case Stage.EVALUATE | Stage.COMMIT:
            return Action(Do.COMMIT, name)
        case Stage.MERGE:
            return Action(Do.MERGE, name)
        case Stage.COMPLETE:
            return Action(Do.COMPLETE, name)


def _work(state: RunState, name: str, task: Task, workflow: Workflow, bounds: Bounds) -> Action | None:
    hopeless = _hopeless(state, name, task, bounds)
    if hopeless is not None:
        return Action(Do.FAIL, name, reason=hopeless)
    worker = state.conversations.get(task.worker or "")
    if worker is None or worker.turns == 0:
        return Action(Do.WORK, name, How.BEGIN)
    if worker.turns <= task.since:
        return Action(Do.WORK, name, _next_words(task))
    if worker.last in _CUT_OFF and not bounds.ask_when_cut_off:
        return Action(Do.WORK, name, How.GO_ON) if worker.cuts < bounds.agent_deaths else None
    if messages_for(state.messages, name):
        return Action(Do.WORK, name, How.MESSAGE)
    return _after_turn(name, task, worker, workflow)


def _hopeless(state: RunState, name: str, task: Task, bounds: Bounds) -> str | None:
    """Why the worker is not asked again."""
    if any(issue.task == name and issue.type == BlockerReported.type for issue in state.issues):
        return "blocked"
    if task.conflicted > bounds.conflict_attempts:
        return "conflicts"
    if task.iteration > bounds.iterations:
        return "no_case" if task.reason == "no_case" else "iter_cap"
    return None


def _after_turn(name: str, task: Task, worker: Conversation, workflow: Workflow) -> Action | None:
    """The worker has said what it had to say."""
    if worker.last in _CUT_OFF:
        return None  # a person is to say how to go on
    if worker.last not in _SPOKE:
        return Action(Do.END_ITERATION, name, reason=worker.last or "unknown")
    if workflow.case and not task.conflicts:
        return Action(Do.END_ITERATION, name, reason="no_case")
    return Action(Do.TAKE_AS_DONE, name)


def _next_words(task: Task) -> How:
    if task.conflicts:
        return How.RESOLVE
    return How.NUDGE if task.reason == "no_case" else How.AGAIN


def _evaluate(state: RunState, name: str, task: Task, bounds: Bounds) -> Action | None:
    if task.evaluations >= bounds.evaluator_calls:
        return Action(Do.FAIL, name, reason="evaluator_cap")
    evaluator = state.conversations.get(task.evaluator or "")
    if evaluator is None or evaluator.state == "completed" or evaluator.turns == 0:
        return Action(Do.EVALUATE, name, How.BEGIN)
    if evaluator.last in _CUT_OFF:
        return Action(Do.EVALUATE, name, How.GO_ON) if evaluator.cuts < bounds.agent_deaths else None
    if _heard_out(evaluator) >= ASKED_FOR_VERDICT:
        return Action(Do.JUDGE, name)
    return Action(Do.EVALUATE, name, How.NUDGE)


def _heard_out(conversation: Conversation) -> int:
    """Turns that came to their end."""
    return conversation.turns - conversation.interrupted_turns


def _asked_for_more(state: RunState) -> str | None:
    """A task that was finished, and that a person now has more to say to."""
    names = state.plan.order if state.plan is not None else []
    done = [name for name in names if _status(state, name) is TaskStatus.COMPLETE]
    named = {message.task for message in state.messages.values() if message.kind == USER_MESSAGE}
    wanted = [name for name in done if name in named]
    if wanted or None not in named:
        return next(iter(wanted), None)
    return done[-1] if done and done[-1] == names[-1] else None


def messages_for(messages: Mapping[str, OpenMessage], task: str) -> list[str]:
    """The words of people that the next prompt to a task's worker takes along: its own, and those for anyone."""
    return [key for key, message in messages.items() if message.kind == USER_MESSAGE and message.task in (None, task)]


def _status(state: RunState, name: str) -> TaskStatus:
    task = state.tasks.get(name)
    return task.status if task is not None else TaskStatus.PENDING


def _outcome(state: RunState) -> str:
    """How a sitting ends in which nothing more can be done."""
    tasks = [state.tasks.get(name) or Task() for name in (state.plan.order if state.plan is not None else [])]
    if all(task.status in _SETTLED for task in tasks):
        return "all_done"
    if any(task.status is TaskStatus.IN_PROGRESS for task in tasks):
        return "waiting" if _waits_for_a_person(state, tasks) else "parked"
    failed = [task.error for task in tasks if task.status is TaskStatus.FAILED]
    return next((error for error in failed if error in _CAPS), "failed")


def _waits_for_a_person(state: RunState, tasks: list[Task]) -> bool:
    workers = [state.conversations.get(task.worker or "") for task in tasks if task.status is TaskStatus.IN_PROGRESS]
    return any(worker is not None and worker.last in _CUT_OFF and not worker.cuts for worker in workers)
