"""A server of a home, and pages that are open in it.

As a program, it opens ten pages on a run and closes them: `python -m bench.page_server FOLDER`, a line on its stdin for
each change. The server is there all the time.
"""

import json
import os
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, Self

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

_PAGES = 10
_CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


class PageServer:
    """`holdfast serve` as a process."""

    def __init__(self, home: str, *, supervise: bool = False) -> None:
        self.requests = self.bytes = 0
        command = (sys.executable, "-m", "holdfast", "serve", "--api-only", "--json", "--port", "0")
        self._process = subprocess.Popen(
            [*command, *([] if supervise else ["--no-watch"])],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "HOLDFAST_HOME": home},
            text=True,
        )
        assert self._process.stdout is not None
        told = json.loads(self._process.stdout.readline())
        self._url = told["url"]
        with open(told["token"], encoding="ascii") as file:
            self._headers = {"Authorization": f"Bearer {file.read().strip()}"}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()

    def get(self, path: str) -> Any:
        request = urllib.request.Request(f"{self._url}api/v1{path}", headers=self._headers)
        with urllib.request.urlopen(request) as answer:
            data = answer.read()
        self.requests += 1
        self.bytes += len(data)
        return json.loads(data)

    @contextmanager
    def pages(self, run: str, count: int) -> Iterator[list[ClientConnection]]:
        """Open pages that follow a run and the board, and read all that they are sent."""
        with ExitStack() as stack:
            url = f"{self._url.replace('http', 'ws', 1)}api/v1/live"
            opened = [
                stack.enter_context(connect(url, additional_headers=self._headers, max_size=None)) for _ in range(count)
            ]
            readers = [threading.Thread(target=_drain, args=(socket,), daemon=True) for socket in opened]
            for socket, reader in zip(opened, readers, strict=True):
                socket.send(json.dumps({"sub": "board"}))
                socket.send(json.dumps({"sub": run}))
                reader.start()
            yield opened

    @property
    def cpu_s(self) -> float:
        with open(f"/proc/{self._process.pid}/stat", encoding="utf-8") as file:
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _CLOCK_TICKS

    @property
    def memory_bytes(self) -> int:
        """What it has for itself."""
        with open(f"/proc/{self._process.pid}/smaps_rollup", encoding="ascii") as file:
            sizes = [line.split() for line in file if line.startswith("Private_")]
        return sum(int(size[1]) for size in sizes) * 1024


def _drain(socket: ClientConnection) -> None:
    with suppress(ConnectionClosed, OSError):
        for _ in socket:
            pass


def _open_and_close(run_folder: str) -> None:
    run, home = os.path.basename(run_folder), os.path.dirname(os.path.dirname(run_folder))
    with PageServer(home) as server:
        while sys.stdin.readline():
            with server.pages(run, _PAGES):
                print(flush=True)
                sys.stdin.readline()
            print(flush=True)


if __name__ == "__main__":
    _open_and_close(sys.argv[1])
