"""What a run does next: chosen from its state alone, without doing any of it.

Asked again after everything that happens, it never remembers: so a run that was cut off anywhere goes on by the same
rules by which it would have gone on without that. Each task moves through its stages; waves follow each other; within
a wave the merges keep the plan's order.
"""

from collections.abc import Iterator
from typing import NamedTuple

from holdfast.core.conversation.states import ASKED_AGAIN, CUT_OFF, OVER, SPOKE
from holdfast.core.decide.actions import AT_REST, Action, ActionKey, Do, Facts, How
from holdfast.core.end_reason import OF_TASKS, EndReason
from holdfast.core.events.issue import BlockerReported
from holdfast.core.messages.addressing import USER_MESSAGE, for_any_worker, messages_for
from holdfast.core.state import Conversation, EffectStatus, RunState, Stage, Task, TaskStatus
from holdfast.core.work.workflow import Bounds, Workflow

ASKED_FOR_VERDICT = 3  # times, before it is made up
EMPTY_TURNS = 3  # of an agent in a row, before it is not asked again

_SETTLED = (TaskStatus.COMPLETE, TaskStatus.SKIPPED)
_WITHOUT_AGENT = (Stage.MERGE, Stage.COMPLETE)


class _View(NamedTuple):
    """All that a decision is made from."""

    state: RunState
    workflow: Workflow
    bounds: Bounds
    facts: Facts


def decide(state: RunState, workflow: Workflow, bounds: Bounds, facts: Facts = AT_REST) -> list[Action]:
    """Everything that can be done now, each key once. Nothing, while all there is to do is in progress."""
    view = _View(state, workflow, bounds, facts)
    why = spent(state, bounds, facts)
    if why is not None and not _is_done(state):
        return [Action(Do.STOP, reason=why)]
    chosen: dict[ActionKey, Action] = {}
    for move in _moves(view):
        chosen.setdefault(move.key, move)
    actions = [*chosen.values()]
    if actions or facts.busy:
        return actions
    wanting = _asked_for_more(view)
    if wanting is not None:
        return [Action(Do.REOPEN, wanting, reason="there is a message for it")]
    return [Action(Do.STOP, reason=_outcome(view))]


def spent(state: RunState, bounds: Bounds, facts: Facts) -> str | None:
    """Why nothing more may be spent."""
    budget = state.budget
    if bounds.wall_clock is not None and facts.elapsed >= bounds.wall_clock:
        return EndReason.WALL_CLOCK
    if bounds.tokens is not None and budget.input_tokens + budget.output_tokens >= bounds.tokens:
        return EndReason.TOKEN_CAP
    if bounds.dollars is not None and (budget.dollars or 0.0) >= bounds.dollars:
        return EndReason.COST_CAP
    return None


def _moves(view: _View) -> Iterator[Action]:
    """The moves of the first wave in which there are any, and of what was begun in those after it.

    One that is stuck does not hold up those after it, but waves are closed in their order: a checkpoint has all that
    comes before it. Merges come one at a time, and take nobody's place; nor does what is still to be tidied up after
    a task.
    """
    state, facts = view.state, view.facts
    at_work = [task.stage for name in facts.busy_tasks if (task := state.tasks.get(name)) is not None]
    merging = Stage.MERGE in at_work
    places = view.bounds.parallel - sum(stage not in _WITHOUT_AGENT for stage in at_work)
    moving = behind = False
    for number, wave in sorted(state.plan.waves.items() if state.plan is not None else ()):
        if wave.completed:  # whatever opens one of its tasks again opens it too
            continue
        if all(_status(state, name) in _SETTLED for name in wave.task_ids):
            closing = Action(Do.CLOSE_WAVE, wave=number)
            if behind or closing.key in facts.stuck:
                continue
            if closing.key not in facts.busy:
                yield closing
            return
        behind = True  # no point to go on from before this one is over too
        moves = [move for move in _wave(view, wave.task_ids) if not (moving and move.do is Do.START)]
        at_it = facts.busy_tasks.intersection(wave.task_ids)
        starting = any(_status(state, name) is TaskStatus.PENDING for name in at_it)
        for move in moves if wave.started or starting else _first_of_wave(moves, number):
            if move.do is Do.MERGE and not merging:
                merging = True
                yield move
            elif move.do is Do.COMPLETE:
                yield move
            elif move.do is not Do.MERGE and places > 0:
                places -= 1
                yield move
        moving = moving or bool(moves) or bool(at_it)


