"""The plain definition of `decide.tasks`: it looks at every task of the plan, in every wave, each time.

The real one finds the same actions through an index of the tasks that can move. Tests hold the two against each other.
"""

from collections.abc import Iterator

from holdfast.core.decide import tasks as deciding
from holdfast.core.decide.actions import NOTHING_IN_PROGRESS, Action, ActionKey, ActionKind, RuntimeFacts
from holdfast.core.decide.tasks import _View
from holdfast.core.end_reason import TASK_REASONS, EndReason
from holdfast.core.messages.addressing import shared_addresses
from holdfast.core.messages.schema import MessageKind
from holdfast.core.state import EffectStatus, RunState
from holdfast.core.task_state import Task, TaskStage, TaskStatus
from holdfast.core.work.workflow import Bounds, Workflow

_DONE = (TaskStatus.COMPLETE, TaskStatus.SKIPPED)


def plain_decide(
    state: RunState, workflow: Workflow, bounds: Bounds, facts: RuntimeFacts = NOTHING_IN_PROGRESS
) -> list[Action]:
    view = _View(state, workflow, bounds, facts)
    why = deciding.exceeded_cap(state, bounds, facts)
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


def _task_actions(view: _View) -> Iterator[Action]:
    state, facts = view.state, view.facts
    at_work = [task.stage for name in facts.busy_tasks if (task := state.tasks.get(name)) is not None]
    merging = TaskStage.MERGE in at_work
    places = view.bounds.parallel - sum(stage not in (TaskStage.MERGE, TaskStage.COMPLETE) for stage in at_work)
    moving = behind = False
    for number, wave in sorted(state.plan.waves.items() if state.plan is not None else ()):
        if wave.completed:
            continue
        if all(_status(state, name) in _DONE for name in wave.task_ids):
            closing = Action(ActionKind.CLOSE_WAVE, wave=number)
            if behind or closing.key in facts.stuck:
                continue
            if closing.key not in facts.busy:
                yield closing
            return
        behind = True
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


def _with_wave_start(actions: list[Action], number: int) -> Iterator[Action]:
    starts = [action for action in actions if action.kind is ActionKind.START]
    for action in actions:
        yield action._replace(wave=number) if action in starts[:1] else action


def _wave_actions(view: _View, task_ids: list[str]) -> Iterator[Action]:
    state = view.state
    moves = {name: _task_action(view, name) for name in task_ids}
    moving = [name for name in task_ids if moves[name] is not None or view.facts.is_busy(name)]
    first = next((name for name in moving if deciding._is_unmerged(state.tasks.get(name))), None)
    for name in sorted(task_ids, key=lambda name: _status(state, name) is TaskStatus.PENDING):
        move = moves[name]
        if move is not None and (move.kind is not ActionKind.MERGE or name == first):
            yield move


def _task_action(view: _View, task_id: str) -> Action | None:
    state, task = view.state, view.state.tasks.get(task_id) or Task()
    unclear = any(left.task == task_id and left.status is EffectStatus.UNKNOWN for left in state.effects.values())
    if view.facts.is_busy(task_id) or view.facts.is_stuck(task_id) or unclear:
        return None
    if task.status is TaskStatus.IN_PROGRESS:
        return deciding._next_step(view, task_id, task)
    needed = state.plan.blocked_by.get(task_id, []) if state.plan is not None else []
    ready = task.status is TaskStatus.PENDING and all(_status(state, other) in _DONE for other in needed)
    return Action(ActionKind.START, task_id) if ready else None


def _task_to_reopen(view: _View) -> str | None:
    state = view.state
    names = [name for name in _planned(state) if _status(state, name) is not TaskStatus.SKIPPED]
    done = [name for name in names if _status(state, name) is TaskStatus.COMPLETE and not view.facts.is_stuck(name)]
    named = {message.task for message in state.messages.values() if message.kind == MessageKind.USER}
    wanted = [name for name in done if name in named]
    if wanted or named.isdisjoint(shared_addresses(state, view.workflow)):
        return next(iter(wanted), None)
    return done[-1] if done and done[-1] == names[-1] else None


def _end_reason(view: _View) -> EndReason:
    state = view.state
    if state.plan is None:
        return EndReason.NO_PLAN
    if _is_done(state) and not view.facts.stuck:
        return EndReason.ALL_DONE
    begun = [state.tasks[name] for name in _planned(state) if _status(state, name) is TaskStatus.IN_PROGRESS]
    if begun or view.facts.stuck:
        unclear = any(deciding._has_unknown_effect(state, name) for name in _planned(state))
        waits = unclear or any(deciding._waits_for_a_person(view, task) for task in begun)
        return EndReason.WAITING if waits else EndReason.PARKED
    failed = [task.error for name in _planned(state) if (task := state.tasks.get(name)) is not None]
    return next((EndReason(error) for error in failed if error in TASK_REASONS), EndReason.FAILED)


def _planned(state: RunState) -> list[str]:
    return state.plan.order if state.plan is not None else []


def _status(state: RunState, task_id: str) -> TaskStatus:
    task = state.tasks.get(task_id)
    return task.status if task is not None else TaskStatus.PENDING


def _is_done(state: RunState) -> bool:
    return state.plan is not None and all(_status(state, name) in _DONE for name in state.plan.order)
