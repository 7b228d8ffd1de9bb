"""Why an agent did not start, as one message: how its process ended, and the last lines that it wrote to stderr."""

import re

from holdfast.agents.acp.driver import AgentExited, AgentRefused, AgentSilent
from holdfast.core.conversation.auth_errors import is_auth_error
from holdfast.core.text.cut import cut

_MAX_LINES = 3
_MAX_CHARS = 400
_USAGE_CODES = frozenset({2, 126, 127})  # wrong arguments, no permission to run it, not found
_PERMANENT = re.compile(
    r"requires? Node|Unsupported engine|SyntaxError|Cannot find module|ERR_MODULE|no model", re.IGNORECASE
)
_ANSI_CODE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_STACK_LINE = re.compile(r"^\s*(?:at |File \"|node:|\^+$|Node\.js v\d)")
_OWN_PREFIX = "holdfast: "


def start_failure_text(agent: str | None, error: Exception, stderr: str) -> str:
    """Return what happened and what the agent wrote about it."""
    cause = last_lines(stderr)
    if not isinstance(error, AgentExited):
        return f"{agent} did not start: {error}{f': {cause}' if cause else ''}"
    return f"{agent} failed to start ({error.how}){f': {cause}' if cause else ''}"


def last_lines(stderr: str) -> str:
    """Return the last lines that say something, as one line; lines of a stack trace only when there are no others."""
    lines = [_ANSI_CODE.sub("", line).strip() for line in stderr.splitlines()]
    lines = [line for line in lines if line]
    telling = [line for line in lines if not _STACK_LINE.match(line)] or lines
    joined = " / ".join(line.removeprefix(_OWN_PREFIX) for line in telling[-_MAX_LINES:])
    return cut(joined, _MAX_CHARS)


def is_permanent(error: Exception, stderr: str) -> bool:
    """Whether the next attempt would end the same way: it lacks an argument, a program, a login or a newer Node.js."""
    if isinstance(error, AgentRefused | AgentSilent):
        return False
    code = error.code if isinstance(error, AgentExited) else None
    return code in _USAGE_CODES or (bool(code) and (is_auth_error(stderr) or bool(_PERMANENT.search(stderr))))
