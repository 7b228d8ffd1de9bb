"""A real Temporal server for tests: the dev server, with its database in a file, from a package of PyPI."""

import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tests.support.memory import in_memory
from tests.support.ports import reserved_port
from tests.support.wait import PATIENCE


def temporal_program() -> str | None:
    """The server's program; None where the package has no wheel."""
    path = os.path.join(sys.prefix, "bin", "temporal")
    return path if os.path.exists(path) else None


class TemporalServer:
    def __init__(self, folder: str, port: int) -> None:
        self._folder = folder
        self._port = port
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"temporal://127.0.0.1:{self._port}"

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._port}"

    def start(self) -> None:
        program = temporal_program()
        assert program is not None
        database = os.path.join(self._folder, "temporal.db")
        options = ("--headless", "--ip", "127.0.0.1", "--port", str(self._port), "--db-filename", database)
        with open(os.path.join(self._folder, "temporal.log"), "ab") as log:
            self._process = subprocess.Popen(
                ["setpriv", "--pdeathsig=KILL", program, "server", "start-dev", *options, "--log-level", "error"],
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def wait_until_ready(self) -> None:
        """The port is open before the namespace is there: ask for that."""
        program = temporal_program()
        assert program is not None
        ask = [program, "operator", "namespace", "describe", "default", "--address", f"127.0.0.1:{self._port}"]
        deadline = time.monotonic() + PATIENCE
        while subprocess.run(ask, capture_output=True, check=False).returncode:
            assert time.monotonic() < deadline, self.read_log()
            time.sleep(0.1)

    def new_namespace(self) -> str:
        """The URL of an empty namespace: the queues of a test are its own."""
        program, name = temporal_program(), f"test-{secrets.token_hex(6)}"
        assert program is not None
        create = [program, "operator", "namespace", "create", name, "--address", f"127.0.0.1:{self._port}"]
        subprocess.run(create, capture_output=True, check=True)
        return f"{self.url}/{name}"

    def kill(self) -> None:
        assert self._process is not None
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def read_log(self) -> str:
        with open(os.path.join(self._folder, "temporal.log"), encoding="utf-8", errors="replace") as log:
            return log.read()


@contextmanager
def temporal_server() -> Iterator[TemporalServer]:
    with in_memory() as folder, reserved_port() as port:
        server = TemporalServer(folder, port)
        server.start()
        try:
            server.wait_until_ready()
            yield server
        finally:
            server.kill()
