"""Whom words are for: a task, a phase, or whichever agent is told something next."""

from collections.abc import Collection, Mapping

from holdfast.core.state import RESEARCH, OpenMessage, RunState, TaskStatus
from holdfast.core.workflow import Kind, Workflow

USER_MESSAGE = "user"  # the kind of a message that is words for an agent
FOR_AGENTS = (USER_MESSAGE, RESEARCH)  # kinds of messages that go into a prompt

_DEAF = (Kind.REVIEW, Kind.COMPLETE)  # phases: who reviews is not to be talked into anything


def messages_for(messages: Mapping[str, OpenMessage], task: str, anyone: Collection[str | None] = (None,)) -> list[str]:
    """The words that the next prompt to a task's worker takes along: those for it, and those of people for anyone.

    A phase is addressed as a task is.
    """
    heard = {task, *anyone}
    return [key for key, message in messages.items() if message.kind in FOR_AGENTS and message.task in heard]


def for_any_worker(state: RunState, workflow: Workflow) -> frozenset[str | None]:
    """The addresses of words for whichever worker comes first: none, or a phase in which there are only workers."""
    names = (phase.name for phase in workflow.phases if phase.kind is Kind.TASKS)
    return frozenset([None, *(name for name in names if name not in state.tasks)])


def is_for_nobody(state: RunState, workflow: Workflow, task: str | None) -> str | None:
    """Why nobody will ever hear words for it. Where somebody plans, what no agent hears is a wish in the end."""
    phase = workflow.phase(task)
    if phase is not None and (phase.kind is Kind.AGENT or task not in state.tasks):
        deaf = phase.kind in _DEAF and workflow.planner is None
        return "has no agent that is told what people say" if deaf else None
    if task is None or state.plan is None:
        return None
    known = state.tasks.get(task)
    gone = task not in state.plan.order or (known is not None and known.status is TaskStatus.SKIPPED)
    return "was skipped, or is in the plan no more" if gone else None
