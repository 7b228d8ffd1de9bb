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
    r"(?<!disk )quota|usage.?limit|rate.?limit|too many requests"
    r"|(?:limit|cap) (?:was |has been |is )?(?:reached|exceeded)"
    r"|(?:hit|reached|exceeded|exhausted|used up)\b[^.\n]{0,40}\b(?:limit|allowance|quota|credits|requests|usage)"
    r"|(?:hit|reached) your (?:\w+ ){0,2}spend(?:ing)? cap|(?:free )?usage exceeded|out of (?:\w+ )?(?:credits|usage)"
    r"|resource.?(?:has been )?exhausted|insufficient[ _]?(?:balance|credits?|funds)"
    r"|credit balance is too low|\b429\b|throttl",
    re.IGNORECASE,
)
_OWN_LIMIT = re.compile(  # of one request or one turn: another time changes nothing
    r"\b(?:context|length|size|turn|step|iteration|recursion|depth|memory|time|tool call|input|output)s?[ _-]limit"
    r"|\b(?:context|input|output|prompt|completion|response|request|message|model|max(?:imum)?)s?[ _-]"
    r"(?:(?:context|window|token|length|size|input|output)s?[ _-])+limit",
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
    r"|stream disconnected|request timed out|failed to connect|error sending request|at capacity|no capacity available"
    r"|connection was closed",
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
    searched = f"{text}\n{_as_text(data)}"[:_MAX_TEXT_CHARS]
    at, how = resets_at({}, [data, text], now), "the agent's error data"
    if at is None:
        at, how = reset_time(searched, now), "a time in the agent's error"
    if _QUOTA.search(_OWN_LIMIT.sub("", searched)):
        return ProviderProblem(LimitKind.QUOTA, at, how if at is not None else "the words of the agent's error")
    if is_auth_error(searched, code):
        return None
    if _OUTAGE.search(searched):
        return ProviderProblem(LimitKind.OUTAGE, at, "the words of the agent's error")
    if at is not None and _TIMED.search(searched):
        return ProviderProblem(LimitKind.QUOTA, at, how)
    return None


def _as_text(data: Any) -> str:
    if data is None:
        return ""
    try:
        return data if isinstance(data, str) else json.dumps(data)
    except (TypeError, ValueError, RecursionError):
        return ""
