"""An agent in its own terminal UI, in a window of the run's own tmux server.

What is spawned here is a go-between: an ACP agent that makes the window, types what it is told into it, and takes the
agent's reports for its answers. The tmux server is nobody's child and outlives us; it runs nothing of ours but windows,
whose processes carry the marks.
"""

import os
import re
import shutil
import subprocess

import msgspec

from holdfast.agents.environment import plain_environment
from holdfast.agents.launch import Launch, Spawn
from holdfast.agents.tmux.launch_request import ORDER, Order
from holdfast.leaf.errors import BadInput

_PROGRAM = "tmux"
_OLDEST = (3, 2)
_INSTALL = 'install it (Debian, Ubuntu: apt install tmux; Fedora: dnf install tmux), or set runtime.kind = "local"'


def spawned(launch: Launch) -> Spawn:
    problem = lacking()
    if problem is not None:
        raise BadInput(f"{problem}, and the agent is to run in it; {_INSTALL}")
    berth = launch.berth
    if berth is None:
        raise BadInput("an agent in tmux needs a run to report to; only agents of runs work there")
    order = Order(
        berth=berth,
        cwd=os.path.realpath(launch.cwd),
        environment={**plain_environment(), **launch.environment, **launch.marks},
        marks=launch.marks,
        tether=launch.tether,
    )
    environment = {**plain_environment(), **launch.marks, ORDER: msgspec.json.encode(order).decode()}
    return Spawn(berth.go_between, environment)


def lacking() -> str | None:
    """What keeps tmux from being used here; None when nothing does."""
    program = shutil.which(_PROGRAM)
    if program is None:
        return f"{_PROGRAM} is not installed"
    said = subprocess.run([program, "-V"], capture_output=True, text=True, check=False).stdout.strip()
    version = tuple(map(int, re.findall(r"\d+", said)[:2]))
    return None if not version or version >= _OLDEST else f"{said} is too old, 3.2 is needed"
