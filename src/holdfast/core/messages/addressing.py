"""The address of a message: a task, a phase, or the next agent that gets a prompt."""

from collections.abc import Collection, Mapping

from holdfast.core.messages.schema import PROMPT_KINDS
from holdfast.core.phase_state import PhaseStatus
from holdfast.core.state import OpenMessage, RunState
from holdfast.core.task_index import task_index
from holdfast.core.task_state import TaskStatus
from holdfast.core.work.workflow import PhaseKind, PhaseSpec, Workflow

_KINDS_WITHOUT_MESSAGES = (
    PhaseKind.REVIEW,
    PhaseKind.COMPLETE,
)  # messages must not influence reviewers
_ENDED_STATUSES = (PhaseStatus.COMPLETE, PhaseStatus.SKIPPED)


def messages_for(
    messages: Mapping[str, OpenMessage], address: str, common_addresses: Collection[str | None] = (None,)
) -> list[str]:
    """The messages that the next prompt of a task's worker delivers: those for the task, and those for any worker.

    A phase is addressed like a task.
    """
    addresses = {address, *common_addresses}
    return [
        key
        for key, message in messages.items()
        if message.kind in PROMPT_KINDS and message.conversation is None and message.task in addresses
    ]


def messages_for_conversation(messages: Mapping[str, OpenMessage], conversation_id: str) -> list[str]:
    """The messages for this conversation only."""
    return [key for key, message in messages.items() if message.conversation == conversation_id]


def shared_addresses(state: RunState, workflow: Workflow) -> frozenset[str | None]:
    """The addresses of messages for any worker: None, and tasks phases that have begun."""
    names = (phase.name for phase in workflow.phases if phase.kind is PhaseKind.TASKS and _has_begun(state, phase))
    return frozenset([None, *(name for name in names if name not in state.tasks)])


def undeliverable_reason(state: RunState, workflow: Workflow, address: str | None) -> str | None:
    """Why a message to this address can never be delivered; None when it can."""
    phase = workflow.phase(address)
    if phase is not None and (phase.kind is PhaseKind.AGENT or address not in state.tasks):
        return _phase_undeliverable_reason(state, workflow, phase)
    if address is None:
        return _no_worker_reason(state, workflow)
    if state.plan is None:
        return None
    known = state.tasks.get(address)
    dropped = not task_index(state).is_planned(address) or (known is not None and known.status is TaskStatus.SKIPPED)
    return f"{address} was skipped or is no longer in the plan" if dropped else None


def _phase_undeliverable_reason(state: RunState, workflow: Workflow, phase: PhaseSpec) -> str | None:
    """The same for a phase. With a planning phase, an undelivered message becomes a change request."""
    if workflow.planner is not None:
        return None
    if phase.kind in _KINDS_WITHOUT_MESSAGES:
        return f"{phase.name} has no agent that receives messages"
    if _are_phases_over(state, workflow) and (phase.kind is PhaseKind.AGENT or not _has_begun(state, phase)):
        return f"{phase.name} and all later phases have ended"
    return _no_worker_reason(state, workflow)


def _no_worker_reason(state: RunState, workflow: Workflow) -> str | None:
    if workflow.planner is not None or state.plan is None or not _are_phases_over(state, workflow):
        return None
    index = task_index(state)
    skipped = bool(index.order) and index.counts[TaskStatus.SKIPPED] == len(index.order)
    return "every task was skipped" if skipped else None


def _are_phases_over(state: RunState, workflow: Workflow) -> bool:
    """Whether all phases have ended; True without phases."""
    found = (state.phases.get(phase.name) for phase in workflow.phases if not phase.detour)
    return all(progress is not None and progress.status in _ENDED_STATUSES for progress in found)


def _has_begun(state: RunState, phase: PhaseSpec) -> bool:
    progress = state.phases.get(phase.name)
    return progress is not None and progress.status is not PhaseStatus.SKIPPED
