"""The playbook agent in a terminal: a line is typed, its turn is played on the screen.

`Read FILE and do what it says.` names a file with the prompt; any other line is one itself. Ctrl-C cancels a turn.
"""

import asyncio
import os
import re
import signal
import sys
import threading
from typing import Any

import msgspec

from holdfast.agents.playbook.format import End, Playbook
from holdfast.agents.playbook.jsonrpc import Refusal, Wire
from holdfast.agents.playbook.mcp_servers import McpServers
from holdfast.agents.playbook.player import Player
from holdfast.agents.playbook.sessions import Folder, Record, new_id
from holdfast.agents.playbook.turn import Stage, TurnFailed

_TOLD = re.compile(r"Read (.+) and do what it says")
_READY = "› "
_NO_SESSION = 1


class Screen(Wire):
    """In place of the pipe to a client: what would be told is shown, and what would be asked is asked."""

    def __init__(self, lines: "asyncio.Queue[str | None]") -> None:
        self._lines = lines

    async def notify(self, _: str, params: dict[str, Any]) -> None:
        update = params["update"]
        match update["sessionUpdate"]:
            case "agent_message_chunk":
                show(update["content"]["text"] + "\n")
            case "tool_call":
                show(f"• {update.get('title') or 'tool'}\n")
            case "tool_call_update" if update.get("status") == "failed":
                show("  it failed\n")

    async def request(self, method: str, params: dict[str, Any]) -> Any:
        if method != "session/request_permission":
            raise Refusal(-32601, f"a terminal has no {method}")
        show(f"{params['toolCall'].get('title') or 'May I?'} [y/N] ")
        kind = "allow" if (await self._lines.get() or "").strip() == "y" else "reject"
        option = next((one for one in params["options"] if one["kind"].startswith(kind)), None)
        return {"outcome": {"optionId": option["optionId"]} if option else {"outcome": "cancelled"}}

    async def send_bytes(self, data: bytes) -> None:
        """Nobody is there to be told nonsense."""


class Terminal:
    def __init__(self, playbook: Playbook, file: str, folder: Folder, servers: list[dict[str, Any]]) -> None:
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        self._screen = Screen(self._lines)
        self._servers = servers
        self._player = Player(playbook, os.path.abspath(file), folder, _answered)
        self._title = playbook.agent.title or playbook.agent.name

    async def run(self, record: Record) -> int:
        loop = asyncio.get_running_loop()
        threading.Thread(target=_read, args=(loop, self._lines), daemon=True).start()
        show(f"╭─ {self._title} · session {record.id} · {len(record.said)} earlier\n╰─ {record.cwd}\n")
        servers = McpServers(self._servers, record.cwd)
        self._player.keep(record)
        try:
            await self._player.play_start(Stage(self._screen, record, servers, ""))
            show(_READY)
            while (line := await self._lines.get()) is not None:
                if line.strip():
                    await self._turn(record, servers, _prompt(line))
                show(_READY)
        except TurnFailed as failed:
            show(f"{failed}\n")
            return _NO_SESSION
        finally:
            await servers.stop()
        return 0

    async def _turn(self, record: Record, servers: McpServers, prompt: str) -> None:
        part = self._player.begin(record, prompt)
        stage = Stage(self._screen, record, servers, prompt)
        stage.task = asyncio.ensure_future(self._player.play(stage, part))
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, stage.task.cancel)
        try:
            await stage.task
        except TurnFailed as failed:
            show(f"{failed}\n")
        except asyncio.CancelledError:
            show("interrupted\n")
        finally:
            self._player.finish(record, part)
            asyncio.get_running_loop().remove_signal_handler(signal.SIGINT)


def serve_terminal(playbook: Playbook, file: str, folder: Folder, wanted: "Wanted") -> int:
    record = folder.load(wanted.resume) if wanted.resume is not None else None
    if wanted.resume is not None and record is None:
        show(f"there is no session {wanted.resume}\n")
        return _NO_SESSION
    found = record or Record(id=wanted.session or new_id(), cwd=os.getcwd())
    found.cwd = os.getcwd()
    code = asyncio.run(Terminal(playbook, file, folder, _servers(wanted.mcp)).run(found))
    os._exit(code)  # at once: a thread may still wait for the keyboard


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """Which session, and the file with the MCP servers."""

    session: str | None = None
    resume: str | None = None
    mcp: str | None = None


def show(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _prompt(line: str) -> str:
    told = _TOLD.search(line)
    if told is None:
        return line.strip()
    with open(told[1], encoding="utf-8") as file:
        return file.read()


def _servers(path: str | None) -> list[dict[str, Any]]:
    """As a client of the protocol would hand them over."""
    if path is None:
        return []
    with open(path, "rb") as file:
        given = msgspec.json.decode(file.read())["mcpServers"]
    return [
        {**one, "name": name, "env": [{"name": key, "value": value} for key, value in one.get("env", {}).items()]}
        for name, one in given.items()
    ]


async def _answered(_: Stage, __: End) -> None:
    """Nobody waits for an answer."""


def _read(loop: asyncio.AbstractEventLoop, lines: "asyncio.Queue[str | None]") -> None:
    """In a thread: a terminal gives a line when Enter is pressed."""
    for line in sys.stdin:
        loop.call_soon_threadsafe(lines.put_nowait, line)
    loop.call_soon_threadsafe(lines.put_nowait, None)
