"""What a run does next, phase by phase: chosen from its state alone, as `decide.tasks` does for tasks.

The log has the newest phase and its outcome; the workflow says what follows. Files on disk and unfinished reviews do
not matter. So a run that was interrupted in a phase, between two phases, or while leaving one continues by the same
rules as an uninterrupted run.
"""

from collections.abc import Iterator
from typing import NamedTuple

from holdfast.core.conversation.states import ENDED_STATES
from holdfast.core.decide import tasks as deciding
from holdfast.core.decide.actions import NOTHING_IN_PROGRESS, Action, ActionKind, PromptKind, RuntimeFacts
from holdfast.core.decide.chat import decide_chat
from holdfast.core.decide.conditions import condition_holds
from holdfast.core.decide.paused import is_paused, wait_or_park
from holdfast.core.decide.tasks import exceeded_cap
from holdfast.core.end_reason import PHASE_REASONS, EndReason, TaskFailure
from holdfast.core.events.issue import BlockerReported
from holdfast.core.events.phase import DONE, FAILED, PASSED
from holdfast.core.messages.addressing import messages_for
from holdfast.core.messages.schema import MessageKind
from holdfast.core.phase_state import Approval, PhaseProgress, PhaseStatus, Research
from holdfast.core.state import RunState
from holdfast.core.summary.gates import change_target
from holdfast.core.task_index import open_research
from holdfast.core.task_state import BEGUN_STATUSES
from holdfast.core.work.workflow import Bounds, PhaseKind, PhaseSpec, Publish, Workflow

VALIDATORS = "validators"  # the project's checks, as a reviewer
MAX_SIGNAL_PROMPTS = 3  # before a phase fails
_PROMPTING_ACTIONS = (ActionKind.PROMPT, ActionKind.REVIEW, ActionKind.RESEARCH)
_ENDED_STATUSES = (PhaseStatus.COMPLETE, PhaseStatus.SKIPPED)


class _View(NamedTuple):
    state: RunState
    workflow: Workflow
    bounds: Bounds
    facts: RuntimeFacts

    @property
    def progress(self) -> PhaseProgress | None:
        return self.state.phases.get(self.state.phase or "")


def decide(
    state: RunState, workflow: Workflow, bounds: Bounds, facts: RuntimeFacts = NOTHING_IN_PROGRESS
) -> list[Action]:
    """All actions that can start now. Empty while everything is in progress, or waits for a provider."""
    actions = _decide(state, workflow, bounds, facts)
    if not facts.paused or facts.busy or any(action.kind is not ActionKind.STOP for action in actions):
        return actions
    without_pauses = _decide(state, workflow, bounds, facts._replace(paused={}))
    withheld = [action for action in without_pauses if action.kind is not ActionKind.STOP]
    return wait_or_park(state, workflow, facts, withheld) if withheld else actions


def _decide(state: RunState, workflow: Workflow, bounds: Bounds, facts: RuntimeFacts) -> list[Action]:
    view = _View(state, workflow, bounds, facts)
    if workflow.chat:
        return decide_chat(state, bounds, facts)
    if not workflow.phases:
        return _decide_without_phases(view)
    why = exceeded_cap(state, bounds, facts)
    if why is not None and not _is_done(view):
        return [Action(ActionKind.STOP, reason=why)]
    actions = [*_within_limits(view, (*_research_actions(view), *_phase_actions(view)))]
    if actions or facts.busy:
        return actions
    return [Action(ActionKind.STOP, reason=_end_reason(view))]


def _decide_without_phases(view: _View) -> list[Action]:
    """Actions of the tasks and of the research that their workers requested."""
    actions = _task_actions(view)
    research = [*_within_limits(view, tuple(_research_actions(view)))]
    has_research = research or any(key.kind == "research" for key in view.facts.busy)
    if not has_research or exceeded_cap(view.state, view.bounds, view.facts) is not None:
        return actions
    return [*research, *(action for action in actions if action.kind is not ActionKind.STOP)]


