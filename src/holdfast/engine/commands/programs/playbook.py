"""Agents that come with Holdfast, as programs: for the command line, which may not import the agents package."""

from typing import Any

from holdfast.agents.playbook.format import schema
from holdfast.agents.playbook.program import STATE_VARIABLE, default_state, serve
from holdfast.agents.playbook.reader import read_playbook
from holdfast.agents.playbook.sessions import StateFolder
from holdfast.agents.playbook.terminal import TerminalOptions, serve_terminal

__all__ = [
    "STATE_VARIABLE",
    "TerminalOptions",
    "check_playbook",
    "default_state",
    "playbook_schema",
    "serve_playbook",
    "serve_playbook_terminal",
]


def serve_playbook(file: str, state: str | None) -> int:
    """Run the playbook agent on stdin and stdout until the client disconnects; returns the exit code."""
    return serve(file, state or default_state())


def serve_playbook_terminal(file: str, state: str | None, options: TerminalOptions) -> int:
    """Run the playbook agent for a person who types, until the terminal is closed."""
    return serve_terminal(read_playbook(file), file, StateFolder(state or default_state()), options)


def check_playbook(file: str) -> int:
    """Return how many turns a playbook has; raises `BadInput` if it is invalid."""
    return len(read_playbook(file).turns)


def playbook_schema() -> dict[str, Any]:
    return schema()
