"""What a run does next, chosen from its state alone, without side effects.

It is asked again after every change and remembers nothing, so a run that was interrupted anywhere continues by the same
rules as an uninterrupted run. Each task moves through its stages; waves follow each other; within a wave, merges keep
the plan's order.
"""

from collections.abc import Collection, Iterator
from itertools import islice
from typing import NamedTuple

from holdfast.core.conversation.states import (
    ASKED_AGAIN,
    ENDED_STATES,
    FINISHED_TURN_REASONS,
    REFUSAL,
    UNFINISHED_TURN_REASONS,
)
from holdfast.core.decide.actions import NOTHING_IN_PROGRESS, Action, ActionKey, ActionKind, PromptKind, RuntimeFacts
from holdfast.core.decide.paused import is_paused
from holdfast.core.end_reason import TASK_REASONS, EndReason, TaskFailure
from holdfast.core.events.issue import BlockerReported
from holdfast.core.messages.addressing import messages_for, shared_addresses
from holdfast.core.messages.schema import MessageKind
from holdfast.core.state import Conversation, EffectStatus, RunState
from holdfast.core.task_index import TaskIndex, WaveIndex, open_research, task_index
from holdfast.core.task_state import Task, TaskStage, TaskStatus
from holdfast.core.work.workflow import Bounds, Workflow

MAX_VERDICT_PROMPTS = 3  # before Holdfast makes up a rejection
MAX_EMPTY_TURNS = 3  # in a row, before an agent gets no more prompts

_STAGES_WITHOUT_AGENT = (TaskStage.MERGE, TaskStage.COMPLETE)


class _View(NamedTuple):
    """All inputs of a decision."""

    state: RunState
    workflow: Workflow
    bounds: Bounds
    facts: RuntimeFacts


def decide(
    state: RunState, workflow: Workflow, bounds: Bounds, facts: RuntimeFacts = NOTHING_IN_PROGRESS
) -> list[Action]:
    """All actions that can start now, each key once. Empty while everything is in progress."""
    view = _View(state, workflow, bounds, facts)
    why = exceeded_cap(state, bounds, facts)
    if why is not None and not _is_done(state):
        return [Action(ActionKind.STOP, reason=why)]
    chosen: dict[ActionKey, Action] = {}
    for move in _task_actions(view):
        chosen.setdefault(move.key, move)
    actions = [*chosen.values()]
    if actions or facts.busy:
        return actions
    wanting = _task_to_reopen(view)
    if wanting is not None:
        return [Action(ActionKind.REOPEN, wanting, reason="there is a message for it")]
    return [Action(ActionKind.STOP, reason=_end_reason(view))]


def exceeded_cap(state: RunState, bounds: Bounds, facts: RuntimeFacts) -> str | None:
    """The limit that is reached; None when there is none."""
    budget = state.budget
    if bounds.wall_clock is not None and facts.elapsed_s >= bounds.wall_clock:
        return EndReason.WALL_CLOCK
    if bounds.tokens is not None and budget.input_tokens + budget.output_tokens >= bounds.tokens:
        return EndReason.TOKEN_CAP
    if bounds.dollars is not None and (budget.dollars or 0.0) + (budget.estimate or 0.0) >= bounds.dollars:
        return EndReason.COST_CAP
    return None


def is_over_budget(task: Task, bounds: Bounds) -> bool:
    """Whether a task has spent what one task may spend."""
    if bounds.task_tokens is not None and task.tokens >= bounds.task_tokens:
        return True
    return bounds.task_dollars is not None and task.dollars >= bounds.task_dollars


def _task_actions(view: _View) -> Iterator[Action]:
    """The actions of the first wave that has any, and of tasks in later waves that have begun.

    A stuck wave does not block later ones, but waves are closed in order: a checkpoint includes everything before it.
    Merges happen one at a time. Merges and completions need no agent, so they do not count against `parallel`.
    """
    closing = _wave_to_close(view)
    if closing is not None:
        if closing.key not in view.facts.busy:
            yield closing
        return
    at_work = [task.stage for name in view.facts.busy_tasks if (task := view.state.tasks.get(name)) is not None]
    merging = TaskStage.MERGE in at_work
    places = view.bounds.parallel - sum(stage not in _STAGES_WITHOUT_AGENT for stage in at_work)
    for move in _moves_by_wave(view, places):
        if move.kind is ActionKind.MERGE and not merging:
            merging = True
            yield move
        elif move.kind is ActionKind.COMPLETE:
            yield move
        elif move.kind is not ActionKind.MERGE and places > 0:
            places -= 1
            yield move