def _within_limits(view: _View, actions: tuple[Action, ...]) -> Iterator[Action]:
    """The actions that are not in progress or stuck, up to the number of agents that may work at once.

    The reviewers of one review all run at once, unless `reviewers` limits them.
    """
    facts, bounds = view.facts, view.bounds
    taken = {*facts.busy, *facts.stuck}
    at_work = sum(key.kind in ("phase", "research") for key in facts.busy)
    for action in actions:
        if action.key in taken or is_paused(view.state, view.workflow, facts, action):
            continue
        if action.kind in _PROMPTING_ACTIONS:
            most = bounds.reviewers if action.kind is ActionKind.REVIEW else bounds.parallel
            if most is not None and at_work >= most:
                continue
            at_work += 1
        taken.add(action.key)
        yield action


def _phase_actions(view: _View) -> Iterator[Action]:
    progress = view.progress
    spec = view.workflow.phase(view.state.phase)
    if progress is None or spec is None:
        yield from _enter(view, view.workflow.phases[0])
    elif progress.status in _ENDED_STATUSES:
        yield from _after_phase(view, spec, progress)
    elif progress.status is PhaseStatus.FAILED:
        return
    elif (target := _phase_for_changes(view, spec, progress)) is not None:
        yield from _enter_for_change(view, target)
    else:
        yield from _within_phase(view, spec, progress)


# From phase to phase


def _after_phase(view: _View, spec: PhaseSpec, progress: PhaseProgress) -> Iterator[Action]:
    """What follows a phase that has ended."""
    if (target := _phase_for_changes(view, spec, progress)) is not None:
        yield from _enter_for_change(view, target)
    elif progress.outcome == FAILED:
        yield from _after_failure(view, spec, progress)
    elif (following := _next_phase(view, spec)) is not None:
        yield from _enter(view, following)
    elif (left := _phase_failed_at_limit(view)) is not None:
        yield _fail_at_limit(left)
    elif _failed_phase(view) is not None:
        return
    elif view.workflow.planner is not None:
        yield from _record_message_as_change(view, spec)
    else:
        yield from _reopen_for_messages(view)


def _after_failure(view: _View, spec: PhaseSpec, progress: PhaseProgress) -> Iterator[Action]:
    """Enter `on_fail` within its limit; then `on_limit`, or wait for a person.

    Without `on_fail`, a person's retry repeats the phase itself.
    """
    retried = spec if spec.on_fail is None and progress.tries == 0 else None
    target, beyond = view.workflow.phase(spec.on_fail) or retried, view.workflow.phase(spec.on_limit)
    if target is not None and progress.tries < spec.limit:
        yield from _enter(view, target, f"{spec.name} failed")
    elif beyond is not None:
        yield from _enter(view, beyond, f"{spec.name} failed, and its limit is reached")
    else:
        yield _fail_at_limit(spec)


def _fail_at_limit(spec: PhaseSpec) -> Action:
    reason = EndReason.REVIEW_CAP if spec.kind is PhaseKind.REVIEW else EndReason.CHECKS_CAP
    return Action(ActionKind.FAIL_PHASE, phase=spec.name, reason=reason)


def _phase_failed_at_limit(view: _View) -> PhaseSpec | None:
    """A phase that failed in all its rounds, was left through `on_limit`, and never passed since.

    Later phases may complete, but the run is not done.
    """
    for spec in view.workflow.phases:
        progress = view.state.phases.get(spec.name)
        if progress is None or spec.on_limit is None or spec.name == view.state.phase:
            continue
        if progress.status in _ENDED_STATUSES and progress.outcome == FAILED and progress.tries >= spec.limit:
            return spec
    return None


def _reopen_for_messages(view: _View) -> Iterator[Action]:
    """Without a planning phase, a message reopens a completed task, in its phase."""
    building = [spec for spec in view.workflow.phases if spec.kind is PhaseKind.TASKS and not spec.detour]
    opened = [action for action in _task_actions(view) if action.kind is ActionKind.REOPEN]
    if building and opened:
        yield Action(ActionKind.ENTER, phase=building[-1].name, reason=opened[0].reason)


