"""Whom words are for: a task, a phase, or whichever agent is told something next."""

from collections.abc import Collection, Mapping

from holdfast.core.state import DENIAL, RESEARCH, OpenMessage, PhaseStatus, RunState, TaskStatus
from holdfast.core.work.workflow import Kind, PhaseSpec, Workflow

USER_MESSAGE = "user"  # the kind of a message that is words for an agent
FOR_AGENTS = (USER_MESSAGE, RESEARCH, DENIAL)  # kinds of messages that go into a prompt

_DEAF = (Kind.REVIEW, Kind.COMPLETE)  # phases: who reviews is not to be talked into anything
_OVER = (PhaseStatus.COMPLETE, PhaseStatus.SKIPPED)


def messages_for(messages: Mapping[str, OpenMessage], task: str, anyone: Collection[str | None] = (None,)) -> list[str]:
    """The words that the next prompt to a task's worker takes along: those for it, and those of people for anyone.

    A phase is addressed as a task is.
    """
    heard = {task, *anyone}
    shared = (key for key, message in messages.items() if message.kind in FOR_AGENTS and message.conversation is None)
    return [key for key in shared if messages[key].task in heard]


def messages_only_for(messages: Mapping[str, OpenMessage], conversation: str) -> list[str]:
    """Those that are for one conversation and for nobody else, whatever its role."""
    return [key for key, message in messages.items() if message.conversation == conversation]


def for_any_worker(state: RunState, workflow: Workflow) -> frozenset[str | None]:
    """The addresses of words for whichever worker comes first: none, or a phase that has only workers and has begun."""
    names = (phase.name for phase in workflow.phases if phase.kind is Kind.TASKS and _has_begun(state, phase))
    return frozenset([None, *(name for name in names if name not in state.tasks)])


def is_for_nobody(state: RunState, workflow: Workflow, task: str | None) -> str | None:
    """Why nobody will ever hear words for it."""
    phase = workflow.phase(task)
    if phase is not None and (phase.kind is Kind.AGENT or task not in state.tasks):
        return _is_deaf(state, workflow, phase)
    if task is None:
        return _nobody_works(state, workflow)
    if state.plan is None:
        return None
    known = state.tasks.get(task)
    gone = task not in state.plan.order or (known is not None and known.status is TaskStatus.SKIPPED)
    return f"{task} was skipped, or is in the plan no more" if gone else None


def _is_deaf(state: RunState, workflow: Workflow, phase: PhaseSpec) -> str | None:
    """Where somebody plans, what no agent of a phase hears is a wish in the end."""
    if workflow.planner is not None:
        return None
    if phase.kind in _DEAF:
        return f"{phase.name} has no agent that is told what people say"
    if _is_over(state, workflow) and (phase.kind is Kind.AGENT or not _has_begun(state, phase)):
        return f"{phase.name} is over, and so is all that comes after it"
    return _nobody_works(state, workflow)


def _nobody_works(state: RunState, workflow: Workflow) -> str | None:
    if workflow.planner is not None or state.plan is None or not _is_over(state, workflow):
        return None
    tasks = [state.tasks.get(name) for name in state.plan.order]
    skipped = bool(tasks) and all(task is not None and task.status is TaskStatus.SKIPPED for task in tasks)
    return "every task was skipped" if skipped else None


def _is_over(state: RunState, workflow: Workflow) -> bool:
    """All phases are, if there are any."""
    found = (state.phases.get(phase.name) for phase in workflow.phases if not phase.detour)
    return all(progress is not None and progress.status in _OVER for progress in found)


def _has_begun(state: RunState, phase: PhaseSpec) -> bool:
    progress = state.phases.get(phase.name)
    return progress is not None and progress.status is not PhaseStatus.SKIPPED
