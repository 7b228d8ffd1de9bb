"""Programs that start in milliseconds: forked from a process that has their modules imported already.

Each is a process of its own, with its own stdin, stdout, environment and folder, and can be killed. It runs in a
session of its own and is reaped by the zygote, so that its death shows at once.

python -m tests.support.zygote SOCKET MODULE…
"""

import array
import importlib
import json
import os
import signal
import socket
import sys
from typing import Any


def main() -> None:
    path, *modules = sys.argv[1:]
    for module in modules:
        importlib.import_module(module)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    server.bind(path)
    server.listen(64)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while True:
        connection, _ = server.accept()
        with connection:
            asked, descriptors = _receive(connection)
            if asked is None:
                return
            pid = os.fork()
            if pid == 0:
                server.close()
                connection.close()
                _become(asked, descriptors)
            for descriptor in descriptors:
                os.close(descriptor)
            connection.sendall(str(pid).encode())


def _receive(connection: socket.socket) -> tuple[Any, list[int]]:
    length = 3 * array.array("i").itemsize
    data, ancillary, _, _ = connection.recvmsg(1_000_000, socket.CMSG_SPACE(length))
    descriptors = array.array("i")
    for _, _, raw in ancillary:
        descriptors.frombytes(raw[:length])
    return (json.loads(data) if data else None), list(descriptors)


def _become(asked: Any, descriptors: list[int]) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    code = 1
    try:
        code = importlib.import_module(asked["module"]).run(asked["arguments"])
    except Exception as error:  # noqa: BLE001 - the end of a process
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
    finally:
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
