"""Telling an authentication error from any other error that an agent reports, and what the user can do about it."""

import re
from collections.abc import Sequence
from typing import NamedTuple

_AUTH_REQUIRED = -32000  # the protocol's code; some agents use it for other refusals too
_WORDS = re.compile(
    r"\b401\b|unauthori[sz]ed|unauthenticated|authentication|not (?:logged|signed) in"
    r"|(?:invalid|incorrect|missing|wrong|expired|no|bad)[\w\s'\"-]{0,20}"
    r"(?:api[ _-]?key|credential|access token|auth token)"
    r"|api[ _-]?key[\w\s'\"-]{0,30}(?:invalid|incorrect|missing|required|not (?:set|found|provided|valid)|expired)"
    r"|(?:please|must|need to|first|run|use)\b[^.\n]{0,30}\blog ?in\b|/login\b|\blogin (?:required|first)"
    r"|environment variable[^.\n]{0,40}_(?:KEY|TOKEN)\b",
    re.IGNORECASE,
)
_OTHER_LIMITS = re.compile(r"quota|rate.?limit|usage limit|overloaded|credit", re.IGNORECASE)
_NAMED = 8  # variables that a message names


def is_auth_error(text: str, code: int | None = None) -> bool:
    """Whether an agent's error says that it has no valid login or key."""
    if _WORDS.search(text):
        return True
    return code == _AUTH_REQUIRED and not _OTHER_LIMITS.search(text)


class Variables(NamedTuple):
    """Secrets in the user's environment, by name, as they concern one agent."""

    withheld: Sequence[str]
    passed: Sequence[str]
    unset: Sequence[str]  # those that it would get


def advice(agent: str, variables: Variables, config: str) -> str:
    """The next step after an authentication error. `config` is the user's config file."""
    withheld, passed, unset = variables
    if withheld:
        names = ", ".join(f'"{name}"' for name in (*passed, withheld[0]))
        return (
            f"These variables of your environment look like secrets and were withheld from {agent}: {_list(withheld)}. "
            f"To pass {withheld[0]}, put this into {config}: [agents.{agent}] secrets = [{names}]"
        )
    given = f"It got {_list(passed)}. " if passed else ""
    instead = f", or set one of {_list(unset)}" if unset else ""
    return f"{given}No variable was withheld from {agent}: log in with its own program{instead}"


def _list(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
