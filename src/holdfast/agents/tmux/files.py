"""Files in the run's folder for an agent in a window: prompts, MCP config, and its session."""

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import msgspec

from holdfast.agents.launch import TmuxSlot
from holdfast.core.redaction.redaction import Redactor
from holdfast.leaf.failpoints import failpoint_pair
from holdfast.leaf.files.directories import sync_directory

_FAILPOINT = failpoint_pair("tmux.note")
_MAX_REQUEST_BYTES = 1024 * 1024  # larger than any environment
_PROMPT_TEMPLATE = """\
{text}

---
You work in a terminal, and what you print there is not read. Your turn ends when you call one of these tools of the
MCP server `holdfast`: {endings}.
Call one as soon as you have done what is asked, or cannot do it, and do nothing after it.
"""


class SessionNames(msgspec.Struct, frozen=True):
    """A session's id of ours, and the agent's own id, once it is known."""

    session: str
    native: str | None = None


class TmuxFiles:
    def __init__(self, slot: TmuxSlot) -> None:
        self._slot = slot
        self.prompts_folder = os.path.join(slot.folder, "prompts")
        self._agents_folder = os.path.join(slot.folder, "agents")
        for folder in (self.prompts_folder, self._agents_folder):
            os.makedirs(folder, mode=0o700, exist_ok=True)

    def write_prompt(self, text: str) -> str:
        """Write a prompt durably. Returns its file."""
        start = f"{self._slot.conversation}-"
        number = 1 + sum(name.startswith(start) for name in os.listdir(self.prompts_folder))
        path = os.path.join(self.prompts_folder, f"{start}{number}.md")
        text = Redactor.from_environment(os.environ).redact_text(text)
        _write_durably(path, _PROMPT_TEMPLATE.format(text=text, endings=", ".join(self._slot.endings)).encode())
        return path

    def write_mcp_config(self, servers: list[dict[str, Any]]) -> str:
        """Write the MCP servers in the format of the agent's program. Returns the file."""
        by_name = {str(server["name"]): server for server in servers}
        config: dict[str, Any]
        if self._slot.tui.mcp == "opencode":
            config = {"mcp": {name: _opencode_server(server) for name, server in by_name.items()}}
        else:
            config = {"mcpServers": {name: _mcp_server(server) for name, server in by_name.items()}}
        return self._save("mcp.json", msgspec.json.encode(config))

    @contextmanager
    def open_pipe(self) -> Iterator[tuple[str, int]]:
        """Open the named pipe that tells a window what to start; it is deleted afterwards."""
        path = self._path("start")
        with suppress(FileNotFoundError):
            os.unlink(path)
        os.mkfifo(path, 0o600)
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)  # both ends, so that the data waits for the reader
        try:
            fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, _MAX_REQUEST_BYTES)
            yield path, fd
        finally:
            os.close(fd)
            os.unlink(path)

    def save_session(self, names: SessionNames) -> None:
        self._save("session.json", msgspec.json.encode(names))

    def load_session(self) -> SessionNames | None:
        """Return the saved session of this window."""
        try:
            with open(self._path("session.json"), "rb") as file:
                return msgspec.json.decode(file.read(), type=SessionNames)
        except (FileNotFoundError, msgspec.MsgspecError):
            return None

    def find_session(self, session_id: str) -> SessionNames | None:
        found = self.load_session()
        return found if found is not None and found.session == session_id else None

    def _save(self, kind: str, data: bytes) -> str:
        _write_durably(self._path(kind), data)
        return self._path(kind)

    def _path(self, kind: str) -> str:
        return os.path.join(self._agents_folder, f"{self._slot.conversation}.{kind}")


def _write_durably(path: str, data: bytes) -> None:
    """Write a file atomically and durably."""
    _FAILPOINT.before()
    temporary = f"{path}.{os.getpid()}.tmp"
    with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.rename(temporary, path)
    sync_directory(os.path.dirname(path))
    _FAILPOINT.after()


def _mcp_server(config: Mapping[str, Any]) -> dict[str, Any]:
    return {"command": config["command"], "args": config.get("args") or [], "env": _variables(config)}


def _opencode_server(config: Mapping[str, Any]) -> dict[str, Any]:
    command = [config["command"], *(config.get("args") or [])]
    return {"type": "local", "command": command, "environment": _variables(config), "enabled": True}


def _variables(config: Mapping[str, Any]) -> dict[str, str]:
    return {variable["name"]: variable["value"] for variable in config.get("env") or []}
