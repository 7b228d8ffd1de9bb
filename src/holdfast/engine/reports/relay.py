"""The MCP server that agents start: passes each line to the runner, which serves the tools, and its answer back.

    python -I -S relay.py SOCKET HEADER COMMAND…

Every agent starts one, so it loads nothing but builtins: it takes no more than the interpreter. When no runner answers,
it becomes COMMAND, the complete server, which stores reports itself. That one gets the line without an answer, under
the same message id, because the runner may have died after it stored the report and before it said so.

The header tells the runner who reports. For each line the runner answers with one, which is empty for a notification.
"""

import posix
import sys
from _socket import AF_UNIX, SOCK_STREAM, socket

_ANSWER_S = 30.0  # a runner that is stopped or hangs for longer is not waited for
_CHUNK_BYTES = 1 << 16
_STDIN, _STDOUT = 0, 1
_INTERRUPTED = 130


class _Runner:
    """The connection to the runner. Raises `OSError` when it is lost."""

    def __init__(self, path: str, header: str) -> None:
        self._socket = socket(AF_UNIX, SOCK_STREAM)
        self._socket.settimeout(_ANSWER_S)
        self._socket.connect(path)
        self._socket.sendall(header.encode("utf-8", "surrogateescape") + b"\n")

    def ask(self, line: bytes) -> bytes:
        self._socket.sendall(line + b"\n")
        parts: list[bytes] = []
        while not parts or not parts[-1].endswith(b"\n"):
            data = self._socket.recv(_CHUNK_BYTES)
            if not data:
                raise ConnectionResetError
            parts.append(data)
        return b"".join(parts)


def relay(path: str, header: str, command: list[str]) -> None:
    prefix, unread, number = posix.urandom(9).hex(), b"", 0
    try:
        runner = _Runner(path, f"{prefix} {header}")
        while data := posix.read(_STDIN, _CHUNK_BYTES):
            unread += data
            while b"\n" in unread:
                answer = runner.ask(unread[: unread.index(b"\n")])
                _write_all(answer.lstrip(b"\n"))
                unread, number = unread[unread.index(b"\n") + 1 :], number + 1
    except OSError:
        _become(command, prefix, number, unread)


def _become(command: list[str], prefix: str, number: int, unread: bytes) -> None:
    """The server reads from a file in memory what we have read and not passed on."""
    file = posix.memfd_create("unread")
    rest = memoryview(unread)
    while rest:
        rest = rest[posix.write(file, rest) :]
    posix.lseek(file, 0, 0)
    posix.set_inheritable(file, True)
    posix.execv(command[0], [*command, "--continue", f"{file}:{prefix}:{number}"])


def _write_all(data: bytes) -> None:
    """A client that has closed its end gets no answer; the end of stdin then ends us."""
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[posix.write(_STDOUT, rest) :]
        except BrokenPipeError:
            return


if __name__ == "__main__":
    try:
        relay(sys.argv[1], sys.argv[2], sys.argv[3:])
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
