"""The proxy process of a container: it has the agent's pipes, and dies with its parent.

Runs as `python -m holdfast.agents.runtimes.container_proxy`, with the request in an environment variable. It exits with
the container's exit code, or with 125 and one line when the engine refuses.
"""

import ctypes
import os
import signal
import socket
import sys
from contextlib import suppress
from threading import Thread
from types import FrameType
from typing import NoReturn

import msgspec

from holdfast.agents.runtimes.container import REQUEST_VARIABLE
from holdfast.agents.runtimes.engine import ContainerEngine, ContainerRequest
from holdfast.leaf.errors import HoldfastError

_PR_SET_PDEATHSIG = 1
_CHUNK_BYTES = 64 * 1024
_HEADER_BYTES = 8  # 1 for stdout or 2 for stderr, three zero bytes, and the length of the frame
_REFUSED_CODE = 125
_TERMINATED_CODE = 128 + signal.SIGTERM


def main() -> int:
    request = msgspec.json.decode(os.environ[REQUEST_VARIABLE], type=ContainerRequest)
    signal.signal(signal.SIGTERM, _exit_on_signal)
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != request.parent:  # it died before prctl
        return _TERMINATED_CODE
    try:
        return _run(request)
    except HoldfastError as error:
        sys.stderr.write(f"{error}\n")
        return _REFUSED_CODE


def _run(request: ContainerRequest) -> int:
    with ContainerEngine(request.address) as engine:
        try:
            container = engine.create(request)
            with engine.attach(container) as pipe:
                engine.start(container)
                Thread(target=_forward_input, args=(pipe,), daemon=True).start()
                _forward_output(pipe)
            return engine.wait(container)
        finally:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            engine.remove_all(request.labels)


def _exit_on_signal(_: int, __: FrameType | None) -> NoReturn:
    sys.exit(_TERMINATED_CODE)


def _forward_input(pipe: socket.socket) -> None:
    """Forward our stdin to the agent until it ends."""
    with suppress(OSError):
        while piece := os.read(0, _CHUNK_BYTES):
            pipe.sendall(piece)
        pipe.shutdown(socket.SHUT_WR)


def _forward_output(pipe: socket.socket) -> None:
    """Forward the agent's outputs to ours until they end."""
    while len(header := _read_exactly(pipe, _HEADER_BYTES)) == _HEADER_BYTES:
        left = int.from_bytes(header[4:])
        while left and (piece := pipe.recv(min(left, _CHUNK_BYTES))):
            left -= len(piece)
            _write_all(header[0], piece)


def _read_exactly(pipe: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count and (piece := pipe.recv(count - len(found))):
        found += piece
    return found


def _write_all(fd: int, piece: bytes) -> None:
    while piece:
        piece = piece[os.write(fd, piece) :]


if __name__ == "__main__":
    sys.exit(main())
