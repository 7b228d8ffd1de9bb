"""The program that a window is made with: it reads what it is to be from a pipe, and becomes that.

`python -m holdfast.agents.tmux.starting PIPE`. So no secret is on the disk or in the arguments of any process, nothing
of the tmux server's own environment reaches the agent, the pid that tmux tells is the agent's, and it begins when
somebody listens.
"""

import os
import sys

import msgspec

from holdfast.agents.tmux.order import Start
from holdfast.leaf.marks import CONVERSATION_MARK
from holdfast.leaf.tether import tether

_CANNOT = 127


def main(path: str) -> int:
    try:
        with open(path, "rb") as pipe:
            start = msgspec.json.decode(pipe.readline(), type=Start)
    except (OSError, msgspec.MsgspecError):  # whoever was to tell is gone
        return _CANNOT
    if start.tether is not None:
        os.set_inheritable(tether(start.tether, start.environment.get(CONVERSATION_MARK, "")), True)
    try:
        os.chdir(start.cwd)
        terminal = {
            name: os.environ[name] for name in ("TERM", "TERM_PROGRAM", "TMUX", "TMUX_PANE") if name in os.environ
        }
        os.execvpe(start.command[0], start.command, {**start.environment, **terminal})  # noqa: S606 - no shell is wanted
    except OSError as error:
        sys.stderr.write(f"{start.command[0]}: {error.strerror}\n")
        return _CANNOT


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
