"""The program that a tmux window is created with: it reads its launch request from a pipe, and execs the agent.

`python -m holdfast.agents.tmux.exec_agent PIPE`. So no secret is on the disk or in the arguments of a process, the tmux
server's own environment does not reach the agent, the pid that tmux reports is the agent's, and it starts only when
the reader of the pipe is there.
"""

import os
import sys

import msgspec

from holdfast.agents.tmux.launch_request import Start
from holdfast.leaf.process.env_markers import CONVERSATION_MARK
from holdfast.leaf.process.fd_marker import tether

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
