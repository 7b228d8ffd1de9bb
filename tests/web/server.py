"""A real `holdfast serve`, and a client that controls every byte of what it sends."""

import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Self

from websockets.sync.client import ClientConnection, connect

from tests.support.wait import PATIENCE


class Answer(NamedTuple):
    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Server:
    """`holdfast serve` as a process of its own."""

    def __init__(
        self,
        home: str,
        *options: str,
        port: int = 0,
        page: bool = False,
        environment: Mapping[str, str] | None = None,
        program: Sequence[str] = (sys.executable, "-m", "holdfast"),
    ) -> None:
        """`page`: with the built page, too; it must be there (`make web`)."""
        self.home = home
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "HOME") if name in os.environ}
        self._process = subprocess.Popen(
            [
                *program,
                "serve",
                "--json",
                *([] if page else ["--api-only"]),
                "--port",
                str(port),
                *options,
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={
                **kept,
                "HOLDFAST_HOME": home,
                "HOLDFAST_CONFIG": f"{home}.config.toml",
                "XDG_STATE_HOME": os.path.join(home, "state"),  # as `Program` has it: agents remember there
                **(environment or {}),
            },
            text=True,
        )
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        line = self._process.stdout.readline()
        if not line:
            raise AssertionError(self._process.stderr.read())
        self.told: dict[str, str] = json.loads(line)
        self.port = int(self.told["url"].rstrip("/").rpartition(":")[2])
        self.token = Path(self.told["token"]).read_text(encoding="ascii").strip()

    @classmethod
    def start(
        cls,
        home: str,
        *options: str,
        port: int = 0,
        page: bool = False,
        environment: Mapping[str, str] | None = None,
    ) -> Self:
        Path(f"{home}.config.toml").touch()
        return cls(home, *options, port=port, page=page, environment=environment)

    @property
    def pid(self) -> int:
        return self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        self._end()

    def kill(self) -> None:
        self._process.kill()
        self._end()

    def stop(self) -> tuple[int, str]:
        """End it as Ctrl-C does. Returns its exit code, and all that it wrote to stderr."""
        self._process.send_signal(signal.SIGINT)
        return self._end()

    def _end(self) -> tuple[int, str]:
        _, err = self._process.communicate(timeout=PATIENCE)
        assert "Traceback" not in err, err
        return self._process.returncode, err

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def was_killed(self) -> bool:
        """Wait for its end. Whether a failpoint killed it."""
        return self._end()[0] == -signal.SIGKILL

    # requests

    @property
    def bearer(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    def send(self, method: str, path: str, headers: Mapping[str, str], body: bytes | None = None) -> Answer:
        """Send exactly these headers, and only a Host besides, unless they have one."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in {"Host": f"127.0.0.1:{self.port}", **headers}.items():
                connection.putheader(name, value)
            if body is not None:
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            answer = connection.getresponse()
            return Answer(answer.status, answer.headers, answer.read())
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Answer:
        return self.send("GET", f"/api/v1{path}", {**self.bearer, **_named(headers)})

    def post(self, path: str, body: Any = None, key: str | None = None, **headers: str) -> Answer:
        own = {"Content-Type": "application/json", "X-Holdfast": "1", **self.bearer, **_named(headers)}
        if key is not None:
            own["Idempotency-Key"] = key
        return self.send("POST", f"/api/v1{path}", own, json.dumps(body if body is not None else {}).encode())

    def sign_in(self) -> str:
        """Do what the redirect file makes a browser do. Returns the cookie."""
        page = Path(self.told["open"]).read_text(encoding="utf-8")
        path = page.partition("url=")[2].partition('"')[0].partition(f":{self.port}")[2]
        answer = self.send("GET", path, {})
        assert answer.status == 200, answer
        return answer.headers["Set-Cookie"].partition(";")[0]

    @contextmanager
    def live(self, headers: Mapping[str, str] | None = None, path: str = "/live") -> Iterator[ClientConnection]:
        with connect(
            f"ws://127.0.0.1:{self.port}/api/v1{path}",
            additional_headers=dict(self.bearer if headers is None else headers),
            open_timeout=PATIENCE,
            max_size=None,
        ) as connection:
            yield connection


def _named(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


def receive(socket: ClientConnection, kind: str) -> Any:
    """Return the next message of this type."""
    while True:
        message = json.loads(socket.recv(timeout=PATIENCE))
        if message["type"] == kind:
            return message


def stream(
    server: Server, run: str, after: int | None, count: int, headers: dict[str, str] | None = None
) -> list[dict[str, Any]]:
    """Read so many events of the stream, then hang up."""
    query = f"?after={after}" if after is not None else ""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
    connection.request("GET", f"/api/v1/runs/{run}/events/stream{query}", headers={**server.bearer, **(headers or {})})
    answer, found = connection.getresponse(), list[dict[str, Any]]()
    current: dict[str, str] = {}
    while len(found) < count:
        line = answer.readline().decode().rstrip("\n")
        name, colon, value = line.partition(": ")
        if not line and "data" in current:
            found.append({"id": int(current["id"]), "event": json.loads(current["data"])})
            current = {}
        elif colon and name:
            current[name] = value
    connection.close()
    return found
