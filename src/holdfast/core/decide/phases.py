"""What a run does next, phase by phase: chosen from its state alone, as `core.deciding` does within the tasks.

The log says which phase is the newest and what came of it; what follows from that is the workflow's. A document that
lies somewhere, a review that somebody began: they decide nothing. So a run that was cut off in a phase, between two, or
in the very moment of leaving one, goes on by the rules by which it would have gone on without that.
"""

from collections.abc import Iterator
from typing import NamedTuple

from holdfast.core.conversation.states import OVER
from holdfast.core.decide import tasks as deciding
from holdfast.core.decide.actions import AT_REST, Action, Do, Facts, How
from holdfast.core.decide.conditions import holds
from holdfast.core.decide.tasks import spent
from holdfast.core.end_reason import OF_PHASES, EndReason
from holdfast.core.events.issue import BlockerReported
from holdfast.core.events.phase import DONE, FAILED, PASSED
from holdfast.core.messages.addressing import USER_MESSAGE, messages_for
from holdfast.core.state import Approval, PhaseProgress, PhaseStatus, Research, RunState, TaskStatus
from holdfast.core.summary.gates import change_target
from holdfast.core.work.workflow import Bounds, Kind, PhaseSpec, Publish, Workflow

VALIDATORS = "validators"  # the project's own checks, as one of those who review
ASKED_FOR_SIGNAL = 3  # times, before a phase is given up
_TALKING = (Do.TELL, Do.REVIEW, Do.RESEARCH)
_OVER = (PhaseStatus.COMPLETE, PhaseStatus.SKIPPED)


class _View(NamedTuple):
    state: RunState
    workflow: Workflow
    bounds: Bounds
    facts: Facts

    @property
    def progress(self) -> PhaseProgress | None:
        return self.state.phases.get(self.state.phase or "")


def decide(state: RunState, workflow: Workflow, bounds: Bounds, facts: Facts = AT_REST) -> list[Action]:
    """Everything that can be done now. Nothing, while all there is to do is under way."""
    view = _View(state, workflow, bounds, facts)
    if not workflow.phases:
        return _tasks_alone(view)
    why = spent(state, bounds, facts)
    if why is not None and not _is_done(view):
        return [Action(Do.STOP, reason=why)]
    actions = [*_within_places(view, (*_research(view), *_moves(view)))]
    if actions or facts.busy:
        return actions
    return [Action(Do.STOP, reason=_outcome(view))]


def _tasks_alone(view: _View) -> list[Action]:
    """The tasks, and what their workers want to be looked into."""
    actions = _of_tasks(view)
    research = [*_within_places(view, tuple(_research(view)))]
    looking = research or any(key.kind == "research" for key in view.facts.busy)
    if not looking or spent(view.state, view.bounds, view.facts) is not None:
        return actions
    return [*research, *(action for action in actions if action.do is not Do.STOP)]


def _within_places(view: _View, actions: tuple[Action, ...]) -> Iterator[Action]:
    """Not twice at once, not what cannot be done, and no more agents beside the tasks' than may work at once.

    Reviewers of one review run all at once, unless they have a bound of their own.
    """
    facts, bounds = view.facts, view.bounds
    taken = {*facts.busy, *facts.stuck}
    at_work = sum(key.kind in ("phase", "research") for key in facts.busy)
    for action in actions:
        if action.key in taken:
            continue
        if action.do in _TALKING:
            most = bounds.reviewers if action.do is Do.REVIEW else bounds.parallel
            if most is not None and at_work >= most:
                continue
            at_work += 1
        taken.add(action.key)
        yield action


def _moves(view: _View) -> Iterator[Action]:
    progress = view.progress
    spec = view.workflow.phase(view.state.phase)
    if progress is None or spec is None:
        yield from _enter(view, view.workflow.phases[0])
    elif progress.status in _OVER:
        yield from _after(view, spec, progress)
    elif progress.status is PhaseStatus.FAILED:
        return
    elif (target := _changed_in(view, spec, progress)) is not None:
        yield from _change(view, target)
    else:
        yield from _within(view, spec, progress)


# From phase to phase


