"""A port of this machine for a server that stops and starts again."""

import random
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_COUNT = 10_000


@contextmanager
def reserved_port() -> Iterator[int]:
    """A port that nobody else gets meanwhile, also while nothing listens on it.

    The kernel gives no such port to those who ask for any, or connect; other tests see that its name is taken.
    """
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii").split()[0])
    for port in random.sample(range(first - _COUNT, first), _COUNT):
        with socket.socket(socket.AF_UNIX) as name:
            try:
                name.bind(f"\0holdfast-tests-port-{port}")
                socket.create_server(("127.0.0.1", port)).close()
            except OSError:
                continue
            yield port
            return
    raise AssertionError("every port is taken")