def _first_of_wave(moves: list[Action], number: int) -> Iterator[Action]:
    """The first start of a wave starts the wave too."""
    for move in moves:
        yield move._replace(wave=number) if move.do is Do.START and number else move
        number = 0 if move.do is Do.START else number


def _wave(view: _View, names: list[str]) -> Iterator[Action]:
    """What each task of a wave would do next, those that have begun first. The first that may merge is the one to."""
    state = view.state
    moves = {name: _move(view, name) for name in names}
    moving = [name for name in names if moves[name] is not None or view.facts.is_busy(name)]
    first = next((name for name in moving if _is_unmerged(state.tasks.get(name))), None)
    for name in sorted(names, key=lambda name: _status(state, name) is TaskStatus.PENDING):
        move = moves[name]
        if move is not None and (move.do is not Do.MERGE or name == first):
            yield move


def _move(view: _View, name: str) -> Action | None:
    """What would be done for a task, if there were a place for it; None when that is nothing, or not for us to say."""
    task = view.state.tasks.get(name) or Task()
    if view.facts.is_busy(name) or view.facts.is_stuck(name) or _is_unclear(view.state, name):
        return None
    if task.status is TaskStatus.IN_PROGRESS:
        return _next(view, name, task)
    if task.status is TaskStatus.PENDING and _can_start(view.state, name):
        return Action(Do.START, name)
    return None


def _is_unclear(state: RunState, name: str) -> bool:
    """Nobody can tell whether something was done for it. That is never guessed: a person has to look first."""
    return any(left.task == name and left.status is EffectStatus.UNKNOWN for left in state.effects.values())


def _can_start(state: RunState, name: str) -> bool:
    needed = state.plan.blocked_by.get(name, []) if state.plan is not None else []
    return all(_status(state, other) in _SETTLED for other in needed)


def _is_unmerged(task: Task | None) -> bool:
    if task is None or task.status is TaskStatus.PENDING:
        return True
    return task.status is TaskStatus.IN_PROGRESS and task.stage is not Stage.COMPLETE


def _next(view: _View, name: str, task: Task) -> Action | None:
    """The next step of a task that nobody is at."""
    match task.stage:
        case Stage.WORK:
            return _work(view, name, task)
        case Stage.VALIDATE:
            return Action(Do.VALIDATE, name)
        case Stage.EVALUATE if view.workflow.evaluate and not task.conflicts:
            return _evaluate(view, name, task)
        case Stage.EVALUATE | Stage.COMMIT:
            return Action(Do.COMMIT, name)
        case Stage.MERGE:
            return Action(Do.MERGE, name)
        case Stage.COMPLETE if _did_nothing_for_refusals(view, task):
            return Action(Do.FAIL, name, reason=EndReason.REFUSED)
        case Stage.COMPLETE:
            return Action(Do.COMPLETE, name)


def _did_nothing_for_refusals(view: _View, task: Task) -> bool:
    """Its worker was refused tool calls and changed nothing: that is no finished work, unless an evaluator accepted it.

    A task that changes nothing without a refusal, such as an explanation, is done.
    """
    return task.commit is None and task.refused > 0 and not view.workflow.evaluate


def _work(view: _View, name: str, task: Task) -> Action | None:
    hopeless = _hopeless(view, name, task)
    if hopeless is not None:
        return Action(Do.FAIL, name, reason=hopeless)
    worker = view.state.conversations.get(task.worker or "")
    if worker is None or worker.turns == 0:
        return Action(Do.WORK, name, How.RESOLVE if task.conflicts else How.BEGIN)
    if worker.turns <= task.since:
        return Action(Do.WORK, name, _next_words(task))
    if was_cut_off(worker) and not _is_a_persons_to_say(view, worker):
        return Action(Do.WORK, name, How.GO_ON) if worker.cuts < view.bounds.agent_deaths else None
    if _is_to_be_told(view, name):
        return Action(Do.WORK, name, How.MESSAGE)
    if was_cut_off(worker) or waits_for_answer(view.state, task.worker):
        return None  # a person is to say how to go on, or another agent what it found
    return _after_turn(name, task, worker, view.workflow)