def _wave_to_close(view: _View) -> Action | None:
    """Close the first finished wave that is not stuck, if every wave before it is finished."""
    index = task_index(view.state)
    unfinished = index.unfinished_waves.first()
    for number in index.finished_waves:
        if unfinished is not None and unfinished < number:
            return None
        closing = Action(ActionKind.CLOSE_WAVE, wave=number)
        if closing.key not in view.facts.stuck:
            return closing
    return None


def _moves_by_wave(view: _View, places: int) -> Iterator[Action]:
    """What the tasks of each unfinished wave can do next. Tasks start only while no earlier wave has anything to do."""
    index = task_index(view.state)
    busy: dict[int, set[str]] = {}
    for task_id in view.facts.busy_tasks:
        for wave in index.waves_of(task_id):
            busy.setdefault(wave, set()).add(task_id)
    number: int | None = None
    moving = False
    while (number := _next_wave(index, busy, number, with_ready=not moving)) is not None:
        if number not in index.unfinished_waves or view.state.plan is None:
            continue
        at_it = busy.get(number, set())
        moves = [*_wave_actions(view, index.waves[number], at_it, max(places, 0) + 1, can_start=not moving)]
        starting = any(_status(view.state, task_id) is TaskStatus.PENDING for task_id in at_it)
        started = view.state.plan.waves[number].started or starting
        yield from moves if started else _with_wave_start(moves, number)
        moving = moving or bool(moves) or bool(at_it)


def _next_wave(index: TaskIndex, busy: Collection[int], number: int | None, *, with_ready: bool) -> int | None:
    """The next wave to look at: one with tasks in progress, actions in progress, or ready tasks."""
    found = (index.next_wave(number, with_ready=with_ready), *(n for n in busy if number is None or n > number))
    return min((wave for wave in found if wave is not None), default=None)


def _with_wave_start(actions: list[Action], wave: int) -> Iterator[Action]:
    """The first task start of a wave also starts the wave."""
    for move in actions:
        yield move._replace(wave=wave) if move.kind is ActionKind.START and wave else move
        wave = 0 if move.kind is ActionKind.START else wave


def _wave_actions(
    view: _View, wave: WaveIndex, busy: Collection[str], most_starts: int, *, can_start: bool
) -> Iterator[Action]:
    """The next action of each task of a wave, started tasks first. Only the first unmerged task may merge.

    It looks at the first `most_starts` tasks that can start, and at no task that is done or waits for another.
    """
    started = sorted({*wave.in_progress, *(wave.positions[task_id] for task_id in busy)})
    moves = {place: _task_action(view, wave.task_ids[place]) for place in started}
    starts = dict(islice(_starts(view, wave, busy), most_starts))
    moving = [place for place in started if moves[place] is not None or wave.task_ids[place] in busy]
    unmerged = (place for place in moving if _is_unmerged(view.state.tasks.get(wave.task_ids[place])))
    first = min((*islice(unmerged, 1), *islice(starts, 1)), default=None)
    for place, move in moves.items():
        if move is not None and (move.kind is not ActionKind.MERGE or place == first):
            yield move
    if can_start:
        yield from starts.values()


def _starts(view: _View, wave: WaveIndex, busy: Collection[str]) -> Iterator[tuple[int, Action]]:
    """The starts of ready tasks that are not in progress or stuck, each with its place in the wave."""
    for place in wave.ready:
        move = _task_action(view, wave.task_ids[place]) if wave.task_ids[place] not in busy else None
        if move is not None:
            yield place, move


def _task_action(view: _View, task_id: str) -> Action | None:
    """The next action of a task, ignoring `parallel`; None when there is none or a person must act first."""
    task = view.state.tasks.get(task_id) or Task()
    if view.facts.is_busy(task_id) or view.facts.is_stuck(task_id) or _has_unknown_effect(view.state, task_id):
        return None
    action = None
    if task.status is TaskStatus.IN_PROGRESS:
        action = _next_step(view, task_id, task)
    elif task.status is TaskStatus.PENDING and task_index(view.state).is_ready(task_id):
        action = Action(ActionKind.START, task_id)
    if action is None or is_paused(view.state, view.workflow, view.facts, action):
        return None
    return action


