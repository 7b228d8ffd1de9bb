"""Answers of people to permission requests and approvals. The first answer to a request stands.

The id of an answer's message follows from the request. So there is one message per request, and a second answer finds
the first, whether it was applied already or not.
"""

import msgspec

from holdfast.core.state import GivenAnswer, PermissionRequest, RunState

APPROVAL_PREFIX = "approval-"  # followed by the name of a phase: the key of its request

_MAX_KEPT_ANSWERS = 50  # applied ones


ALLOW_OPTION_KINDS = ("allow_once", "allow_always")  # in order of preference
REJECT_OPTION_KINDS = ("reject_once", "reject_always")


def option_for(request: PermissionRequest, *, allow: bool) -> str | None:
    """The first option that allows, or that rejects; None without one."""
    kinds, offered = ALLOW_OPTION_KINDS if allow else REJECT_OPTION_KINDS, msgspec.json.decode(request.options)
    return next((option["id"] for kind in kinds for option in offered if option["kind"] == kind), None)


def option_of_kind(request: PermissionRequest, kind: str) -> str | None:
    """The first option of one kind; None without one."""
    return next((option["id"] for option in msgspec.json.decode(request.options) if option["kind"] == kind), None)


def approval_key(phase: str) -> str:
    return f"{APPROVAL_PREFIX}{phase}"


def answer_id(state: RunState, request: str) -> str:
    """The id of the message that answers a request. A phase that asks again, even in the same round, gets another."""
    phase = state.phases.get(request.removeprefix(APPROVAL_PREFIX)) if request.startswith(APPROVAL_PREFIX) else None
    return f"answer-{request}" if phase is None else f"answer-{request}-{phase.round}-{phase.asked}"


def keep_answer(state: RunState, message_id: str, answer: GivenAnswer) -> None:
    """Remember an applied answer."""
    state.answered[message_id] = answer
    for old in list(state.answered)[:-_MAX_KEPT_ANSWERS]:
        del state.answered[old]


def applied_answer(state: RunState, request: str) -> GivenAnswer | None:
    """The newest applied answer to a request whose key starts with this text."""
    return next((answer for answer in reversed(state.answered.values()) if answer.request.startswith(request)), None)


def last_answer(state: RunState) -> GivenAnswer | None:
    """The newest applied answer, if its session has not ended: another answer is too late."""
    newest = next(reversed(state.answered.values()), None)
    session = state.sessions.get(newest.sid or "") if newest is not None else None
    return newest if session is not None and not session.ended else None


def answer_text(answer: GivenAnswer) -> str:
    """The answer as text: what, by whom, and when."""
    decision = "approved" if answer.allow else "sent back for changes" if answer.changes else "denied"
    when = f" at {answer.at[:19].replace('T', ' ')}" if answer.at else ""
    why = f" ({answer.reason or answer.changes})" if answer.reason or answer.changes else ""
    return f"{decision} by {answer.by or 'an unknown person'}{when}{why}"