def attempts_of(state: RunState, name: str) -> int:
    """How many iterations of a task were worked on. One that only began, because a limit ended the task, is none."""
    task = state.tasks.get(name)
    if task is None:
        return 0
    worker = state.conversations.get(task.worker or "")
    untouched = task.stage is Stage.WORK and (worker is None or worker.turns <= task.since)
    return max(0, task.iteration - untouched)


def was_cut_off(conversation: Conversation) -> bool:
    """Its last turn was; so is one that never ended, when nobody is at it any more."""
    return conversation.turn is not None or conversation.last in CUT_OFF


def was_refused(conversation: Conversation) -> bool:
    """Its agent answered the last prompt with an error, or had no tools to answer it with."""
    return conversation.turn is None and conversation.last in ASKED_AGAIN


def _is_a_persons_to_say(view: _View, worker: Conversation) -> bool:
    """How it goes on after it was cut off. What was answered with an error is simply asked again."""
    return view.bounds.ask_when_cut_off and not was_refused(worker)


def waits_for_answer(state: RunState, conversation: str | None) -> bool:
    """It asked for something to be looked into, and that goes on."""
    return any(one.conversation == conversation and not one.answered for one in state.research.values())


def _hopeless(view: _View, name: str, task: Task) -> str | None:
    """Why the worker is not asked again."""
    bounds = view.bounds
    if any(issue.task == name and issue.type == BlockerReported.type for issue in view.state.issues):
        return "blocked"
    if view.workflow.evaluate and not task.conflicts and task.evaluations >= bounds.evaluator_calls:
        return EndReason.EVALUATOR_CAP  # whatever it does now, nobody may judge it
    if task.conflicted > bounds.conflict_attempts:
        return "conflicts"
    if says_nothing(view.state.conversations.get(task.worker or "")):
        return EndReason.EMPTY_RESPONSES
    if task.iteration - task.conflicted > bounds.iterations:
        without_result = (EndReason.NO_CASE, EndReason.EMPTY_RESPONSES)
        return EndReason(task.reason) if task.reason in without_result else EndReason.ITERATION_CAP
    return None


def says_nothing(conversation: Conversation | None) -> bool:
    """Its agent answered prompt after prompt with nothing at all."""
    return conversation is not None and conversation.empty >= EMPTY_TURNS


def _after_turn(name: str, task: Task, worker: Conversation, workflow: Workflow) -> Action:
    """The worker has said what it had to say."""
    if worker.last not in SPOKE:
        return Action(Do.END_ITERATION, name, reason=worker.last or "unknown")
    if worker.empty:
        return Action(Do.END_ITERATION, name, reason=EndReason.EMPTY_RESPONSES)
    if workflow.case and not task.conflicts:
        return Action(Do.END_ITERATION, name, reason=EndReason.NO_CASE)
    return Action(Do.TAKE_AS_DONE, name)


def _next_words(task: Task) -> How:
    if task.conflicts:
        return How.RESOLVE
    return How.NUDGE if task.reason in (EndReason.NO_CASE, EndReason.EMPTY_RESPONSES) else How.AGAIN


def _evaluate(view: _View, name: str, task: Task) -> Action | None:
    if task.evaluations >= view.bounds.evaluator_calls:
        return Action(Do.FAIL, name, reason=EndReason.EVALUATOR_CAP)
    evaluator = view.state.conversations.get(task.evaluator or "")
    if evaluator is None or evaluator.state in OVER or evaluator.turns == 0:
        return Action(Do.EVALUATE, name, How.BEGIN)
    if was_cut_off(evaluator):
        return Action(Do.EVALUATE, name, How.GO_ON) if evaluator.cuts < view.bounds.agent_deaths else None
    if says_nothing(evaluator):
        return Action(Do.FAIL, name, reason=EndReason.EMPTY_RESPONSES)
    if heard_out(evaluator) >= ASKED_FOR_VERDICT:
        return Action(Do.JUDGE, name)
    return Action(Do.EVALUATE, name, How.NUDGE)


