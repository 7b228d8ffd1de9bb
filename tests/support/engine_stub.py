"""A stand-in for a container engine: it lists the containers that it was given, and removes them."""

import json
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any


class Engine(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True

    def __init__(self, path: str, containers: dict[str, str]) -> None:
        """`containers` are the runs by the ids of their containers."""
        self.containers = containers
        super().__init__(path, _Handler)


class _Handler(BaseHTTPRequestHandler):
    server: Engine

    def do_GET(self) -> None:
        if self.path.endswith("/_ping"):
            self._answer(b"OK")
        else:
            there = self.server.containers.items()
            found = [{"Id": name} for name, run in there if f"holdfast.run%3D{run}" in self.path]
            self._answer(json.dumps(found).encode())

    def do_DELETE(self) -> None:
        name = self.path.partition("/containers/")[2].partition("?")[0]
        self.server.containers.pop(name, None)
        self._answer(b"")

    def _answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Api-Version", "1.41")
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def address_string(self) -> str:
        return "a unix socket"

    def log_message(self, *_: Any) -> None:
        """Nobody reads it."""


@contextmanager
def engine(path: str, containers: dict[str, str]) -> Iterator[Engine]:
    with Engine(path, containers) as server:
        serving = threading.Thread(target=server.serve_forever, daemon=True)
        serving.start()
        try:
            yield server
        finally:
            server.shutdown()
            serving.join()