def _has_unknown_effect(state: RunState, task_id: str) -> bool:
    """Whether a task has an effect with an unknown outcome. Holdfast never guesses: a person must check first."""
    return any(left.task == task_id and left.status is EffectStatus.UNKNOWN for left in state.effects.values())


def _is_unmerged(task: Task | None) -> bool:
    if task is None or task.status is TaskStatus.PENDING:
        return True
    return task.status is TaskStatus.IN_PROGRESS and task.stage is not TaskStage.COMPLETE


def _next_step(view: _View, task_id: str, task: Task) -> Action | None:
    """The next step of a task that has no action in progress."""
    match task.stage:
        case TaskStage.WORK:
            return _work_step(view, task_id, task)
        case TaskStage.VALIDATE:
            return Action(ActionKind.VALIDATE, task_id)
        case TaskStage.EVALUATE if view.workflow.evaluate and not task.conflicts:
            return _evaluation_step(view, task_id, task)
        case TaskStage.EVALUATE | TaskStage.COMMIT:
            return Action(ActionKind.COMMIT, task_id)
        case TaskStage.MERGE:
            return Action(ActionKind.MERGE, task_id)
        case TaskStage.COMPLETE if _did_nothing_after_refusals(view, task):
            return Action(ActionKind.FAIL, task_id, reason=EndReason.REFUSED)
        case TaskStage.COMPLETE:
            return Action(ActionKind.COMPLETE, task_id)


def _did_nothing_after_refusals(view: _View, task: Task) -> bool:
    """Whether the worker had denied tool calls and changed nothing: the task failed, unless an evaluator accepted it.

    A task that changes nothing without a denial, such as an explanation, is done.
    """
    return task.commit is None and task.refused > 0 and not view.workflow.evaluate


def _work_step(view: _View, task_id: str, task: Task) -> Action | None:
    hopeless = _failure_reason(view, task_id, task)
    if hopeless is not None:
        return Action(ActionKind.FAIL, task_id, reason=hopeless)
    worker = view.state.conversations.get(task.worker or "")
    if worker is None or worker.turns == 0:
        return Action(ActionKind.WORK, task_id, PromptKind.RESOLVE_CONFLICTS if task.conflicts else PromptKind.BEGIN)
    if worker.turns <= task.since:
        return Action(ActionKind.WORK, task_id, _next_prompt(task))
    if was_interrupted(worker) and not _needs_a_person(view, worker):
        return Action(ActionKind.WORK, task_id, PromptKind.CONTINUE) if worker.cuts < view.bounds.agent_deaths else None
    if _has_message_to_deliver(view, task_id):
        return Action(ActionKind.WORK, task_id, PromptKind.MESSAGE)
    if was_interrupted(worker) or awaits_research(view.state, task.worker):
        return None  # it waits for a person's decision or for a research answer
    return _step_after_turn(task_id, task, worker, view.workflow)


def attempts_of(state: RunState, task_id: str) -> int:
    """The number of iterations that were worked on. An iteration that a limit ended before any turn does not count."""
    task = state.tasks.get(task_id)
    if task is None:
        return 0
    worker = state.conversations.get(task.worker or "")
    untouched = task.stage is TaskStage.WORK and (worker is None or worker.turns <= task.since)
    return max(0, task.iteration - untouched)


def was_interrupted(conversation: Conversation) -> bool:
    """Whether its last turn was interrupted, or never ended although no action is in progress."""
    return conversation.turn is not None or conversation.last in UNFINISHED_TURN_REASONS


def was_refused(conversation: Conversation) -> bool:
    """Whether its agent answered the last prompt with an error or had no reporting tools."""
    return conversation.turn is None and conversation.last in ASKED_AGAIN


def _needs_a_person(view: _View, worker: Conversation) -> bool:
    """Whether a person decides about the interrupted turn. A prompt that got an error is simply repeated."""
    return view.bounds.ask_when_interrupted and not was_refused(worker)


