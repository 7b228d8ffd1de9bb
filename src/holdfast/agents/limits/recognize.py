"""Tells a provider's limit or outage from an agent's other errors, by words that any provider may use.

Slow to import, so it is loaded when there is an error to explain.
"""

import json
import re
from typing import Any

from holdfast.agents.limits.headers import resets_at
from holdfast.agents.limits.problem import ProviderProblem
from holdfast.agents.limits.times import reset_time
from holdfast.core.conversation.auth_errors import is_auth_error
from holdfast.core.provider_limit import LimitKind

_QUOTA = re.compile(
    r"quota|usage.?limit|rate.?limit|too many requests|limit (?:was |has been |is )?(?:reached|exceeded)"
    r"|(?:hit|reached|exceeded|used up)\b[^.\n]{0,40}\b(?:limit|allowance|quota|credits)"
    r"|resource.?(?:has been )?exhausted|insufficient[ _]?(?:balance|credits?|funds)|out of (?:\w+ )?credits"
    r"|credit balance is too low|\b429\b|throttl",
    re.IGNORECASE,
)
_OUTAGE = re.compile(
    r"overloaded|(?:status|code|error|http|api)\W{0,3}(?:code\W{0,3})?(?:500|502|503|504|520|522|524|529)\b"
    r"|\b(?:500|502|503|504|529)\b[ :]+(?-i:[A-Z{\"])"
    r"|service (?:is )?(?:temporarily )?unavailable|bad gateway|gateway time-?out|internal server error"
    r"|temporarily (?:unavailable|down)|high demand"
    r"|ECONN(?:REFUSED|RESET|ABORTED)|ENOTFOUND|EAI_AGAIN|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|EPIPE|getaddrinfo"
    r"|connection (?:was )?(?:refused|reset|error|closed|aborted|timed out)|fetch failed|socket hang up"
    r"|network (?:error|is unreachable|connection lost)|name resolution|could not resolve|unable to connect"
    r"|stream disconnected|request timed out|failed to connect",
    re.IGNORECASE,
)
_TIMED = re.compile(r"\blimit|\bagain\b|\bresets?\b|\bretry", re.IGNORECASE)  # with a time, the words of a limit
_KINDS: dict[object, LimitKind | None] = {
    "rate_limit": LimitKind.QUOTA,
    "quota": LimitKind.QUOTA,
    "passing": LimitKind.OUTAGE,
    "auth": None,
    "context": None,
    "rejected": None,
}
_MAX_TEXT_CHARS = 8_000


def problem_in_error(text: str, now: float, *, code: int | None = None, data: object = None) -> ProviderProblem | None:
    """Return the limit or outage that an agent's error reports; None when it is another error."""
    if isinstance(data, dict) and data.get("kind") in _KINDS:  # our own agent says what it is
        kind = _KINDS[data["kind"]]
        at = resets_at({}, data, now) or (reset_time(text, now) if kind is LimitKind.QUOTA else None)
        return ProviderProblem(kind, at, "the agent's error data") if kind is not None else None
    searched, data = f"{text}\n{_as_text(data)}"[:_MAX_TEXT_CHARS], _decoded(data)
    at, how = resets_at({}, data, now), "the agent's error data"
    if at is None:
        at, how = reset_time(searched, now), "a time in the agent's error"
    if _QUOTA.search(searched):
        return ProviderProblem(LimitKind.QUOTA, at, how if at is not None else "the words of the agent's error")
    if is_auth_error(searched, code):
        return None
    if _OUTAGE.search(searched):
        return ProviderProblem(LimitKind.OUTAGE, at, "the words of the agent's error")
    if at is not None and _TIMED.search(searched):
        return ProviderProblem(LimitKind.QUOTA, at, how)
    return None


def _decoded(data: object) -> object:
    """Some agents pass the provider's answer on as text."""
    try:
        return json.loads(data) if isinstance(data, str) else data
    except ValueError:
        return data


def _as_text(data: Any) -> str:
    if data is None:
        return ""
    try:
        return data if isinstance(data, str) else json.dumps(data)
    except (TypeError, ValueError):
        return ""
