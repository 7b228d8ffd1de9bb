"""An agent in its own terminal UI, in a window of the run's own tmux server.

The spawned process is a proxy: an ACP agent that creates the window, types prompts into it, and takes the agent's
reports as its answers. The tmux server is not our child and outlives us; it runs only windows, whose processes carry
the markers.
"""

import os
import re
import shutil
import subprocess

import msgspec

from holdfast.agents.environment import plain_environment
from holdfast.agents.launch import Launch, SpawnCommand
from holdfast.agents.tmux.launch_request import REQUEST_VARIABLE, TmuxLaunchRequest
from holdfast.leaf.errors import BadInput

_PROGRAM = "tmux"
_MIN_VERSION = (3, 2)
_INSTALL_ADVICE = (
    'install it (Debian, Ubuntu: apt install tmux; Fedora: dnf install tmux), or set runtime.kind = "local"'
)


def spawn_command(launch: Launch) -> SpawnCommand:
    problem = missing_requirement()
    if problem is not None:
        raise BadInput(f"cannot run the agent in tmux: {problem}; {_INSTALL_ADVICE}")
    slot = launch.tmux_slot
    if slot is None:
        raise BadInput("only agents of a run can work in tmux")
    request = TmuxLaunchRequest(
        slot=slot,
        cwd=os.path.realpath(launch.cwd),
        environment={**plain_environment(), **launch.environment, **launch.env_markers},
        env_markers=launch.env_markers,
        fd_marker=launch.fd_marker,
    )
    environment = {**plain_environment(), **launch.env_markers, REQUEST_VARIABLE: msgspec.json.encode(request).decode()}
    return SpawnCommand(slot.proxy, environment)


def missing_requirement() -> str | None:
    """Return why tmux cannot be used here; None when it can."""
    program = shutil.which(_PROGRAM)
    if program is None:
        return f"{_PROGRAM} is not installed"
    output = subprocess.run([program, "-V"], capture_output=True, text=True, check=False).stdout.strip()
    version = tuple(map(int, re.findall(r"\d+", output)[:2]))
    return None if not version or version >= _MIN_VERSION else f"{output} is too old, 3.2 is needed"