def awaits_research(state: RunState, conversation_id: str | None) -> bool:
    """Whether it requested research that has no answer yet."""
    return any(item.conversation == conversation_id for item in open_research(state).values())


def _failure_reason(view: _View, task_id: str, task: Task) -> str | None:
    """Why the worker gets no more prompts; None when it does."""
    bounds = view.bounds
    if any(issue.task == task_id and issue.type == BlockerReported.type for issue in view.state.issues):
        return TaskFailure.BLOCKED
    if is_over_budget(task, bounds) and _wants_prompt(view, task_id, task):
        return EndReason.TASK_BUDGET
    if view.workflow.evaluate and not task.conflicts and task.evaluations >= bounds.evaluator_calls:
        return EndReason.EVALUATOR_CAP  # no evaluation is left for further work
    if task.conflicted > bounds.conflict_attempts:
        return TaskFailure.CONFLICTS
    if is_silent(view.state.conversations.get(task.worker or "")):
        return EndReason.EMPTY_RESPONSES
    if _has_declined(view, task_id, task):
        return EndReason.DECLINED
    if task.iteration - task.conflicted > bounds.iterations:
        without_result = (EndReason.NO_CASE, EndReason.EMPTY_RESPONSES)
        return EndReason(task.reason) if task.reason in without_result else EndReason.ITERATION_CAP
    return None


def _wants_prompt(view: _View, task_id: str, task: Task) -> bool:
    """Whether the next step of the worker is another prompt, and not the check of what it has done."""
    worker = view.state.conversations.get(task.worker or "")
    if worker is None or worker.turns <= task.since or was_interrupted(worker):
        return True
    return _has_message_to_deliver(view, task_id)


def _has_declined(view: _View, task_id: str, task: Task) -> bool:
    """Whether its worker's model declined the last prompt of this attempt, and no message waits to change that."""
    worker = view.state.conversations.get(task.worker or "")
    if (
        view.workflow.chat
        or worker is None
        or worker.turns <= task.since
        or worker.turn is not None
        or worker.last != REFUSAL
    ):
        return False
    return not _has_message_to_deliver(view, task_id)


def is_silent(conversation: Conversation | None) -> bool:
    """Whether its agent had too many empty turns in a row."""
    return conversation is not None and conversation.empty >= MAX_EMPTY_TURNS


def _step_after_turn(task_id: str, task: Task, worker: Conversation, workflow: Workflow) -> Action:
    """The next step after a finished turn of the worker."""
    if worker.last not in FINISHED_TURN_REASONS:
        return Action(ActionKind.END_ITERATION, task_id, reason=worker.last or "unknown")
    if worker.empty:
        return Action(ActionKind.END_ITERATION, task_id, reason=EndReason.EMPTY_RESPONSES)
    if workflow.case and not task.conflicts:
        return Action(ActionKind.END_ITERATION, task_id, reason=EndReason.NO_CASE)
    return Action(ActionKind.ACCEPT_WITHOUT_CASE, task_id)


def _next_prompt(task: Task) -> PromptKind:
    if task.conflicts:
        return PromptKind.RESOLVE_CONFLICTS
    return (
        PromptKind.NUDGE if task.reason in (EndReason.NO_CASE, EndReason.EMPTY_RESPONSES) else PromptKind.NEXT_ITERATION
    )


def _evaluation_step(view: _View, task_id: str, task: Task) -> Action | None:
    if task.evaluations >= view.bounds.evaluator_calls:
        return Action(ActionKind.FAIL, task_id, reason=EndReason.EVALUATOR_CAP)
    if is_over_budget(task, view.bounds):
        return Action(ActionKind.FAIL, task_id, reason=EndReason.TASK_BUDGET)
    evaluator = view.state.conversations.get(task.evaluator or "")
    if evaluator is None or evaluator.state in ENDED_STATES or evaluator.turns == 0:
        return Action(ActionKind.EVALUATE, task_id, PromptKind.BEGIN)
    if was_interrupted(evaluator):
        return (
            Action(ActionKind.EVALUATE, task_id, PromptKind.CONTINUE)
            if evaluator.cuts < view.bounds.agent_deaths
            else None
        )
    if is_silent(evaluator):
        return Action(ActionKind.FAIL, task_id, reason=EndReason.EMPTY_RESPONSES)
    if finished_turns(evaluator) >= MAX_VERDICT_PROMPTS:
        return Action(ActionKind.SYNTHESIZE_VERDICT, task_id)
    return Action(ActionKind.EVALUATE, task_id, PromptKind.NUDGE)


