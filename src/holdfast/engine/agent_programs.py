"""Agents that come with Holdfast, as programs: for the command line, which does not know the agents' room."""

from typing import Any

from holdfast.agents.playbook.format import schema
from holdfast.agents.playbook.program import STATE, default_state, serve
from holdfast.agents.playbook.reading import read_playbook

__all__ = ["STATE", "check_playbook", "default_state", "play", "playbook_schema"]


def play(file: str, state: str | None) -> int:
    """Be the playbook agent on stdin and stdout until the client goes; the exit code."""
    return serve(file, state or default_state())


def check_playbook(file: str) -> int:
    """How many turns a playbook has; `BadInput` says what is wrong with it."""
    return len(read_playbook(file).turns)


def playbook_schema() -> dict[str, Any]:
    return schema()
