"""The process that stands for a container: it has the agent's pipes, and dies with whoever started it.

`python -m holdfast.agents.runtimes.container_proxy`, with the order in a variable of the environment. It ends with the
container's exit code, or with 125 and one line when the engine says no.
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

from holdfast.agents.runtimes.container import ORDER
from holdfast.agents.runtimes.engine import Engine, Order
from holdfast.leaf.errors import HoldfastError

_PR_SET_PDEATHSIG = 1
_PIECE = 64 * 1024
_HEADER = 8  # bytes: 1 stdout or 2 stderr, three of nothing, and the length of the frame
_REFUSED = 125
_TERMINATED = 128 + signal.SIGTERM


def main() -> int:
    order = msgspec.json.decode(os.environ[ORDER], type=Order)
    signal.signal(signal.SIGTERM, _leave)
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != order.parent:  # it died before we could ask to be told
        return _TERMINATED
    try:
        return _run(order)
    except HoldfastError as error:
        sys.stderr.write(f"{error}\n")
        return _REFUSED


def _run(order: Order) -> int:
    with Engine(order.address) as engine:
        try:
            container = engine.create(order)
            with engine.attach(container) as pipe:
                engine.start(container)
                Thread(target=_give, args=(pipe,), daemon=True).start()
                _take(pipe)
            return engine.wait(container)
        finally:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            engine.end(order.labels)


def _leave(_: int, __: FrameType | None) -> NoReturn:
    sys.exit(_TERMINATED)


def _give(pipe: socket.socket) -> None:
    """Our input to the agent, to its end."""
    with suppress(OSError):
        while piece := os.read(0, _PIECE):
            pipe.sendall(piece)
        pipe.shutdown(socket.SHUT_WR)


def _take(pipe: socket.socket) -> None:
    """The agent's outputs to ours, until it has none."""
    while len(header := _exactly(pipe, _HEADER)) == _HEADER:
        left = int.from_bytes(header[4:])
        while left and (piece := pipe.recv(min(left, _PIECE))):
            left -= len(piece)
            _write(header[0], piece)


def _exactly(pipe: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count and (piece := pipe.recv(count - len(found))):
        found += piece
    return found


def _write(fd: int, piece: bytes) -> None:
    while piece:
        piece = piece[os.write(fd, piece) :]


if __name__ == "__main__":
    sys.exit(main())
