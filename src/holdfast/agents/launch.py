"""How an agent is started, and in what: plain data, for a config to fill."""

from collections.abc import Mapping
from typing import Literal, NamedTuple

import msgspec

from holdfast.core.conversation.terminal_ui import Tui
from holdfast.leaf.process.env_markers import CONVERSATION_MARK, RUN_MARK


class Runtime(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an agent runs in. All but `kind` is for a sandbox or a container; docs/runtimes.md tells what each does."""

    kind: Literal["local", "sandbox", "container", "tmux"] = "local"
    network: bool = True
    writable: tuple[str, ...] = ()  # beside its worktree: what it keeps of its own, as ~/.codex
    readable: tuple[str, ...] = ()  # what would be hidden otherwise
    commits: bool = False  # it may commit to its own branch; else the repository is there to be read
    image: str | None = None  # of a container
    socket: str | None = None  # of the container engine: unix:///run/docker.sock; else what DOCKER_HOST says

    @property
    def is_confined(self) -> bool:
        """Whether what runs in it cannot reach all that its user can. An agent in tmux can."""
        return self.kind in ("sandbox", "container")


LOCAL = Runtime()
PANE_LOST = 75  # the exit code of what stands for an agent in tmux, when that is gone
ANY_ROLE = ""  # for which a runtime or a model is chosen, when for no role by its name


def choose_runtime(chosen: Mapping[str, Runtime], role: str | None, of_agent: Runtime) -> Runtime:
    """What a role's agent runs in: the role's own runtime, else the agent's, else the one for any role."""
    usual = of_agent if of_agent != LOCAL else chosen.get(ANY_ROLE, LOCAL)
    return chosen.get(role or ANY_ROLE, usual)


class Berth(msgspec.Struct, frozen=True, kw_only=True):
    """The place of an agent that works in its own terminal UI: a window of the run's tmux."""

    home: str
    run: str
    conversation: str
    folder: str  # the run's own
    socket: str
    title: str
    tui: Tui
    endings: tuple[str, ...]  # the reports by which it says that its turn is over
    monitor: tuple[str, ...]  # what shows the run, in the first window
    go_between: tuple[str, ...]  # what speaks to us for it


class Launch(NamedTuple):
    """How to start an agent. `environment` is what it gets beside what any program needs."""

    command: tuple[str, ...]
    cwd: str
    environment: Mapping[str, str]
    mark: str
    stderr: str | None = None  # the file that gets its complaints; without one they are part of its output
    tether: str | None = None  # a file that it holds open, by which it is found though it shed its environment
    runtime: Runtime = LOCAL
    worktree: str | None = None  # when `cwd` is a folder in it
    reads: bool = True  # whether files are to be read through us
    berth: Berth | None = None  # in tmux
    writes: tuple[str, ...] = ()  # folders that it may write to for once, when it is confined
    reports: str | None = None  # the file that it reports to, when it is confined; its terminals do not have it

    @property
    def marks(self) -> dict[str, str]:
        """What its processes are found by."""
        run = {RUN_MARK: self.environment[RUN_MARK]} if RUN_MARK in self.environment else {}
        return {**run, CONVERSATION_MARK: self.mark}


class Spawn(NamedTuple):
    """What is started on this machine for a launch: with nothing but this environment, and these open files."""

    command: tuple[str, ...]
    environment: Mapping[str, str]
    files: tuple[int, ...] = ()  # to be closed once it runs
