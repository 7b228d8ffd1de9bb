"""What a run wants from a person: questions that wait, outcomes that nobody knows, work that failed."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec

from holdfast.core.addressing import USER_MESSAGE
from holdfast.core.codec import UNREADABLE
from holdfast.core.conversation import Phase
from holdfast.core.events.issue import BlockerReported, ErrorEncountered
from holdfast.core.state import Approval, EffectStatus, PhaseStatus, RunState, TaskStatus

APPROVAL = "approval-"  # with the name of a phase: the key of its question


class Want(StrEnum):
    PERMISSION = "permission"  # an agent asks, and waits
    APPROVAL = "approval"  # a phase asks before it goes on
    EFFECT = "effect"  # whether it happened is not known
    FAILURE = "failure"  # a task failed
    TROUBLE = "trouble"  # an error or a blocker stands in the way
    WORDS = "words"  # an agent waits to be told something
    MESSAGE = "message"  # what was sent has not reached an agent


class Need(NamedTuple):
    """`about` is a task, when there is one; `key` is the id by which it can be named in a command."""

    want: Want
    text: str
    about: str | None = None
    key: str | None = None


def needs_of(state: RunState) -> list[Need]:
    """All of it, what holds up most first."""
    return [*_questions(state), *_unknowns(state), *_failures(state), *_waiting(state), *_undelivered(state)]


def _questions(state: RunState) -> Iterator[Need]:
    for request, asked in state.permissions.items():
        talk = state.conversations.get(asked.conversation)
        yield Need(Want.PERMISSION, asked.title, talk.task if talk is not None else None, request)
    for name, phase in state.phases.items():
        if phase.approval is Approval.ASKED and name == state.phase:
            yield Need(Want.APPROVAL, f"{name} asks for your approval", None, f"{APPROVAL}{name}")


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
