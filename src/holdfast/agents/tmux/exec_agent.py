"""The program that a tmux window is created with: it reads its launch request from a pipe, and execs the agent.

`python -m holdfast.agents.tmux.exec_agent PIPE`. So no secret is on the disk or in the arguments of a process, the tmux
server's own environment does not reach the agent, the pid that tmux reports is the agent's, and it starts only when
the reader of the pipe is there.
"""

import os
import sys

import msgspec

from holdfast.agents.tmux.launch_request import ExecRequest
from holdfast.leaf.process.env_markers import CONVERSATION_MARK
from holdfast.leaf.process.fd_marker import open_marker_fd

_CANNOT_EXEC_CODE = 127


def main(path: str) -> int:
    try:
        with open(path, "rb") as pipe:
            request = msgspec.json.decode(pipe.readline(), type=ExecRequest)
    except (OSError, msgspec.MsgspecError):  # the proxy died
        return _CANNOT_EXEC_CODE
    if request.fd_marker is not None:
        os.set_inheritable(open_marker_fd(request.fd_marker, request.environment.get(CONVERSATION_MARK, "")), True)
    try:
        os.chdir(request.cwd)
        terminal = {
            name: os.environ[name] for name in ("TERM", "TERM_PROGRAM", "TMUX", "TMUX_PANE") if name in os.environ
        }
        os.execvpe(request.command[0], request.command, {**request.environment, **terminal})  # noqa: S606 - no shell
    except OSError as error:
        sys.stderr.write(f"{request.command[0]}: {error.strerror}\n")
        return _CANNOT_EXEC_CODE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