def heard_out(conversation: Conversation) -> int:
    """Turns that came to their end."""
    return conversation.turns - conversation.interrupted_turns


def _asked_for_more(view: _View) -> str | None:
    """A task that was finished, and that a person now has more to say to."""
    state = view.state
    names = [n for n in _planned(state) if _status(state, n) is not TaskStatus.SKIPPED]
    done = [n for n in names if _status(state, n) is TaskStatus.COMPLETE and not view.facts.is_stuck(n)]
    named = {message.task for message in state.messages.values() if message.kind == USER_MESSAGE}
    wanted = [name for name in done if name in named]
    if wanted or named.isdisjoint(for_any_worker(state, view.workflow)):
        return next(iter(wanted), None)
    return done[-1] if done and done[-1] == names[-1] else None


def _is_to_be_told(view: _View, name: str) -> bool:
    """There are words for its worker. Those for anyone are for the first at work, so that they are said once."""
    messages, anyone = view.state.messages, for_any_worker(view.state, view.workflow)
    words = {messages[key].task for key in messages_for(messages, name, anyone)}
    to_anyone = not words.isdisjoint(anyone)
    return name in words or (to_anyone and _listener(view) == name and not _is_anyone_being_told(view))


def _is_anyone_being_told(view: _View) -> bool:
    """A worker is about to be spoken to, and what is for anyone goes with that."""
    state = view.state
    speaking = [task for name in view.facts.busy_tasks if (task := state.tasks.get(name)) is not None]
    workers = [state.conversations.get(task.worker or "") for task in speaking if task.stage is Stage.WORK]
    return any(worker is None or worker.turn is None for worker in workers)


def _listener(view: _View) -> str | None:
    tasks = view.state.tasks
    return next((name for name in _planned(view.state) if name in tasks and _hears(view, name, tasks[name])), None)


def _hears(view: _View, name: str, task: Task) -> bool:
    if task.status is not TaskStatus.IN_PROGRESS or task.stage is not Stage.WORK or view.facts.is_stuck(name):
        return False
    worker = view.state.conversations.get(task.worker or "")
    return worker is None or view.bounds.ask_when_cut_off or worker.cuts < view.bounds.agent_deaths


def _planned(state: RunState) -> list[str]:
    return state.plan.order if state.plan is not None else []


def _status(state: RunState, name: str) -> TaskStatus:
    task = state.tasks.get(name)
    return task.status if task is not None else TaskStatus.PENDING


def _is_done(state: RunState) -> bool:
    return state.plan is not None and all(_status(state, name) in _SETTLED for name in state.plan.order)


def _outcome(view: _View) -> EndReason:
    """Why a session ends in which nothing more can be done."""
    state = view.state
    if state.plan is None:
        return EndReason.NO_PLAN
    if _is_done(state) and not view.facts.stuck:
        return EndReason.ALL_DONE
    begun = [state.tasks[name] for name in _planned(state) if _status(state, name) is TaskStatus.IN_PROGRESS]
    if begun or view.facts.stuck:
        unclear = any(_is_unclear(state, name) for name in _planned(state))
        waits = unclear or any(_waits_for_a_person(view, task) for task in begun)
        return EndReason.WAITING if waits else EndReason.PARKED
    failed = [task.error for name in _planned(state) if (task := state.tasks.get(name)) is not None]
    return next((EndReason(error) for error in failed if error in OF_TASKS), EndReason.FAILED)


def _waits_for_a_person(view: _View, task: Task) -> bool:
    worker = view.state.conversations.get(task.worker or "")
    if worker is None or task.stage is not Stage.WORK:
        return False
    return was_cut_off(worker) and _is_a_persons_to_say(view, worker)
