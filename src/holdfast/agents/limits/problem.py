"""What is known of a provider's limit or outage, and how an agent's last message reports one.

A message of a turn that ended normally is the agent's own work, so only the wording that the registry has for this
agent counts there, at the beginning of a short message.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from holdfast.core.provider_limit import LimitKind

_MAX_REPLY_CHARS = 600  # of a message that says only this


class ProviderProblem(NamedTuple):
    """`resets_at` is Unix time, None when unknown; `how` says how this was learnt."""

    kind: LimitKind
    resets_at: float | None
    how: str


def problem_in_reply(
    text: str, now: float, quota_wording: Sequence[str], outage_wording: Sequence[str]
) -> ProviderProblem | None:
    """Return what the last message of a turn reports, if it is nothing but the agent's wording for it."""
    text = text.strip()
    if not text or len(text) > _MAX_REPLY_CHARS:
        return None
    for kind, wordings in ((LimitKind.QUOTA, quota_wording), (LimitKind.OUTAGE, outage_wording)):
        if any(re.match(wording, text, re.IGNORECASE) for wording in wordings):
            from holdfast.agents.limits.times import reset_time  # noqa: PLC0415 - slow to import; few turns end so

            return ProviderProblem(kind, reset_time(text, now), "the agent's message")
    return None