def _record_message_as_change(view: _View, spec: PhaseSpec) -> Iterator[Action]:
    """No agent is working that could receive a person's message, so it becomes a change request for the planner."""
    unread = [key for key, message in view.state.messages.items() if message.kind == MessageKind.USER]
    if unread and view.workflow.planner is not None:
        yield Action(ActionKind.RECORD_CHANGE, phase=spec.name, reason=unread[0])


def sending_phase(state: RunState, workflow: Workflow, spec: PhaseSpec) -> PhaseSpec | None:
    """The phase whose failure leads, or led, to this one."""
    progress = state.phases.get(spec.name) or PhaseProgress()
    now = state.phases.get(state.phase or "") or PhaseProgress()
    entered = state.phase != spec.name and now.outcome == FAILED
    sender = workflow.phase(state.phase if entered else progress.sender)
    return sender if sender is not None and sender.on_fail == spec.name else None


def _next_phase(view: _View, spec: PhaseSpec) -> PhaseSpec | None:
    workflow = view.workflow
    if spec.next is not None:
        return workflow.phase(spec.next)
    if spec.detour:
        return sending_phase(view.state, workflow, spec)
    return next((later for later in workflow.phases[workflow.phase_index(spec.name) + 1 :] if not later.detour), None)


def _enter(view: _View, spec: PhaseSpec, reason: str | None = None) -> Iterator[Action]:
    if spec.optional and spec.name not in view.state.wanted:
        yield Action(ActionKind.SKIP, phase=spec.name, reason="optional, and not requested")
    elif not condition_holds(spec.when, view.state):
        yield Action(ActionKind.SKIP, phase=spec.name, reason=f"its condition is not met: {spec.when}")
    else:
        yield Action(ActionKind.ENTER, phase=spec.name, reason=reason)


def _phase_for_changes(view: _View, spec: PhaseSpec, progress: PhaseProgress) -> PhaseSpec | None:
    """The phase that handles open change requests: the planning phase, where they wait until that phase is over.

    But an agent phase that asks for approval gets the request itself, and submits its document again.
    """
    planner = view.workflow.planner
    new = view.state.changes.keys() - {*progress.changes, *progress.heard}
    if planner is None or not view.state.changes:
        return change_target(view.workflow, spec) if new else None
    here, there = view.workflow.phase_index(spec.name), view.workflow.phase_index(planner.name)
    if here > there or (here == there and progress.status in _ENDED_STATUSES and new):
        return planner
    handed_in = spec.kind is PhaseKind.AGENT and progress.delivered and progress.status not in _ENDED_STATUSES
    asks = spec.approval and progress.approval is not Approval.GIVEN
    return spec if new and handed_in and asks else None


def _enter_for_change(view: _View, target: PhaseSpec) -> Iterator[Action]:
    """Only while nothing is in progress, not even the start of another phase."""
    if not view.facts.busy:
        yield Action(ActionKind.ENTER, phase=target.name, reason="a change was asked for")


def changes_for(state: RunState, workflow: Workflow, spec: PhaseSpec) -> tuple[list[str], list[str]]:
    """The changes that a phase must resolve, and those for the planner that it is only told about."""
    planner = workflow.planner
    if planner is None:
        return [*state.changes], []
    if spec.kind is not PhaseKind.AGENT:
        return [], []
    if planner.name == spec.name:
        return [*state.changes], []
    is_before = workflow.phase_index(spec.name) < workflow.phase_index(planner.name)
    return [], [*state.changes] if spec.approval and is_before else []


# Within a phase


