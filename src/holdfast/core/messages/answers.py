"""Answers of people: to permission requests, and to phases that ask for approval. The first answer to a request stands.

The id of the message that carries an answer follows from the request. So there is one message for each request, and
whoever answers second finds the first, whether it was applied already or not.
"""

import msgspec

from holdfast.core.state import GivenAnswer, Permission, RunState

APPROVAL = "approval-"  # with the name of a phase: the key of its question

_KEPT = 50  # answers that were applied


ALLOWING = ("allow_once", "allow_always")  # kinds of options, the one to choose first
REFUSING = ("reject_once", "reject_always")


def option_for(asked: Permission, *, allow: bool) -> str | None:
    """The first answer that allows, or that refuses; None when there is no such."""
    kinds, offered = ALLOWING if allow else REFUSING, msgspec.json.decode(asked.options)
    return next((one["id"] for kind in kinds for one in offered if one["kind"] == kind), None)


def approval_key(phase: str) -> str:
    return f"{APPROVAL}{phase}"


def answer_id(state: RunState, request: str) -> str:
    """The id of the message that answers a request. A phase may ask again, in the same round too: that is another."""
    phase = state.phases.get(request.removeprefix(APPROVAL)) if request.startswith(APPROVAL) else None
    return f"answer-{request}" if phase is None else f"answer-{request}-{phase.round}-{phase.asked}"


def keep_answer(state: RunState, message: str, given: GivenAnswer) -> None:
    """Remember an answer that was applied."""
    state.answered[message] = given
    for old in list(state.answered)[:-_KEPT]:
        del state.answered[old]


def applied_answer(state: RunState, request: str) -> GivenAnswer | None:
    """The newest answer to a request that can be named by this beginning of its key."""
    return next((one for one in reversed(state.answered.values()) if one.request.startswith(request)), None)


def last_answer(state: RunState) -> GivenAnswer | None:
    """The newest answer that was applied in a session that has no end: whoever answers now comes too late for it."""
    newest = next(reversed(state.answered.values()), None)
    session = state.sessions.get(newest.sid or "") if newest is not None else None
    return newest if session is not None and not session.ended else None


def told_answer(given: GivenAnswer) -> str:
    """In words: what was answered, by whom, and when."""
    what = "approved" if given.allow else "sent back for changes" if given.changes else "denied"
    when = f" at {given.at[:19].replace('T', ' ')}" if given.at else ""
    why = f" ({given.reason or given.changes})" if given.reason or given.changes else ""
    return f"{what} by {given.by or 'somebody'}{when}{why}"
