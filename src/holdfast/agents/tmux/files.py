"""What an agent in a window is told by files in the run's folder: prompts, tools, and whose session it is."""

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import msgspec

from holdfast.agents.launch import Berth
from holdfast.core.redaction.redaction import Redactor
from holdfast.leaf.failpoints import around
from holdfast.leaf.files.directories import sync_directory

_CRASH = around("tmux.note")
_LARGE = 1024 * 1024  # bytes: more than any environment
_PROMPT = """\
{text}

---
You work in a terminal, and nobody reads what you print there. Your turn is over when you call one of these tools of
the MCP server `holdfast`: {endings}.
Call one as soon as you have done what is asked, or cannot, and do nothing after it.
"""


class Memory(msgspec.Struct, frozen=True):
    """A session as we named it, and as its agent did, once that is known."""

    session: str
    native: str | None = None


class Notes:
    def __init__(self, berth: Berth) -> None:
        self._berth = berth
        self.prompts = os.path.join(berth.folder, "prompts")
        self._agents = os.path.join(berth.folder, "agents")
        for folder in (self.prompts, self._agents):
            os.makedirs(folder, mode=0o700, exist_ok=True)

    def prompt(self, text: str) -> str:
        """The file that holds it, durable."""
        start = f"{self._berth.conversation}-"
        number = 1 + sum(name.startswith(start) for name in os.listdir(self.prompts))
        path = os.path.join(self.prompts, f"{start}{number}.md")
        text = Redactor.of(os.environ).text(text)
        _write(path, _PROMPT.format(text=text, endings=", ".join(self._berth.endings)).encode())
        return path

    def tools(self, servers: list[dict[str, Any]]) -> str:
        """The file with the MCP servers, as its program reads it."""
        named = {str(one["name"]): one for one in servers}
        told: dict[str, Any]
        if self._berth.tui.mcp == "opencode":
            told = {"mcp": {name: _opencode(one) for name, one in named.items()}}
        else:
            told = {"mcpServers": {name: _server(one) for name, one in named.items()}}
        return self._kept("mcp.json", msgspec.json.encode(told))

    @contextmanager
    def pipe(self) -> Iterator[tuple[str, int]]:
        """By which a window is told what to start; nothing of it stays."""
        path = self._path("start")
        with suppress(FileNotFoundError):
            os.unlink(path)
        os.mkfifo(path, 0o600)
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)  # both ends, so that it waits for whoever reads
        try:
            fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, _LARGE)
            yield path, fd
        finally:
            os.close(fd)
            os.unlink(path)

    def remember(self, memory: Memory) -> None:
        self._kept("session.json", msgspec.json.encode(memory))

    def memory(self) -> Memory | None:
        """What is remembered of this window's session."""
        try:
            with open(self._path("session.json"), "rb") as file:
                return msgspec.json.decode(file.read(), type=Memory)
        except (FileNotFoundError, msgspec.MsgspecError):
            return None

    def recall(self, session: str) -> Memory | None:
        found = self.memory()
        return found if found is not None and found.session == session else None

    def _kept(self, kind: str, data: bytes) -> str:
        _write(self._path(kind), data)
        return self._path(kind)

    def _path(self, kind: str) -> str:
        return os.path.join(self._agents, f"{self._berth.conversation}.{kind}")


def _write(path: str, data: bytes) -> None:
    """Whole or not at all, and durable."""
    _CRASH.before()
    temporary = f"{path}.{os.getpid()}.tmp"
    with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.rename(temporary, path)
    sync_directory(os.path.dirname(path))
    _CRASH.after()


def _server(given: Mapping[str, Any]) -> dict[str, Any]:
    return {"command": given["command"], "args": given.get("args") or [], "env": _variables(given)}


def _opencode(given: Mapping[str, Any]) -> dict[str, Any]:
    command = [given["command"], *(given.get("args") or [])]
    return {"type": "local", "command": command, "environment": _variables(given), "enabled": True}


def _variables(given: Mapping[str, Any]) -> dict[str, str]:
    return {one["name"]: one["value"] for one in given.get("env") or []}