def _within_phase(view: _View, spec: PhaseSpec, progress: PhaseProgress) -> Iterator[Action]:
    match spec.kind:
        case PhaseKind.AGENT if progress.delivered:
            yield from _check_and_close(view, spec, progress)
        case PhaseKind.AGENT:
            yield from _prompt_agent(view, spec, progress, spec.role or "agent", ActionKind.PROMPT)
        case PhaseKind.TASKS:
            yield from _tasks_phase(view, spec, progress)
        case PhaseKind.REVIEW:
            yield from _review_phase(view, spec, progress)
        case PhaseKind.COMPLETE if not progress.delivered:
            yield Action(ActionKind.SUMMARIZE, phase=spec.name)
        case PhaseKind.COMPLETE:
            yield from _check_and_close(view, spec, progress)


def _prompt_agent(
    view: _View, spec: PhaseSpec, progress: PhaseProgress, role: str, kind: ActionKind
) -> Iterator[Action]:
    """The next prompt for an agent of a phase that has not submitted its result yet."""
    conversation_id = progress.talks.get(role)
    conversation = view.state.conversations.get(conversation_id or "")
    action = Action(kind, phase=spec.name, role=role, prompt_kind=PromptKind.BEGIN)
    if _is_blocked(view, spec.name):
        yield Action(ActionKind.FAIL_PHASE, phase=spec.name, reason=TaskFailure.BLOCKED)
    elif conversation is None or conversation.state in ENDED_STATES or conversation.turns == 0:
        yield action
    elif deciding.was_interrupted(conversation):
        if conversation.cuts < view.bounds.agent_deaths:
            yield action._replace(prompt_kind=PromptKind.CONTINUE)
    elif kind is ActionKind.PROMPT and messages_for(view.state.messages, spec.name):
        yield action._replace(prompt_kind=PromptKind.MESSAGE)
    elif deciding.awaits_research(view.state, conversation_id):
        return
    elif deciding.is_silent(conversation):
        yield Action(ActionKind.FAIL_PHASE, phase=spec.name, reason=EndReason.EMPTY_RESPONSES)
    elif deciding.finished_turns(conversation) - conversation.told >= MAX_SIGNAL_PROMPTS:
        yield Action(ActionKind.FAIL_PHASE, phase=spec.name, reason=f"no_signal: {role}")
    else:
        yield action._replace(prompt_kind=PromptKind.NUDGE)


def _is_blocked(view: _View, phase: str) -> bool:
    return any(issue.type == BlockerReported.type and issue.detail.get("phase") == phase for issue in view.state.issues)


def _tasks_phase(view: _View, spec: PhaseSpec, progress: PhaseProgress) -> Iterator[Action]:
    actions = _task_actions(view)
    if [action.kind for action in actions] != [ActionKind.STOP]:
        yield from actions
    elif actions[0].reason == EndReason.ALL_DONE:
        yield from _check_and_close(view, spec, progress)
    elif actions[0].reason == EndReason.NO_PLAN:
        yield Action(ActionKind.FAIL_PHASE, phase=spec.name, reason="there is no plan")


def _task_actions(view: _View) -> list[Action]:
    """The actions of a run that has only tasks. Other actions in progress do not affect them."""
    return deciding.decide(view.state, view.workflow, view.bounds, view.facts.of_kinds("task", "wave"))


def _review_phase(view: _View, spec: PhaseSpec, progress: PhaseProgress) -> Iterator[Action]:
    """The project's checks first, if the phase has any: work that fails them is not reviewed."""
    reviews = progress.reviews
    checked = reviews.get(VALIDATORS)
    missing = [role for role in spec.roles if role not in reviews]
    if spec.has_checks and checked is None:
        yield Action(ActionKind.CHECK, phase=spec.name, role=VALIDATORS)
    elif checked is not None and not checked.passed:
        yield from _close_phase(view, spec, progress, FAILED)
    elif missing:
        actions = [a for role in missing for a in _prompt_agent(view, spec, progress, role, ActionKind.REVIEW)]
        yield from [action for action in actions if action.kind is ActionKind.FAIL_PHASE][:1] or actions
    else:
        passed = all(review.passed for review in reviews.values())
        yield from _close_phase(view, spec, progress, PASSED if passed else FAILED)