def _after(view: _View, spec: PhaseSpec, progress: PhaseProgress) -> Iterator[Action]:
    """What a phase leads to that is over."""
    if (target := _changed_in(view, spec, progress)) is not None:
        yield from _change(view, target)
    elif progress.outcome == FAILED:
        yield from _after_failure(view, spec, progress)
    elif (following := _following(view, spec)) is not None:
        yield from _enter(view, following)
    elif (left := _left_at_limit(view)) is not None:
        yield _give_up_at_limit(left)
    elif _given_up(view) is not None:
        return
    elif view.workflow.planner is not None:
        yield from _words_taken_as_change(view, spec)
    else:
        yield from _words_for_tasks(view)


def _after_failure(view: _View, spec: PhaseSpec, progress: PhaseProgress) -> Iterator[Action]:
    """Back to where what was found is put right, within its limit; then to where that leads, or to a person.

    Where nothing is said of it, a person who has it tried again has the phase itself tried again.
    """
    again = spec if spec.on_fail is None and progress.tries == 0 else None
    target, beyond = view.workflow.phase(spec.on_fail) or again, view.workflow.phase(spec.on_limit)
    if target is not None and progress.tries < spec.limit:
        yield from _enter(view, target, f"{spec.name} failed")
    elif beyond is not None:
        yield from _enter(view, beyond, f"{spec.name} failed, and its limit is reached")
    else:
        yield _give_up_at_limit(spec)


def _give_up_at_limit(spec: PhaseSpec) -> Action:
    reason = EndReason.REVIEW_CAP if spec.kind is Kind.REVIEW else EndReason.CHECKS_CAP
    return Action(Do.GIVE_UP, phase=spec.name, reason=reason)


def _left_at_limit(view: _View) -> PhaseSpec | None:
    """A phase that failed in all its rounds, and that the workflow went past by `on_limit`. It never passed since.

    What follows it may finish the run; the run is not done for that.
    """
    for spec in view.workflow.phases:
        progress = view.state.phases.get(spec.name)
        if progress is None or spec.on_limit is None or spec.name == view.state.phase:
            continue
        if progress.status in _OVER and progress.outcome == FAILED and progress.tries >= spec.limit:
            return spec
    return None


def _words_for_tasks(view: _View) -> Iterator[Action]:
    """Nobody plans: a task that was finished is opened again by what a person has to say to it, in its phase."""
    building = [one for one in view.workflow.phases if one.kind is Kind.TASKS and not one.detour]
    opened = [action for action in _of_tasks(view) if action.do is Do.REOPEN]
    if building and opened:
        yield Action(Do.ENTER, phase=building[-1].name, reason=opened[0].reason)


def _words_taken_as_change(view: _View, spec: PhaseSpec) -> Iterator[Action]:
    """Nobody is at work who could hear what a person says: it is a wish, for those who plan."""
    words = [key for key, message in view.state.messages.items() if message.kind == USER_MESSAGE]
    if words and view.workflow.planner is not None:
        yield Action(Do.TAKE_AS_CHANGE, phase=spec.name, reason=words[0])


def sent_from(state: RunState, workflow: Workflow, spec: PhaseSpec) -> PhaseSpec | None:
    """The phase whose failure leads to this one: the one that it is entered from, or that it was."""
    progress = state.phases.get(spec.name) or PhaseProgress()
    now = state.phases.get(state.phase or "") or PhaseProgress()
    entered = state.phase != spec.name and now.outcome == FAILED
    sender = workflow.phase(state.phase if entered else progress.sender)
    return sender if sender is not None and sender.on_fail == spec.name else None


def _following(view: _View, spec: PhaseSpec) -> PhaseSpec | None:
    workflow = view.workflow
    if spec.next is not None:
        return workflow.phase(spec.next)
    if spec.detour:
        return sent_from(view.state, workflow, spec)
    return next((one for one in workflow.phases[workflow.place(spec.name) + 1 :] if not one.detour), None)


def _enter(view: _View, spec: PhaseSpec, reason: str | None = None) -> Iterator[Action]:
    if spec.optional and spec.name not in view.state.wanted:
        yield Action(Do.LEAVE_OUT, phase=spec.name, reason="nobody asked for it")
    elif not holds(spec.when, view.state):
        yield Action(Do.LEAVE_OUT, phase=spec.name, reason=f"not so: {spec.when}")
    else:
        yield Action(Do.ENTER, phase=spec.name, reason=reason)


