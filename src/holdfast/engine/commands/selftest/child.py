"""The other process of a check: what must hold between two is tried with two.

python -m holdfast.engine.commands.selftest.child append FILE FLAGS COUNT NAME    on a line from its stdin
python -m holdfast.engine.commands.selftest.child hold FILE                       a lock, until its stdin ends
"""

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.leaf.process.own_program import holdfast_command


@contextmanager
def child_process(*arguments: str) -> Iterator["subprocess.Popen[str]"]:
    """Start a child process; it is dead when the block ends."""
    command = holdfast_command(*arguments, module=__name__)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def read_line(process: "subprocess.Popen[str]") -> str:
    """Return the next line of the process; empty when it is dead."""
    assert process.stdout is not None, "it was asked for"
    return process.stdout.readline().strip()


def send_line(process: "subprocess.Popen[str]") -> None:
    assert process.stdin is not None, "it was asked for"
    process.stdin.write("\n")
    process.stdin.flush()


def record_line(name: str, number: int) -> bytes:
    return f"{name} {number:6} {'x' * 80}\n".encode()


def _print_line(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


def _append(path: str, flags: str, count: str, name: str) -> None:
    fd = os.open(path, os.O_WRONLY | int(flags))
    _print_line("ready")
    sys.stdin.readline()
    for number in range(int(count)):
        os.write(fd, record_line(name, number))


def _hold(path: str) -> None:
    fd = os.open(path, os.O_RDWR)
    fcntl.flock(fd, fcntl.LOCK_EX)
    _print_line("held")
    sys.stdin.read()


if __name__ == "__main__":
    what, *arguments = sys.argv[1:]
    if what == "append":
        _append(*arguments)
    else:
        _hold(*arguments)