def _check_and_close(view: _View, spec: PhaseSpec, progress: PhaseProgress) -> Iterator[Action]:
    """The work of a phase is done: run the project's checks, if the phase has any, then close it."""
    given = progress.reviews.get(VALIDATORS)
    if spec.has_checks and given is None:
        yield Action(ActionKind.CHECK, phase=spec.name, role=VALIDATORS)
    else:
        yield from _close_phase(view, spec, progress, DONE if given is None or given.passed else FAILED)


def _close_phase(view: _View, spec: PhaseSpec, progress: PhaseProgress, outcome: str) -> Iterator[Action]:
    """The steps between the work of a phase and its end: approval and publishing. A failed phase skips both."""
    if spec.approval and outcome != FAILED and progress.approval is not Approval.GIVEN:
        if progress.approval is None or view.bounds.auto_approve:
            yield Action(ActionKind.ASK_APPROVAL, phase=spec.name)
        else:
            yield from _record_message_as_change(view, spec)
    elif spec.publish is not Publish.NOTHING and outcome != FAILED and not progress.published:
        yield Action(ActionKind.PUBLISH, phase=spec.name)
    else:
        yield Action(ActionKind.CLOSE, phase=spec.name, reason=outcome)


# Research


def _research_actions(view: _View) -> Iterator[Action]:
    """Research that an agent still waits for. Only a recorded answer ends it."""
    for name, research in open_research(view.state).items():
        if _is_awaited(view, research):
            yield from _continue_research(view, name, research)


def _is_awaited(view: _View, research: Research) -> bool:
    asker = view.state.conversations.get(research.conversation)
    task = view.state.tasks.get(asker.task or "") if asker is not None else None
    if task is not None:
        return task.status in BEGUN_STATUSES and task.worker == research.conversation
    progress = view.progress
    return progress is not None and research.conversation in progress.talks.values() and not progress.delivered


def _continue_research(view: _View, research_id: str, research: Research) -> Iterator[Action]:
    conversation = view.state.conversations.get(research.talk or "")
    action = Action(ActionKind.RESEARCH, research=research_id, prompt_kind=PromptKind.BEGIN)
    if conversation is None or conversation.state in ENDED_STATES or conversation.turns == 0:
        yield action
    elif deciding.was_interrupted(conversation):
        if conversation.cuts < view.bounds.agent_deaths:
            yield action._replace(prompt_kind=PromptKind.CONTINUE)
    elif deciding.finished_turns(conversation) >= MAX_SIGNAL_PROMPTS:
        yield Action(ActionKind.END_RESEARCH, research=research_id)
    else:
        yield action._replace(prompt_kind=PromptKind.NUDGE)


# The end


def _is_done(view: _View) -> bool:
    progress, spec = view.progress, view.workflow.phase(view.state.phase)
    if progress is None or spec is None or progress.status not in _ENDED_STATUSES or progress.outcome == FAILED:
        return False
    passed = _phase_failed_at_limit(view) is None and _failed_phase(view) is None
    return passed and _next_phase(view, spec) is None and not view.state.changes


def _failed_phase(view: _View) -> PhaseProgress | None:
    """The phase that waits for a person's retry. It may not be the newest: `on_limit` leads past it."""
    return next((phase for phase in view.state.phases.values() if phase.status is PhaseStatus.FAILED), None)


def _end_reason(view: _View) -> str:
    """Why the session ends when no action is left."""
    progress, spec = view.progress, view.workflow.phase(view.state.phase)
    if _is_done(view):
        return EndReason.PARKED if view.facts.stuck else EndReason.ALL_DONE
    if progress is None or spec is None or view.facts.stuck:
        return EndReason.PARKED
    if (failed := _failed_phase(view)) is not None:
        return EndReason(failed.reason) if failed.reason in PHASE_REASONS else EndReason.FAILED
    if progress.approval is Approval.ASKED:
        return EndReason.WAITING
    if spec.kind is PhaseKind.TASKS:
        return _task_actions(view)[0].reason or EndReason.PARKED
    return EndReason.PARKED
