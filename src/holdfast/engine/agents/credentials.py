"""Advice after an agent reports an authentication error: what it did not get, and how to pass it."""

import os
from collections.abc import Mapping

from holdfast.agents.registry import AgentDefinition, find_agent, withheld_secrets
from holdfast.core.conversation.auth_errors import SecretVariables, authentication_advice, is_auth_error
from holdfast.engine.home import Home

_MAX_STDERR_BYTES = 4_000  # of an agent's stderr that are searched
_PLAYBOOK_PREFIX = "playbook:"  # needs no login, and has no table in the config


def auth_advice(
    agent: str | None, agents: Mapping[str, AgentDefinition], error: str, *, code: int | None = None, stderr: str = ""
) -> str:
    """Return the sentences to append to an error; empty unless it is about authentication."""
    if not agent or agent.startswith(_PLAYBOOK_PREFIX) or not (is_auth_error(error, code) or is_auth_error(stderr)):
        return ""
    entry, name = find_agent(agent, agents), agent.split()[0]
    variables = SecretVariables(
        withheld=sorted(withheld_secrets(entry), key=lambda variable: not _is_about(variable, name)),
        passed=[variable for variable in entry.secrets if os.environ.get(variable)],
        unset=[variable for variable in entry.secrets if not os.environ.get(variable)],
    )
    return f". {authentication_advice(name, variables, Home().config_file)}"


def _is_about(variable: str, agent: str) -> bool:
    return agent.upper().replace("-", "_") in variable.upper()


def stderr_since(path: str, position: int) -> str:
    """Return the end of what was written to an agent's stderr file after a position."""
    try:
        with open(path, "rb") as file:
            file.seek(max(position, os.fstat(file.fileno()).st_size - _MAX_STDERR_BYTES))
            return file.read().decode(errors="replace")
    except OSError:
        return ""


def file_size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:
        return 0
