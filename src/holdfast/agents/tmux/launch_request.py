"""The requests from us to the tmux proxy, and from the proxy to the program that becomes the agent."""

from collections.abc import Mapping

import msgspec

from holdfast.agents.launch import TmuxSlot

REQUEST_VARIABLE = "HOLDFAST_TMUX"  # the proxy's request: other users could read it in its arguments


class TmuxLaunchRequest(msgspec.Struct, frozen=True, kw_only=True):
    """An agent to start in a window."""

    slot: TmuxSlot
    cwd: str
    environment: Mapping[str, str]
    env_markers: Mapping[str, str]
    fd_marker: str | None = None


class ExecRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A command to execute in a window, with its whole environment and its marker file."""

    command: tuple[str, ...]
    cwd: str
    environment: Mapping[str, str]
    fd_marker: str | None = None
