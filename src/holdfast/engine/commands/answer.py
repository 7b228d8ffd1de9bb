"""Answering what a run asks: durable in its inbox, once for each request, whoever owns the run, or nobody."""

import secrets

import msgspec

from holdfast.core.log.codec import UNREADABLE
from holdfast.core.messages.answers import APPROVAL, answer_id, applied_answer, last_answer, option_for, told_answer
from holdfast.core.state import GivenAnswer, RunState
from holdfast.core.summary.gates import change_target
from holdfast.core.summary.needs import Need
from holdfast.core.work.workflow import Workflow
from holdfast.engine.inbox.answers import ANSWER, Answer, _read
from holdfast.engine.inbox.send import user_name
from holdfast.leaf.clock import now
from holdfast.leaf.errors import AlreadyAnswered, BadInput, StorageFailed
from holdfast.store.base import Message
from holdfast.store.files.store import FileStore


async def give_answer(home: str, run_id: str, state: RunState, need: Need, given: Answer) -> str:
    """Put the answer to an open request into the inbox; `AlreadyAnswered` when there is one. The message's id."""
    _must_be_offered(state, given)
    given = msgspec.structs.replace(given, at=now(), token=secrets.token_hex(6))
    message = Message(
        id=answer_id(state, given.request),
        kind=ANSWER,
        sender=user_name(),
        body=msgspec.Raw(msgspec.json.encode(given)),
    )
    inbox = FileStore(home).inbox(run_id)
    try:
        first = await inbox.put_first(message)
    except StorageFailed:  # once more, for the same message: it may be there by now
        first = await inbox.put_first(message)
    if first is not None and _token_of(first) != given.token:
        raise already_answered(need.text, _read(first), run_id, applied=False)
    return message.id


def must_not_be_answered(run_id: str, state: RunState, request: str | None) -> None:
    """That a request which is not open was not answered: with its name, or else the newest of a session at work."""
    given = applied_answer(state, request) if request is not None else last_answer(state)
    if given is not None:
        raise already_answered(given.text, given, run_id, applied=True)


def already_answered(text: str, given: GivenAnswer | None, run_id: str, *, applied: bool) -> AlreadyAnswered:
    answered = told_answer(given) if given is not None else "answered"
    then = (
        "it was applied"
        if applied
        else f"it is applied with the next step of the run, or with: holdfast resume {run_id}"
    )
    return AlreadyAnswered(f"{text}: already {answered}; the first answer stands, and {then}")


def _must_be_offered(state: RunState, given: Answer) -> None:
    """That the answer can be applied: it is the only one that counts."""
    if given.request.startswith(APPROVAL):
        _must_be_changeable(state, given)
        return
    asked = state.permissions[given.request]
    ids = [one["id"] for one in msgspec.json.decode(asked.options)]
    if given.option is not None and given.option not in ids:
        raise BadInput(f"{given.option!r} is not one of the answers; they are {', '.join(ids)}")
    if given.allow and given.option is None and option_for(asked, allow=True) is None:
        raise BadInput(f"the agent offers no answer that allows it; choose one with --option: {', '.join(ids)}")


def _must_be_changeable(state: RunState, given: Answer) -> None:
    """That somebody can make the changes that are asked for."""
    if given.changes is None or state.workflow is None:
        return
    workflow = msgspec.convert(state.workflow, Workflow)
    spec = workflow.phase(given.request.removeprefix(APPROVAL))
    if spec is not None and change_target(workflow, spec) is None:
        raise BadInput(f"no phase of {workflow.name} can make changes for {spec.name}; deny it with --reason instead")


def _token_of(message: Message) -> str | None:
    try:
        return msgspec.json.decode(message.body, type=Answer).token
    except UNREADABLE:
        return None
