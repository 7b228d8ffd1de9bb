"""Answers a run's open requests: durable in its inbox, once per request, whether or not a process owns the run."""

import hashlib
import secrets

import msgspec

from holdfast.core.messages.answers import (
    APPROVAL_PREFIX,
    answer_id,
    answer_text,
    applied_answer,
    last_answer,
    option_for,
)
from holdfast.core.messages.schema import UserAnswer, try_decode_body
from holdfast.core.state import GivenAnswer, RunState
from holdfast.core.summary.gates import change_target
from holdfast.core.summary.needs import Need
from holdfast.core.work.workflow import Workflow
from holdfast.engine.home import Home
from holdfast.engine.inbox.answers import decode_answer
from holdfast.engine.inbox.deliver import user_name
from holdfast.leaf.clock import now
from holdfast.leaf.errors import AlreadyAnswered, BadInput, StorageFailed
from holdfast.store.base import Message


async def send_answer(
    home: Home, run_id: str, state: RunState, need: Need, answer: UserAnswer, key: str | None = None
) -> str:
    """Put the answer to an open request into the inbox and return the message's id.

    Raises `AlreadyAnswered` if there is one, unless that was sent with the same key.
    """
    _check_answer_is_offered(state, answer)
    answer = msgspec.structs.replace(answer, at=now(), token=_token(key))
    message = Message.of(answer, message_id=answer_id(state, answer.request), sender=user_name())
    inbox = home.store.inbox(run_id)
    try:
        first = await inbox.put_if_absent(message)
    except StorageFailed:  # retry with the same message: it may be there already
        first = await inbox.put_if_absent(message)
    if first is not None and _token_of(first) != answer.token:
        raise already_answered_error(need.text, decode_answer(first), run_id, applied=False)
    if home.store_url is not None:
        from holdfast.engine.commands.cluster.wake import wake_run  # noqa: PLC0415 - loads the config

        await wake_run(home, run_id)
    return message.id


async def find_sent_answer(home: Home, run_id: str, key: str) -> str | None:
    """Return the message of the answer that was sent with this key, whether or not it was applied; None without one."""
    async for _, message, _ in home.store.inbox(run_id).read():
        if message is not None and message.kind == UserAnswer.kind and _token_of(message) == _token(key):
            return message.id
    return None


def _token(key: str | None) -> str:
    return secrets.token_hex(6) if key is None else hashlib.sha256(f"answer {key}".encode()).hexdigest()[:32]


def raise_if_answered(run_id: str, state: RunState, request: str | None) -> None:
    """Raise if a request that is not open was answered already: the named one, else the newest of an active session."""
    given = applied_answer(state, request) if request is not None else last_answer(state)
    if given is not None:
        raise already_answered_error(given.text, given, run_id, applied=True)


def already_answered_error(text: str, answer: GivenAnswer | None, run_id: str, *, applied: bool) -> AlreadyAnswered:
    answered = answer_text(answer) if answer is not None else "answered"
    then = (
        "it was applied"
        if applied
        else f"it is applied with the next step of the run, or with: holdfast resume {run_id}"
    )
    return AlreadyAnswered(f"{text}: already {answered}; the first answer counts, and {then}")


def _check_answer_is_offered(state: RunState, answer: UserAnswer) -> None:
    """Check that the answer can be applied: only the first answer to a request counts."""
    if answer.request.startswith(APPROVAL_PREFIX):
        _check_changes_are_possible(state, answer)
        return
    permission = state.permissions[answer.request]
    ids = [option["id"] for option in msgspec.json.decode(permission.options)]
    if answer.option is not None and answer.option not in ids:
        raise BadInput(f"{answer.option!r} is not one of the answers; they are {', '.join(ids)}")
    if answer.allow and answer.option is None and option_for(permission, allow=True) is None:
        raise BadInput(f"the agent offers no answer that allows it; choose one with --option: {', '.join(ids)}")


def _check_changes_are_possible(state: RunState, answer: UserAnswer) -> None:
    """Check that an agent can make the requested changes."""
    if answer.changes is None or state.workflow is None:
        return
    workflow = msgspec.convert(state.workflow, Workflow)
    spec = workflow.phase(answer.request.removeprefix(APPROVAL_PREFIX))
    if spec is not None and change_target(workflow, spec) is None:
        raise BadInput(f"no phase of {workflow.name} can make changes for {spec.name}; deny it with --reason instead")


def _token_of(message: Message) -> str | None:
    given = try_decode_body(message.kind, message.body)
    return given.token if isinstance(given, UserAnswer) else None
