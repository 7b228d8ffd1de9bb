"""What a run does next, chosen from its state alone, without side effects.

It is asked again after every change and remembers nothing, so a run that was interrupted anywhere continues by the same
rules as an uninterrupted run. Each task moves through its stages; waves follow each other; within a wave, merges keep
the plan's order.
"""

from collections.abc import Iterator
from typing import NamedTuple

from holdfast.core.conversation.states import ASKED_AGAIN, ENDED_STATES, FINISHED_TURN_REASONS, UNFINISHED_TURN_REASONS
from holdfast.core.decide.actions import NOTHING_IN_PROGRESS, Action, ActionKey, ActionKind, PromptKind, RuntimeFacts
from holdfast.core.end_reason import TASK_REASONS, EndReason, TaskFailure
from holdfast.core.events.issue import BlockerReported
from holdfast.core.messages.addressing import messages_for, shared_addresses
from holdfast.core.messages.schema import MessageKind
from holdfast.core.state import Conversation, EffectStatus, RunState, Task, TaskStage, TaskStatus
from holdfast.core.work.workflow import Bounds, Workflow

MAX_VERDICT_PROMPTS = 3  # before Holdfast makes up a rejection
MAX_EMPTY_TURNS = 3  # in a row, before an agent gets no more prompts

_DONE_STATUSES = (TaskStatus.COMPLETE, TaskStatus.SKIPPED)
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
    if bounds.dollars is not None and (budget.dollars or 0.0) >= bounds.dollars:
        return EndReason.COST_CAP
    return None


def _task_actions(view: _View) -> Iterator[Action]:
    """The actions of the first wave that has any, and of tasks in later waves that have begun.

    A stuck wave does not block later ones, but waves are closed in order: a checkpoint includes everything before it.
    Merges happen one at a time. Merges and completions need no agent, so they do not count against `parallel`.
    """
    state, facts = view.state, view.facts
    at_work = [task.stage for name in facts.busy_tasks if (task := state.tasks.get(name)) is not None]
    merging = TaskStage.MERGE in at_work
    places = view.bounds.parallel - sum(stage not in _STAGES_WITHOUT_AGENT for stage in at_work)
    moving = behind = False
    for number, wave in sorted(state.plan.waves.items() if state.plan is not None else ()):
        if wave.completed:  # reopening one of its tasks reopens the wave
            continue
        if all(_status(state, name) in _DONE_STATUSES for name in wave.task_ids):
            closing = Action(ActionKind.CLOSE_WAVE, wave=number)
            if behind or closing.key in facts.stuck:
                continue
            if closing.key not in facts.busy:
                yield closing
            return
        behind = True  # later waves cannot be closed before this one
        moves = [move for move in _wave_actions(view, wave.task_ids) if not (moving and move.kind is ActionKind.START)]
        at_it = facts.busy_tasks.intersection(wave.task_ids)
        starting = any(_status(state, name) is TaskStatus.PENDING for name in at_it)
        for move in moves if wave.started or starting else _with_wave_start(moves, number):
            if move.kind is ActionKind.MERGE and not merging:
                merging = True
                yield move
            elif move.kind is ActionKind.COMPLETE:
                yield move
            elif move.kind is not ActionKind.MERGE and places > 0:
                places -= 1
                yield move
        moving = moving or bool(moves) or bool(at_it)


def _with_wave_start(actions: list[Action], wave: int) -> Iterator[Action]:
    """The first task start of a wave also starts the wave."""
    for move in actions:
        yield move._replace(wave=wave) if move.kind is ActionKind.START and wave else move
        wave = 0 if move.kind is ActionKind.START else wave


def _wave_actions(view: _View, task_ids: list[str]) -> Iterator[Action]:
    """The next action of each task of a wave, started tasks first. Only the first unmerged task may merge."""
    state = view.state
    moves = {name: _task_action(view, name) for name in task_ids}
    moving = [name for name in task_ids if moves[name] is not None or view.facts.is_busy(name)]
    first = next((name for name in moving if _is_unmerged(state.tasks.get(name))), None)
    for name in sorted(task_ids, key=lambda name: _status(state, name) is TaskStatus.PENDING):
        move = moves[name]
        if move is not None and (move.kind is not ActionKind.MERGE or name == first):
            yield move


