"""The playbook agent in a terminal: each typed line is a prompt, and its turn is played on the screen.

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

from holdfast.agents.jsonrpc.connection import JsonRpcError
from holdfast.agents.jsonrpc.stdio import StdioConnection
from holdfast.agents.playbook.format import End, Playbook
from holdfast.agents.playbook.mcp_servers import McpServers
from holdfast.agents.playbook.player import Player
from holdfast.agents.playbook.sessions import PlaybookSession, StateFolder, new_session_id
from holdfast.agents.playbook.turn import RunningTurn, TurnFailed

_PROMPT_FILE_LINE = re.compile(r"Read (.+) and do what it says")
_PROMPT_SIGN = "› "
_NO_SESSION_CODE = 1


class TerminalConnection(StdioConnection):
    """Replaces the pipe to a client: shows its updates, and asks its questions in the terminal."""

    def __init__(self, lines: "asyncio.Queue[str | None]") -> None:
        self._typed_lines = lines

    async def notify(self, _: str, params: dict[str, Any]) -> None:
        update = params["update"]
        match update["sessionUpdate"]:
            case "agent_message_chunk":
                print_text(update["content"]["text"] + "\n")
            case "tool_call":
                print_text(f"• {update.get('title') or 'tool'}\n")
            case "tool_call_update" if update.get("status") == "failed":
                print_text("  it failed\n")

    async def request(self, method: str, params: dict[str, Any]) -> Any:
        if method != "session/request_permission":
            raise JsonRpcError(-32601, f"a terminal has no {method}")
        print_text(f"{params['toolCall'].get('title') or 'May I?'} [y/N] ")
        kind = "allow" if (await self._typed_lines.get() or "").strip() == "y" else "reject"
        option = next((offered for offered in params["options"] if offered["kind"].startswith(kind)), None)
        return {"outcome": {"optionId": option["optionId"]} if option else {"outcome": "cancelled"}}

    async def send_bytes(self, data: bytes) -> None:
        """A terminal has no protocol to violate."""


class PlaybookTerminal:
    def __init__(self, playbook: Playbook, file: str, folder: StateFolder, servers: list[dict[str, Any]]) -> None:
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        self._connection = TerminalConnection(self._lines)
        self._servers = servers
        self._player = Player(playbook, os.path.abspath(file), folder, _ignore_answer)
        self._title = playbook.agent.title or playbook.agent.name

    async def run(self, record: PlaybookSession) -> int:
        loop = asyncio.get_running_loop()
        threading.Thread(target=_read_lines, args=(loop, self._lines), daemon=True).start()
        print_text(f"╭─ {self._title} · session {record.id} · {len(record.said)} earlier\n╰─ {record.cwd}\n")
        servers = McpServers(self._servers, record.cwd)
        self._player.save(record)
        try:
            await self._player.play_start(RunningTurn(self._connection, record, servers, ""))
            print_text(_PROMPT_SIGN)
            while (line := await self._lines.get()) is not None:
                if line.strip():
                    await self._run_turn(record, servers, _read_prompt(line))
                print_text(_PROMPT_SIGN)
        except TurnFailed as failed:
            print_text(f"{failed}\n")
            return _NO_SESSION_CODE
        finally:
            await servers.stop()
        return 0

    async def _run_turn(self, record: PlaybookSession, servers: McpServers, prompt: str) -> None:
        part = self._player.begin(record, prompt)
        stage = RunningTurn(self._connection, record, servers, prompt)
        stage.task = asyncio.ensure_future(self._player.play(stage, part))
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, stage.task.cancel)
        try:
            await stage.task
        except TurnFailed as failed:
            print_text(f"{failed}\n")
        except asyncio.CancelledError:
            print_text("interrupted\n")
        finally:
            self._player.finish(record, part)
            asyncio.get_running_loop().remove_signal_handler(signal.SIGINT)


def serve_terminal(playbook: Playbook, file: str, folder: StateFolder, options: "TerminalOptions") -> int:
    record = folder.load(options.resume) if options.resume is not None else None
    if options.resume is not None and record is None:
        print_text(f"there is no session {options.resume}\n")
        return _NO_SESSION_CODE
    found = record or PlaybookSession(id=options.session or new_session_id(), cwd=os.getcwd())
    found.cwd = os.getcwd()
    code = asyncio.run(PlaybookTerminal(playbook, file, folder, _read_servers(options.mcp)).run(found))
    os._exit(code)  # at once: a thread may still wait for the keyboard


class TerminalOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Which session, and the file with the MCP servers."""

    session: str | None = None
    resume: str | None = None
    mcp: str | None = None


def print_text(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _read_prompt(line: str) -> str:
    match = _PROMPT_FILE_LINE.search(line)
    if match is None:
        return line.strip()
    with open(match[1], encoding="utf-8") as file:
        return file.read()


def _read_servers(path: str | None) -> list[dict[str, Any]]:
    """Read the servers in the form in which a client passes them."""
    if path is None:
        return []
    with open(path, "rb") as file:
        given = msgspec.json.decode(file.read())["mcpServers"]
    return [
        {**server, "name": name, "env": [{"name": key, "value": value} for key, value in server.get("env", {}).items()]}
        for name, server in given.items()
    ]


async def _ignore_answer(_: RunningTurn, __: End) -> None:
    """A terminal expects no answer."""


def _read_lines(loop: asyncio.AbstractEventLoop, lines: "asyncio.Queue[str | None]") -> None:
    """Runs in a thread: a terminal returns a line when Enter is pressed."""
    for line in sys.stdin:
        loop.call_soon_threadsafe(lines.put_nowait, line)
    loop.call_soon_threadsafe(lines.put_nowait, None)