def finished_turns(conversation: Conversation) -> int:
    """The number of turns that finished."""
    return conversation.turns - conversation.interrupted_turns


def _task_to_reopen(view: _View) -> str | None:
    """A completed task that has a new message from a person."""
    state, index = view.state, task_index(view.state)
    named = {message.task for message in state.messages.values() if message.kind == MessageKind.USER}
    wanted = [name for name in named if name is not None and index.is_planned(name) and _is_complete(view, name)]
    if wanted or named.isdisjoint(shared_addresses(state, view.workflow)):
        return min(wanted, key=index.positions.__getitem__, default=None)
    last = next((name for name in reversed(index.order) if _status(state, name) is not TaskStatus.SKIPPED), None)
    return last if last is not None and _is_complete(view, last) else None


def _is_complete(view: _View, task_id: str) -> bool:
    return _status(view.state, task_id) is TaskStatus.COMPLETE and not view.facts.is_stuck(task_id)


def _has_message_to_deliver(view: _View, task_id: str) -> bool:
    """Whether its worker has a message. Messages for any worker go to the first one only, so they arrive once."""
    messages, anyone = view.state.messages, shared_addresses(view.state, view.workflow)
    addresses = {messages[key].task for key in messages_for(messages, task_id, anyone)}
    to_anyone = not addresses.isdisjoint(anyone)
    return task_id in addresses or (
        to_anyone and _receiver_of_shared_messages(view) == task_id and not _is_prompt_pending(view)
    )


def _is_prompt_pending(view: _View) -> bool:
    """Whether a worker is about to get a prompt, which will deliver the messages for any worker."""
    state = view.state
    in_progress = [task for name in view.facts.busy_tasks if (task := state.tasks.get(name)) is not None]
    workers = [state.conversations.get(task.worker or "") for task in in_progress if task.stage is TaskStage.WORK]
    return any(worker is None or worker.turn is None for worker in workers)


def _receiver_of_shared_messages(view: _View) -> str | None:
    names = _tasks_in_progress(view.state)
    return next((name for name in names if _can_receive_messages(view, name, view.state.tasks[name])), None)


def _can_receive_messages(view: _View, task_id: str, task: Task) -> bool:
    if task.stage is not TaskStage.WORK or view.facts.is_stuck(task_id):
        return False
    worker = view.state.conversations.get(task.worker or "")
    return worker is None or view.bounds.ask_when_interrupted or worker.cuts < view.bounds.agent_deaths


def _tasks_in_progress(state: RunState) -> Iterator[str]:
    """The planned tasks that are in progress, in the plan's order."""
    index = task_index(state)
    return (index.order[position] for position in index.in_progress)


def _status(state: RunState, task_id: str) -> TaskStatus:
    task = state.tasks.get(task_id)
    return task.status if task is not None else TaskStatus.PENDING


def _is_done(state: RunState) -> bool:
    return state.plan is not None and task_index(state).is_done()


def _end_reason(view: _View) -> EndReason:
    """Why the session ends when no action is left."""
    state = view.state
    if state.plan is None:
        return EndReason.NO_PLAN
    if _is_done(state) and not view.facts.stuck:
        return EndReason.ALL_DONE
    index = task_index(state)
    if index.in_progress or view.facts.stuck:
        effects = (effect for effect in state.effects.values() if effect.status is EffectStatus.UNKNOWN)
        unclear = any(effect.task is not None and index.is_planned(effect.task) for effect in effects)
        waits = unclear or any(_waits_for_a_person(view, state.tasks[name]) for name in _tasks_in_progress(state))
        return EndReason.WAITING if waits else EndReason.PARKED
    errors = (state.tasks[index.order[position]].error for position in index.failed)
    return next((EndReason(error) for error in errors if error in TASK_REASONS), EndReason.FAILED)


def _waits_for_a_person(view: _View, task: Task) -> bool:
    worker = view.state.conversations.get(task.worker or "")
    if worker is None or task.stage is not TaskStage.WORK:
        return False
    return was_interrupted(worker) and _needs_a_person(view, worker)