def _changed_in(view: _View, spec: PhaseSpec, progress: PhaseProgress) -> PhaseSpec | None:
    """Somebody wants a change, and its place is planning. Before that phase is over it waits there.

    But whoever asks for approval hears what is wanted instead of it, and hands in anew.
    """
    planner = view.workflow.planner
    new = view.state.changes.keys() - {*progress.changes, *progress.heard}
    if planner is None or not view.state.changes:
        return change_target(view.workflow, spec) if new else None
    here, there = view.workflow.place(spec.name), view.workflow.place(planner.name)
    if here > there or (here == there and progress.status in _OVER and new):
        return planner
    handed_in = spec.kind is Kind.AGENT and progress.delivered and progress.status not in _OVER
    asks = spec.approval and progress.approval is not Approval.GIVEN
    return spec if new and handed_in and asks else None


def _change(view: _View, target: PhaseSpec) -> Iterator[Action]:
    """Not beside what is under way, be it that another phase is being entered."""
    if not view.facts.busy:
        yield Action(Do.ENTER, phase=target.name, reason="a change was asked for")


def wishes_for(state: RunState, workflow: Workflow, spec: PhaseSpec) -> tuple[list[str], list[str]]:
    """The changes that a phase is to deal with; and those that it is told, though they are for the one that plans."""
    planner = workflow.planner
    if planner is None:
        return [*state.changes], []
    if spec.kind is not Kind.AGENT:
        return [], []
    if planner.name == spec.name:
        return [*state.changes], []
    is_before = workflow.place(spec.name) < workflow.place(planner.name)
    return [], [*state.changes] if spec.approval and is_before else []


# Within a phase


def _within(view: _View, spec: PhaseSpec, progress: PhaseProgress) -> Iterator[Action]:
    match spec.kind:
        case Kind.AGENT if progress.delivered:
            yield from _checked(view, spec, progress)
        case Kind.AGENT:
            yield from _told(view, spec, progress, spec.role or "agent", Do.TELL)
        case Kind.TASKS:
            yield from _tasks(view, spec, progress)
        case Kind.REVIEW:
            yield from _review(view, spec, progress)
        case Kind.COMPLETE if not progress.delivered:
            yield Action(Do.SUMMARIZE, phase=spec.name)
        case Kind.COMPLETE:
            yield from _checked(view, spec, progress)


def _told(view: _View, spec: PhaseSpec, progress: PhaseProgress, role: str, do: Do) -> Iterator[Action]:
    """An agent of a phase that has not given its signal yet."""
    name = progress.talks.get(role)
    talk = view.state.conversations.get(name or "")
    action = Action(do, phase=spec.name, role=role, how=How.BEGIN)
    if _is_blocked(view, spec.name):
        yield Action(Do.GIVE_UP, phase=spec.name, reason="blocked")
    elif talk is None or talk.state in OVER or talk.turns == 0:
        yield action
    elif deciding.was_cut_off(talk):
        if talk.cuts < view.bounds.agent_deaths:
            yield action._replace(how=How.GO_ON)
    elif do is Do.TELL and messages_for(view.state.messages, spec.name):
        yield action._replace(how=How.MESSAGE)
    elif deciding.waits_for_answer(view.state, name):
        return
    elif deciding.says_nothing(talk):
        yield Action(Do.GIVE_UP, phase=spec.name, reason=EndReason.EMPTY_RESPONSES)
    elif deciding.heard_out(talk) - talk.told >= ASKED_FOR_SIGNAL:
        yield Action(Do.GIVE_UP, phase=spec.name, reason=f"no_signal: {role}")
    else:
        yield action._replace(how=How.NUDGE)


def _is_blocked(view: _View, phase: str) -> bool:
    return any(issue.type == BlockerReported.type and issue.detail.get("phase") == phase for issue in view.state.issues)


def _tasks(view: _View, spec: PhaseSpec, progress: PhaseProgress) -> Iterator[Action]:
    actions = _of_tasks(view)
    if [action.do for action in actions] != [Do.STOP]:
        yield from actions
    elif actions[0].reason == EndReason.ALL_DONE:
        yield from _checked(view, spec, progress)
    elif actions[0].reason == EndReason.NO_PLAN:
        yield Action(Do.GIVE_UP, phase=spec.name, reason="there is no plan")


def _of_tasks(view: _View) -> list[Action]:
    """As a run of nothing else would go on. What is in progress beside the tasks does not concern them."""
    return deciding.decide(view.state, view.workflow, view.bounds, view.facts.only("task", "wave"))


