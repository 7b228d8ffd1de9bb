"""What a run wants from a person: questions that wait, outcomes that nobody knows, work that failed."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec

from holdfast.core.conversation.call_text import lines_of, summary_of, visible
from holdfast.core.conversation.states import Phase
from holdfast.core.events.issue import BlockerReported, ErrorEncountered
from holdfast.core.log.codec import UNREADABLE
from holdfast.core.messages.addressing import USER_MESSAGE
from holdfast.core.messages.answers import approval_key
from holdfast.core.state import EffectStatus, GivenAnswer, PhaseStatus, RunState, TaskStatus
from holdfast.core.summary.gates import asks_approval, gate_lines, gate_of


class Want(StrEnum):
    PERMISSION = "permission"  # an agent asks, and waits
    APPROVAL = "approval"  # a phase asks before it goes on
    EFFECT = "effect"  # whether it happened is not known
    FAILURE = "failure"  # a task failed
    TROUBLE = "trouble"  # an error or a blocker stands in the way
    WORDS = "words"  # an agent waits to be told something
    MESSAGE = "message"  # what was sent has not reached an agent


class Need(NamedTuple):
    """`about` is a task, when there is one; `key` is the id by which it can be named in a command.

    `detail` is all that is known of what is asked, line by line; `answer` was given and waits to be applied.
    """

    want: Want
    text: str
    about: str | None = None
    key: str | None = None
    detail: tuple[str, ...] = ()
    answer: GivenAnswer | None = None


def needs_of(state: RunState) -> list[Need]:
    """All of it, what holds up most first."""
    return [*_questions(state), *_unknowns(state), *_failures(state), *_waiting(state), *_undelivered(state)]


def with_detail(need: Need, state: RunState) -> Need:
    """With what a person has to know before answering. It takes a while to work out, so it is done when it is shown."""
    if need.want is Want.APPROVAL:
        gate = gate_of(state, state.phase or "")
        return need._replace(detail=tuple(gate_lines(gate))) if gate is not None else need
    asked = state.permissions.get(need.key or "") if need.want is Want.PERMISSION else None
    if asked is None:
        return need
    title = visible(asked.title)
    return need._replace(detail=(*([] if title in need.text else [f"title  {title}"]), *lines_of(asked)))


def _questions(state: RunState) -> Iterator[Need]:
    for request, asked in state.permissions.items():
        talk = state.conversations.get(asked.conversation)
        yield Need(Want.PERMISSION, summary_of(asked), talk.task if talk is not None else None, request)
    name = asks_approval(state)
    if name is not None:
        yield Need(Want.APPROVAL, f"{name} asks for your approval", None, approval_key(name))


def _unknowns(state: RunState) -> Iterator[Need]:
    for key, effect in state.effects.items():
        if effect.status is EffectStatus.UNKNOWN:
            why = f": {effect.reason}" if effect.reason else ""
            yield Need(Want.EFFECT, f"whether a {effect.kind} happened is not known{why}", effect.task, key)


def _failures(state: RunState) -> Iterator[Need]:
    for name, task in state.tasks.items():
        if task.status is TaskStatus.FAILED:
            yield Need(Want.FAILURE, f"failed: {task.error or 'no reason was given'}", name, name)
    for name, phase in state.phases.items():
        if phase.status is PhaseStatus.FAILED:
            yield Need(Want.FAILURE, f"{name} failed: {phase.reason or 'no reason was given'}", None, name)
    for issue in state.issues:
        said = issue.detail.get("description" if issue.type == BlockerReported.type else "error")
        if issue.type in (BlockerReported.type, ErrorEncountered.type):
            yield Need(Want.TROUBLE, str(said or issue.type), issue.task)


def _waiting(state: RunState) -> Iterator[Need]:
    """Between turns every conversation waits; for a person it does when the sitting ended for that."""
    newest = state.newest_sitting()
    if newest is None or newest.end_reason != "waiting":
        return
    for talk in state.conversations.values():
        task = state.tasks.get(talk.task or "")
        if talk.state == Phase.WAITING and task is not None and task.status is TaskStatus.IN_PROGRESS:
            yield Need(Want.WORDS, f"{talk.agent or 'the agent'} waits to be told how to go on", talk.task)


def _undelivered(state: RunState) -> Iterator[Need]:
    for key, message in state.messages.items():
        if message.kind == USER_MESSAGE:
            yield Need(Want.MESSAGE, f"not delivered yet: {words_of(message.body)}", message.task, key)


def words_of(body: str | bytes) -> str:
    """What a message of a person says."""
    try:
        found: Any = msgspec.json.decode(body)
    except UNREADABLE:
        return ""
    return str(found.get("text", "")) if isinstance(found, dict) else str(found)


def open_questions(state: RunState) -> list[Need]:
    """What waits for an answer."""
    return [need for need in needs_of(state) if need.want in (Want.PERMISSION, Want.APPROVAL)]
