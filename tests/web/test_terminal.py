"""A shell in the worktree of a run, over a WebSocket."""

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection

from holdfast.leaf.process.identity import identify
from tests.support.cli_stage import HELLO, Stage
from tests.support.wait import PATIENCE, until
from tests.web.server import Server

SHELL = {"SHELL": "/bin/sh", "PS1": "", "ENV": ""}


def said(socket: ClientConnection, text: str) -> bytes:
    """Read until the terminal shows the text."""
    found = b""
    while text.encode() not in found:
        data = socket.recv(timeout=PATIENCE)
        found += data if isinstance(data, bytes) else b""
    return found


def told(socket: ClientConnection, kind: str) -> dict[str, Any]:
    while True:
        data = socket.recv(timeout=PATIENCE)
        if isinstance(data, str) and (message := json.loads(data))["type"] == kind:
            return dict(message)


def in_home(stage: Stage) -> str:
    os.makedirs(stage.home, exist_ok=True)
    return stage.home


async def test_shell_outlives_its_clients_and_ends_with_the_server(stage: Stage) -> None:
    """It runs in the worktree, has the size of the page, and shows who comes later what it said before."""
    run = stage.run("say hello", "--agent", stage.book(HELLO))
    with Server.start(in_home(stage), "--no-watch", environment=SHELL) as server:
        listed = server.get(f"/runs/{run}/terminals").json["terminals"]
        assert next((each["kind"], each["task"], each["available"]) for each in listed) == ("shell", None, True)
        with server.live(path=f"/terminal/{run}?kind=shell&cols=91&rows=33") as socket:
            opened = told(socket, "opened")
            assert opened["writable"]
            socket.send(b"pwd; stty size; echo pid=$$.; env | grep -c " + server.token.encode() + b"; tty\n")
            shown = said(socket, "/dev/pts/")
            assert os.path.join(stage.home_of(run), "workspace").encode() in shown
            assert b"33 91" in shown
            assert b"\n0\r" in shown
            socket.send('{"resize": [50, 20]}')
            socket.send(b"stty size\n")
            said(socket, "20 50")
        with server.live(path=f"/terminal/{run}?cols=50&rows=20&id={opened['id']}") as socket:
            assert told(socket, "opened")["id"] == opened["id"]
            (pid,) = map(int, re.findall(rb"pid=(\d+)\.", said(socket, "20 50")))
            socket.send(b"printf 'x%.0s' $(seq 1 200000); echo end-of-much\n")
            said(socket, "xend-of-much")
        with server.live(path=f"/terminal/{run}?cols=50&rows=20") as socket:
            kept = said(socket, "xend-of-much")
            assert len(kept) <= 64 * 1024
        shell = identify(pid)
        assert shell is not None
        server.kill()
    await until(lambda: not shell.is_alive())  # dead, also where it is left to us as a zombie


def test_end_of_the_shell_is_told_and_the_next_one_is_new(stage: Stage) -> None:
    run = stage.run("say hello", "--agent", stage.book(HELLO))
    with Server.start(in_home(stage), "--no-watch", environment=SHELL) as server:
        with server.live(path=f"/terminal/{run}") as socket:
            first = told(socket, "opened")["id"]
            for nonsense in ('{"resize": 1}', "{", '{"resize": [-1, 99999999]}', ""):
                socket.send(nonsense)
            socket.send(b"echo last-words; exit 3\n")
            said(socket, "last-words\r")
            assert told(socket, "closed")["code"] == 3
            with pytest.raises(ConnectionClosed):
                socket.recv(timeout=PATIENCE)
        with server.live(path=f"/terminal/{run}") as socket:
            assert told(socket, "opened")["id"] != first


@pytest.mark.parametrize(
    "path", ["no-such-run", "RUN?kind=magic", "RUN?kind=tmux", "RUN?task=nothing", "RUN?task=../..", "RUN?cols=x"]
)
def test_wrong_terminal_is_one_clear_error(stage: Stage, stage_server: Server, path: str) -> None:
    run = stage.run("say hello", "--agent", stage.book(HELLO))
    with stage_server.live(path=f"/terminal/{path.replace('RUN', run)}") as socket:
        assert told(socket, "error")["error"]


def test_terminal_is_for_nobody_else(stage: Stage) -> None:
    """Not for another origin, not without the token, and not from other machines."""
    run = stage.run("say hello", "--agent", stage.book(HELLO))
    with Server.start(in_home(stage), "--no-watch", "--allow-host", "proxy.test") as server:
        for headers in ({}, {"Origin": "http://evil.test"}, {**server.bearer, "Origin": "http://evil.test"}):
            with pytest.raises(InvalidStatus) as refused, server.live(headers, path=f"/terminal/{run}"):
                pass
            assert refused.value.response.status_code == 403
        with server.live(path=f"/terminal/{run}") as socket:
            assert "--terminal" in told(socket, "error")["hint"]
        assert not any(each["available"] for each in server.get(f"/runs/{run}/terminals").json["terminals"])
    assert Path(stage.home_of(run)).is_dir()
