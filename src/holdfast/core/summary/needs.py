"""What a run needs from a person: answers, decisions about unknown outcomes and failures, instructions."""

from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

from holdfast.core.conversation.call_text import call_lines, call_summary, to_printable
from holdfast.core.conversation.states import ConversationState
from holdfast.core.end_reason import EndReason, end_reason_text
from holdfast.core.events.issue import BlockerReported, ErrorEncountered
from holdfast.core.messages.answers import approval_key
from holdfast.core.messages.schema import MessageKind, message_text
from holdfast.core.phase_state import PhaseStatus
from holdfast.core.state import EffectStatus, GivenAnswer, RunState
from holdfast.core.summary.gates import gate_lines, gate_of, phase_awaiting_approval
from holdfast.core.task_state import BEGUN_STATUSES, TaskStatus


class NeedKind(StrEnum):
    PERMISSION = "permission"  # an agent waits for an answer
    APPROVAL = "approval"  # a phase waits for approval
    EFFECT = "effect"  # its outcome is unknown
    FAILURE = "failure"  # a task failed
    ISSUE = "trouble"  # an error or a blocker
    INSTRUCTIONS = "words"  # an agent waits for instructions
    MESSAGE = "message"  # a message is not delivered yet


class Need(NamedTuple):
    """`about` is a task, if there is one; `key` is the id to use in a command.

    `detail` describes the request, line by line; `answer` was given and waits to be applied.
    """

    want: NeedKind
    text: str
    about: str | None = None
    key: str | None = None
    detail: tuple[str, ...] = ()
    answer: GivenAnswer | None = None


def needs_of(state: RunState) -> list[Need]:
    """All needs, the most urgent first."""
    return [
        *_open_requests(state),
        *_unknown_effects(state),
        *_failures(state),
        *_waiting_agents(state),
        *_undelivered_messages(state),
    ]


def with_detail(need: Need, state: RunState) -> Need:
    """The need with the details for an answer. Computing them is slow, so callers do it only for display."""
    if need.want is NeedKind.APPROVAL:
        gate = gate_of(state, state.phase or "")
        return need._replace(detail=tuple(gate_lines(gate))) if gate is not None else need
    request = state.permissions.get(need.key or "") if need.want is NeedKind.PERMISSION else None
    if request is None:
        return need
    title = to_printable(request.title)
    return need._replace(detail=(*([] if title in need.text else [f"title  {title}"]), *call_lines(request)))


def _open_requests(state: RunState) -> Iterator[Need]:
    for request, permission in state.permissions.items():
        conversation = state.conversations.get(permission.conversation)
        yield Need(
            NeedKind.PERMISSION,
            call_summary(permission),
            conversation.task if conversation is not None else None,
            request,
        )
    name = phase_awaiting_approval(state)
    if name is not None:
        yield Need(NeedKind.APPROVAL, f"{name} asks for your approval", None, approval_key(name))


def _unknown_effects(state: RunState) -> Iterator[Need]:
    for key, effect in state.effects.items():
        if effect.status is EffectStatus.UNKNOWN:
            why = f": {effect.reason}" if effect.reason else ""
            yield Need(NeedKind.EFFECT, f"it is unknown whether a {effect.kind} happened{why}", effect.task, key)


def _failures(state: RunState) -> Iterator[Need]:
    for name, task in state.tasks.items():
        if task.status is TaskStatus.FAILED:
            yield Need(NeedKind.FAILURE, f"failed: {end_reason_text(task.error or 'no reason was given')}", name, name)
    for name, phase in state.phases.items():
        if phase.status is PhaseStatus.FAILED:
            yield Need(NeedKind.FAILURE, f"{name} failed: {phase.reason or 'no reason was given'}", None, name)
    for issue in state.issues:
        text = issue.detail.get("description" if issue.type == BlockerReported.type else "error")
        if issue.type in (BlockerReported.type, ErrorEncountered.type):
            yield Need(NeedKind.ISSUE, str(text or issue.type), issue.task)


def _waiting_agents(state: RunState) -> Iterator[Need]:
    """Agents that wait for a person: every conversation waits between turns, so the session's end reason decides."""
    newest = state.newest_session()
    if newest is None or newest.end_reason not in (EndReason.WAITING, EndReason.IDLE):
        return
    for conversation in state.conversations.values():
        task = state.tasks.get(conversation.task or "")
        if conversation.state == ConversationState.WAITING and task is not None and task.status in BEGUN_STATUSES:
            yield Need(
                NeedKind.INSTRUCTIONS, f"{conversation.agent or 'the agent'} waits for instructions", conversation.task
            )


def _undelivered_messages(state: RunState) -> Iterator[Need]:
    for key, message in state.messages.items():
        if message.kind == MessageKind.USER:
            yield Need(NeedKind.MESSAGE, f"not delivered yet: {message_text(message.body)}", message.task, key)


def needs_to_answer(state: RunState) -> list[Need]:
    """The needs that wait for an answer."""
    return [need for need in needs_of(state) if need.want in (NeedKind.PERMISSION, NeedKind.APPROVAL)]
