"""A terminal to run a program in: what it shows depends on there being one."""

import fcntl
import os
import pty
import struct
import termios

from tests.cli.program import Program

_SIZE = "HHHH"


def shown(holdfast: Program, *arguments: str, columns: int = 80, **env: str) -> str:
    """What the program writes when stdout and stderr are a terminal that wide."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack(_SIZE, 24, columns, 0, 0))
    environment = {"TERM": "xterm-256color", **env}
    with holdfast.start(*arguments, env=environment, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        output = _all_of(ours)
        assert process.wait() == 0, output
    os.close(ours)
    return output.replace("\r\n", "\n")


def _all_of(fd: int) -> str:
    data = b""
    while True:
        try:
            piece = os.read(fd, 65536)
        except OSError:  # how a terminal says that its last user is gone
            return data.decode()
        if not piece:
            return data.decode()
        data += piece
