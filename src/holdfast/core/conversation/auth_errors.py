"""Recognise authentication errors of agents, and say what the user can do."""

import re
from collections.abc import Sequence
from typing import NamedTuple

_AUTH_REQUIRED_CODE = -32000  # the protocol's code; some agents use it for other errors too
_AUTH_ERROR = (  # compiled when an agent fails
    r"(?i)\b401\b|unauthori[sz]ed|unauthenticated|authentication|not (?:logged|signed) in"
    r"|(?:invalid|incorrect|missing|wrong|expired|no|bad)[\w\s'\"-]{0,20}"
    r"(?:api[ _-]?key|credential|access token|auth token)"
    r"|api[ _-]?key[\w\s'\"-]{0,30}(?:invalid|incorrect|missing|required|not (?:set|found|provided|valid)|expired)"
    r"|(?:please|must|need to|first|run|use)\b[^.\n]{0,30}\blog ?in\b|/login\b|\blogin (?:required|first)"
    r"|environment variable[^.\n]{0,40}_(?:KEY|TOKEN)\b"
)
_OTHER_LIMITS = r"(?i)quota|rate.?limit|usage limit|overloaded|credit"
_MAX_LISTED = 8  # variables in a message


def is_auth_error(text: str, code: int | None = None) -> bool:
    """Whether an agent's error says that it has no valid login or key."""
    if re.search(_AUTH_ERROR, text):
        return True
    return code == _AUTH_REQUIRED_CODE and not re.search(_OTHER_LIMITS, text)


class SecretVariables(NamedTuple):
    """Names of secret variables in the user's environment, for one agent."""

    withheld: Sequence[str]
    passed: Sequence[str]
    unset: Sequence[str]  # would be passed if set


def authentication_advice(agent: str, variables: SecretVariables, config_file: str) -> str:
    """The next step after an authentication error."""
    withheld, passed, unset = variables
    if withheld:
        names = ", ".join(f'"{name}"' for name in (*passed, withheld[0]))
        return (
            "These variables of your environment look like secrets and were withheld "
            f"from {agent}: {_join_names(withheld)}. "
            f"To pass {withheld[0]}, put this into {config_file}: [agents.{agent}] secrets = [{names}]"
        )
    given = f"It was given {_join_names(passed)}. " if passed else ""
    instead = f", or set one of {_join_names(unset)}" if unset else ""
    return f"{given}No variable was withheld from {agent}: log in with its own program{instead}"


def _join_names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MAX_LISTED} more" if len(names) > _MAX_LISTED else ""
    return ", ".join(names[:_MAX_LISTED]) + more