def _task_action(view: _View, task_id: str) -> Action | None:
    """The next action of a task, ignoring `parallel`; None when there is none or a person must act first."""
    task = view.state.tasks.get(task_id) or Task()
    if view.facts.is_busy(task_id) or view.facts.is_stuck(task_id) or _has_unknown_effect(view.state, task_id):
        return None
    if task.status is TaskStatus.IN_PROGRESS:
        return _next_step(view, task_id, task)
    if task.status is TaskStatus.PENDING and _can_start(view.state, task_id):
        return Action(ActionKind.START, task_id)
    return None


def _has_unknown_effect(state: RunState, task_id: str) -> bool:
    """Whether a task has an effect with an unknown outcome. Holdfast never guesses: a person must check first."""
    return any(left.task == task_id and left.status is EffectStatus.UNKNOWN for left in state.effects.values())


def _can_start(state: RunState, task_id: str) -> bool:
    needed = state.plan.blocked_by.get(task_id, []) if state.plan is not None else []
    return all(_status(state, other) in _DONE_STATUSES for other in needed)


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
    return any(item.conversation == conversation_id and not item.answered for item in state.research.values())


def _failure_reason(view: _View, task_id: str, task: Task) -> str | None:
    """Why the worker gets no more prompts; None when it does."""
    bounds = view.bounds
    if any(issue.task == task_id and issue.type == BlockerReported.type for issue in view.state.issues):
        return TaskFailure.BLOCKED
    if view.workflow.evaluate and not task.conflicts and task.evaluations >= bounds.evaluator_calls:
        return EndReason.EVALUATOR_CAP  # no evaluation is left for further work
    if task.conflicted > bounds.conflict_attempts:
        return TaskFailure.CONFLICTS
    if is_silent(view.state.conversations.get(task.worker or "")):
        return EndReason.EMPTY_RESPONSES
    if task.iteration - task.conflicted > bounds.iterations:
        without_result = (EndReason.NO_CASE, EndReason.EMPTY_RESPONSES)
        return EndReason(task.reason) if task.reason in without_result else EndReason.ITERATION_CAP
    return None


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
    state = view.state
    names = [n for n in _planned_task_ids(state) if _status(state, n) is not TaskStatus.SKIPPED]
    done = [n for n in names if _status(state, n) is TaskStatus.COMPLETE and not view.facts.is_stuck(n)]
    named = {message.task for message in state.messages.values() if message.kind == MessageKind.USER}
    wanted = [name for name in done if name in named]
    if wanted or named.isdisjoint(shared_addresses(state, view.workflow)):
        return next(iter(wanted), None)
    return done[-1] if done and done[-1] == names[-1] else None


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
    tasks = view.state.tasks
    return next(
        (
            name
            for name in _planned_task_ids(view.state)
            if name in tasks and _can_receive_messages(view, name, tasks[name])
        ),
        None,
    )


def _can_receive_messages(view: _View, task_id: str, task: Task) -> bool:
    if task.status is not TaskStatus.IN_PROGRESS or task.stage is not TaskStage.WORK or view.facts.is_stuck(task_id):
        return False
    worker = view.state.conversations.get(task.worker or "")
    return worker is None or view.bounds.ask_when_interrupted or worker.cuts < view.bounds.agent_deaths


def _planned_task_ids(state: RunState) -> list[str]:
    return state.plan.order if state.plan is not None else []


def _status(state: RunState, task_id: str) -> TaskStatus:
    task = state.tasks.get(task_id)
    return task.status if task is not None else TaskStatus.PENDING


def _is_done(state: RunState) -> bool:
    return state.plan is not None and all(_status(state, name) in _DONE_STATUSES for name in state.plan.order)


def _end_reason(view: _View) -> EndReason:
    """Why the session ends when no action is left."""
    state = view.state
    if state.plan is None:
        return EndReason.NO_PLAN
    if _is_done(state) and not view.facts.stuck:
        return EndReason.ALL_DONE
    begun = [state.tasks[name] for name in _planned_task_ids(state) if _status(state, name) is TaskStatus.IN_PROGRESS]
    if begun or view.facts.stuck:
        unclear = any(_has_unknown_effect(state, name) for name in _planned_task_ids(state))
        waits = unclear or any(_waits_for_a_person(view, task) for task in begun)
        return EndReason.WAITING if waits else EndReason.PARKED
    failed = [task.error for name in _planned_task_ids(state) if (task := state.tasks.get(name)) is not None]
    return next((EndReason(error) for error in failed if error in TASK_REASONS), EndReason.FAILED)


def _waits_for_a_person(view: _View, task: Task) -> bool:
    worker = view.state.conversations.get(task.worker or "")
    if worker is None or task.stage is not TaskStage.WORK:
        return False
    return was_interrupted(worker) and _needs_a_person(view, worker)
