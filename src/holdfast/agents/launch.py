"""How an agent is started, and in which runtime: plain data, filled from the config."""

from collections.abc import Mapping
from typing import Literal, NamedTuple

import msgspec

from holdfast.core.conversation.terminal_ui import TerminalUi
from holdfast.leaf.process.env_markers import CONVERSATION_MARK, RUN_MARK


class Runtime(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an agent runs in. All settings but `kind` are for sandboxes and containers; see docs/runtimes.md."""

    kind: Literal["local", "sandbox", "container", "tmux"] = "local"
    network: bool = True
    writable: tuple[str, ...] = ()  # besides its worktree: the agent's own files, such as ~/.codex
    readable: tuple[str, ...] = ()  # paths that are hidden by default
    commits: bool = False  # it can commit to its own branch; else the repository is read-only
    image: str | None = None  # of a container
    socket: str | None = None  # of the container engine, such as unix:///run/docker.sock; default: DOCKER_HOST

    @property
    def is_confined(self) -> bool:
        """True when the agent can access less than its user. An agent in tmux is not confined."""
        return self.kind in ("sandbox", "container")


LOCAL = Runtime()
PANE_LOST_CODE = 75  # the exit code of the proxy of an agent in tmux, when the agent's pane is gone
ANY_ROLE = ""  # the key of the runtime or model for roles without their own


def choose_runtime(chosen: Mapping[str, Runtime], role: str | None, agent_runtime: Runtime) -> Runtime:
    """Return the runtime of a role's agent: the role's own, else the agent's, else the one for any role."""
    default = agent_runtime if agent_runtime != LOCAL else chosen.get(ANY_ROLE, LOCAL)
    return chosen.get(role or ANY_ROLE, default)


class TmuxSlot(msgspec.Struct, frozen=True, kw_only=True):
    """The window in the run's tmux server where an agent works in its own terminal UI."""

    home: str
    run: str
    conversation: str
    folder: str  # the run's folder
    socket: str
    title: str
    tui: TerminalUi
    endings: tuple[str, ...]  # the reports that end a turn
    monitor: tuple[str, ...]  # the command that shows the run, in the first window
    proxy: tuple[str, ...]  # the command that speaks ACP for it


class Launch(NamedTuple):
    """How to start an agent. `environment` is added to the plain environment that every program gets."""

    command: tuple[str, ...]
    cwd: str
    environment: Mapping[str, str]
    mark: str
    stderr: str | None = None  # the file for its stderr; without one, stderr is part of its output
    fd_marker: str | None = None  # a file that it holds open, which identifies it even without its environment
    runtime: Runtime = LOCAL
    worktree: str | None = None  # when `cwd` is a folder inside of it
    reads: bool = True  # whether it reads files through us
    tmux_slot: TmuxSlot | None = None  # for an agent in tmux
    writes: tuple[str, ...] = ()  # extra folders that it can write to, when it is confined
    reports: str | None = None  # its report file, when it is confined; its terminals do not get it

    @property
    def env_markers(self) -> dict[str, str]:
        """Return the variables that identify its processes."""
        run = {RUN_MARK: self.environment[RUN_MARK]} if RUN_MARK in self.environment else {}
        return {**run, CONVERSATION_MARK: self.mark}


class SpawnCommand(NamedTuple):
    """The process to start on this machine for a launch, with exactly this environment and these open files."""

    command: tuple[str, ...]
    environment: Mapping[str, str]
    inherited_fds: tuple[int, ...] = ()  # the caller closes them after the start
