"""A run's own tmux server. Only this module uses libtmux.

The server has its own socket, never the user's default, and reads no config file: the user's settings may keep dead
windows, or end detached sessions.
"""

import os
import re
import stat
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from libtmux import Server as Library
from libtmux.exc import LibTmuxException

from holdfast.agents.launch import TmuxSlot
from holdfast.leaf.errors import Denied

SESSION_NAME, MONITOR_WINDOW = "holdfast", "run"
_MAX_ATTEMPTS = 5
_MAX_SOCKET_PATH_BYTES = 100  # the kernel allows a few more
_ROOT_OPTIONS = ("-c", "/")  # tmux would expand a folder's name as a format, which can run commands
_SIZE_OPTIONS = ("-x", "160", "-y", "48")  # while no client is attached
_OPTIONS = (
    ("-g", "remain-on-exit", "off"),
    ("-g", "mouse", "on"),
    ("-g", "history-limit", "20000"),
    ("-g", "focus-events", "on"),
    ("-g", "automatic-rename", "off"),
    ("-g", "allow-rename", "off"),
    ("-g", "status-right", ""),
    ("-g", "status-left-length", "60"),
    ("-g", "window-size", "latest"),
    ("-s", "escape-time", "10"),
    ("-s", "exit-empty", "on"),
)


class Window(NamedTuple):
    """A pane's id in tmux, and its process."""

    pane_id: str
    pid: int


class TmuxServer:
    def __init__(self, socket: str) -> None:
        self.socket = socket
        self._library = Library(socket_path=socket, config_file=os.devnull)

    def open_window(self, slot: TmuxSlot, command: Sequence[str], environment: Mapping[str, str]) -> Window:
        """Open a window, creating the session if needed. Attached clients stay in their windows."""
        _make_private_folder(os.path.dirname(self.socket))
        reason = "no reason given"
        for _ in range(_MAX_ATTEMPTS):  # a server that is ending may lose its session meanwhile
            self._ensure_session(slot)
            options = (
                "-d",
                "-P",
                "-F",
                "#{pane_id} #{pane_pid}",
                "-t",
                f"{SESSION_NAME}:",
                "-n",
                _plain_title(slot.title),
                *_ROOT_OPTIONS,
            )
            output = self._run("new-window", *options, *_environment_options(environment), *command)
            if output.stdout:
                pane, pid = output.stdout[0].split()
                return Window(pane, int(pid))
            reason = " ".join(output.stderr) or reason
        raise Denied(f"tmux at {self.socket} cannot open a window: {reason}")

    def has_session(self) -> bool:
        return bool(self._run("list-windows", "-t", SESSION_NAME, "-F", "#{window_name}").stdout)

    def find_session(self, pane_id: str) -> str | None:
        """Return the id of the pane's session, which stays when a person renames it; None without such a pane."""
        panes = [line.split() for line in self._run("list-panes", "-a", "-F", "#{pane_id} #{session_id}").stdout]
        return next((session for pane, session in panes if pane == pane_id), None)

    def screen(self, pane_id: str) -> str:
        """Return the visible text of a pane."""
        return "\n".join(self._run("capture-pane", "-p", "-t", pane_id).stdout)

    def paste(self, pane_id: str, text: str) -> None:
        """Paste text as a person does, with bracketed paste if the program supports it."""
        self._run("copy-mode", "-q", "-t", pane_id)  # a person may be scrolling; copy mode would get the keys
        buffer = f"holdfast-{pane_id}"
        self._run("set-buffer", "-b", buffer, "--", text)
        self._run("paste-buffer", "-d", "-p", "-r", "-b", buffer, "-t", pane_id)

    def press(self, pane_id: str, keys: Sequence[str]) -> None:
        self._run("copy-mode", "-q", "-t", pane_id)
        self._run("send-keys", "-t", pane_id, *keys)

    def close_pane(self, pane_id: str) -> None:
        self._run("kill-pane", "-t", pane_id)

    def _ensure_session(self, slot: TmuxSlot) -> None:
        monitor = slot.monitor
        names = self._run("list-windows", "-t", SESSION_NAME, "-F", "#{window_name}").stdout
        if not names:
            named = ("-g", "status-left", f" {slot.run} ")
            options = [word for option in (*_OPTIONS, named) for word in (";", "set-option", *option)]
            self._run(
                "new-session",
                "-d",
                "-s",
                SESSION_NAME,
                "-n",
                MONITOR_WINDOW,
                *_SIZE_OPTIONS,
                *_ROOT_OPTIONS,
                *monitor,
                *options,
            )
        elif MONITOR_WINDOW not in names:
            self._run(
                "new-window", "-d", "-b", "-t", f"{SESSION_NAME}:^", "-n", MONITOR_WINDOW, *_ROOT_OPTIONS, *monitor
            )

    def _run(self, command: str, *arguments: str) -> "TmuxOutput":
        try:
            result = self._library.cmd(command, *arguments)
        except LibTmuxException as error:
            raise Denied(f"cannot run tmux: {error}") from None
        return TmuxOutput(list(result.stdout), list(result.stderr))


class TmuxOutput(NamedTuple):
    stdout: list[str]
    stderr: list[str]


def socket_path(run_id: str, folder: str) -> str:
    """Return the socket in the run's folder; if that path is too long, one in the user's tmux folder.

    Device and inode of the run's folder in its name tell runs of different homes apart.
    """
    path = os.path.join(folder, "tmux")
    if len(os.fsencode(path)) <= _MAX_SOCKET_PATH_BYTES:
        return path
    user_folder = os.path.join(os.environ.get("TMUX_TMPDIR") or "/tmp", f"tmux-{os.getuid()}")  # noqa: S108 - as tmux does
    suffix = f"{os.stat(folder).st_dev:x}{os.stat(folder).st_ino:x}"
    return os.path.join(user_folder, f"holdfast-{run_id[-40:]}-{suffix}")


def _make_private_folder(folder: str) -> None:
    """Raise `Denied` if other users can write to the folder: they could replace the server with their own."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    status = os.lstat(folder)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or stat.S_IMODE(status.st_mode) & 0o007:
        raise Denied(f"other users can access {folder}, the folder of tmux's sockets; delete it, or set TMUX_TMPDIR")


def _plain_title(title: str) -> str:
    """Return a window name without characters that are special to tmux."""
    return re.sub(r"[^\w /-]+", "-", title).strip() or "agent"


def _environment_options(environment: Mapping[str, str]) -> list[str]:
    return [word for name, value in environment.items() for word in ("-e", f"{name}={value}")]