def _review(view: _View, spec: PhaseSpec, progress: PhaseProgress) -> Iterator[Action]:
    """The project's checks first, when they are wanted: what does not pass them need not be read."""
    reviews = progress.reviews
    checked = reviews.get(VALIDATORS)
    lacking = [role for role in spec.roles if role not in reviews]
    if spec.checked and checked is None:
        yield Action(Do.CHECK, phase=spec.name, role=VALIDATORS)
    elif checked is not None and not checked.passed:
        yield from _close(view, spec, progress, FAILED)
    elif lacking:
        told = [action for role in lacking for action in _told(view, spec, progress, role, Do.REVIEW)]
        yield from [action for action in told if action.do is Do.GIVE_UP][:1] or told
    else:
        passed = all(review.passed for review in reviews.values())
        yield from _close(view, spec, progress, PASSED if passed else FAILED)


def _checked(view: _View, spec: PhaseSpec, progress: PhaseProgress) -> Iterator[Action]:
    """The work of a phase is done: now the project's checks, when they are wanted."""
    given = progress.reviews.get(VALIDATORS)
    if spec.checked and given is None:
        yield Action(Do.CHECK, phase=spec.name, role=VALIDATORS)
    else:
        yield from _close(view, spec, progress, DONE if given is None or given.passed else FAILED)


def _close(view: _View, spec: PhaseSpec, progress: PhaseProgress, outcome: str) -> Iterator[Action]:
    """What stands between the work of a phase and its end. What failed needs nobody's approval for that."""
    if spec.approval and outcome != FAILED and progress.approval is not Approval.GIVEN:
        if progress.approval is None or view.bounds.approving:
            yield Action(Do.ASK_APPROVAL, phase=spec.name)
        else:
            yield from _words_taken_as_change(view, spec)
    elif spec.publish is not Publish.NOTHING and outcome != FAILED and not progress.published:
        yield Action(Do.PUBLISH, phase=spec.name)
    else:
        yield Action(Do.CLOSE, phase=spec.name, reason=outcome)


# Research


def _research(view: _View) -> Iterator[Action]:
    """For those who still wait for it. That it was begun does not make it done, nor does what lies about of it."""
    for name, research in view.state.research.items():
        if not research.answered and _is_awaited(view, research):
            yield from _looked_into(view, name, research)


def _is_awaited(view: _View, research: Research) -> bool:
    asker = view.state.conversations.get(research.conversation)
    task = view.state.tasks.get(asker.task or "") if asker is not None else None
    if task is not None:
        return task.status is TaskStatus.IN_PROGRESS and task.worker == research.conversation
    progress = view.progress
    return progress is not None and research.conversation in progress.talks.values() and not progress.delivered


def _looked_into(view: _View, name: str, research: Research) -> Iterator[Action]:
    talk = view.state.conversations.get(research.talk or "")
    action = Action(Do.RESEARCH, research=name, how=How.BEGIN)
    if talk is None or talk.state in OVER or talk.turns == 0:
        yield action
    elif deciding.was_cut_off(talk):
        if talk.cuts < view.bounds.agent_deaths:
            yield action._replace(how=How.GO_ON)
    elif deciding.heard_out(talk) >= ASKED_FOR_SIGNAL:
        yield Action(Do.END_RESEARCH, research=name)
    else:
        yield action._replace(how=How.NUDGE)


# The end


def _is_done(view: _View) -> bool:
    progress, spec = view.progress, view.workflow.phase(view.state.phase)
    if progress is None or spec is None or progress.status not in _OVER or progress.outcome == FAILED:
        return False
    passed = _left_at_limit(view) is None and _given_up(view) is None
    return passed and _following(view, spec) is None and not view.state.changes


def _given_up(view: _View) -> PhaseProgress | None:
    """The phase that waits for a person to have it tried again. It need not be the newest: `on_limit` leads past it."""
    return next((one for one in view.state.phases.values() if one.status is PhaseStatus.FAILED), None)


def _outcome(view: _View) -> str:
    """Why a session ends in which nothing more can be done."""
    progress, spec = view.progress, view.workflow.phase(view.state.phase)
    if _is_done(view):
        return EndReason.PARKED if view.facts.stuck else EndReason.ALL_DONE
    if progress is None or spec is None or view.facts.stuck:
        return EndReason.PARKED
    if (given_up := _given_up(view)) is not None:
        return EndReason(given_up.reason) if given_up.reason in OF_PHASES else EndReason.FAILED
    if progress.approval is Approval.ASKED:
        return EndReason.WAITING
    if spec.kind is Kind.TASKS:
        return _of_tasks(view)[0].reason or EndReason.PARKED
    return EndReason.PARKED
