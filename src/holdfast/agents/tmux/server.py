"""A run's own tmux server: the only place that knows the library.

It is found by the path of its socket, never by the user's default, and reads no config file: what a user has there may
keep dead windows, or end sessions that nobody looks at.
"""

import os
import re
import stat
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from libtmux import Server as Library
from libtmux.exc import LibTmuxException

from holdfast.agents.launch import Berth
from holdfast.leaf.errors import Denied

SESSION, MONITOR = "holdfast", "run"
_TRIES = 5
_LONGEST = 100  # bytes of a socket's path; the kernel takes a few more
_ROOT = ("-c", "/")  # a folder's name would be read as a format, which can run commands
_SIZE = ("-x", "160", "-y", "48")  # while nobody looks
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
    """A pane by tmux's name for it, and the process in it."""

    pane: str
    pid: int


class Server:
    def __init__(self, socket: str) -> None:
        self.socket = socket
        self._library = Library(socket_path=socket, config_file=os.devnull)

    def open(self, berth: Berth, command: Sequence[str], environment: Mapping[str, str]) -> Window:
        """A new window, in the session that there is or in a new one. Those who look at another stay there."""
        _private(os.path.dirname(self.socket))
        said = "it did not say why"
        for _ in range(_TRIES):  # the last window of a dying server may go while we look
            self._must_have_session(berth)
            told = ("-d", "-P", "-F", "#{pane_id} #{pane_pid}", "-t", f"{SESSION}:", "-n", _plain(berth.title), *_ROOT)
            made = self._ask("new-window", *told, *_given(environment), *command)
            if made.stdout:
                pane, pid = made.stdout[0].split()
                return Window(pane, int(pid))
            said = " ".join(made.stderr) or said
        raise Denied(f"tmux at {self.socket} makes no window: {said}")

    def has_session(self) -> bool:
        return bool(self._ask("list-windows", "-t", SESSION, "-F", "#{window_name}").stdout)

    def session_of(self, pane: str) -> str | None:
        """By tmux's own name for it: people may call it otherwise. None when there is no such pane."""
        panes = [line.split() for line in self._ask("list-panes", "-a", "-F", "#{pane_id} #{session_id}").stdout]
        return next((session for one, session in panes if one == pane), None)

    def screen(self, pane: str) -> str:
        """What is to be seen in it now."""
        return "\n".join(self._ask("capture-pane", "-p", "-t", pane).stdout)

    def paste(self, pane: str, text: str) -> None:
        """As a person pastes: the program is told that it is pasted, when it wants to know."""
        self._ask("copy-mode", "-q", "-t", pane)  # somebody may be reading back; keys would go there
        buffer = f"holdfast-{pane}"
        self._ask("set-buffer", "-b", buffer, "--", text)
        self._ask("paste-buffer", "-d", "-p", "-r", "-b", buffer, "-t", pane)

    def press(self, pane: str, keys: Sequence[str]) -> None:
        self._ask("copy-mode", "-q", "-t", pane)
        self._ask("send-keys", "-t", pane, *keys)

    def close(self, pane: str) -> None:
        self._ask("kill-pane", "-t", pane)

    def _must_have_session(self, berth: Berth) -> None:
        monitor = berth.monitor
        names = self._ask("list-windows", "-t", SESSION, "-F", "#{window_name}").stdout
        if not names:
            named = ("-g", "status-left", f" {berth.run} ")
            options = [word for option in (*_OPTIONS, named) for word in (";", "set-option", *option)]
            self._ask("new-session", "-d", "-s", SESSION, "-n", MONITOR, *_SIZE, *_ROOT, *monitor, *options)
        elif MONITOR not in names:
            self._ask("new-window", "-d", "-b", "-t", f"{SESSION}:^", "-n", MONITOR, *_ROOT, *monitor)

    def _ask(self, command: str, *words: str) -> "Said":
        try:
            found = self._library.cmd(command, *words)
        except LibTmuxException as error:
            raise Denied(f"tmux cannot be asked: {error}") from None
        return Said(list(found.stdout), list(found.stderr))


class Said(NamedTuple):
    stdout: list[str]
    stderr: list[str]


def socket_of(run: str, folder: str) -> str:
    """In the run's folder; where that has too long a path, with those of the user, and the folder tells homes apart."""
    own = os.path.join(folder, "tmux")
    if len(os.fsencode(own)) <= _LONGEST:
        return own
    place = os.path.join(os.environ.get("TMUX_TMPDIR") or "/tmp", f"tmux-{os.getuid()}")  # noqa: S108 - as tmux does
    told = f"{os.stat(folder).st_dev:x}{os.stat(folder).st_ino:x}"
    return os.path.join(place, f"holdfast-{run[-40:]}-{told}")


def _private(folder: str) -> None:
    """Whoever can write there could put a server of theirs in its place."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o007:
        raise Denied(f"{folder} is not yours alone; tmux keeps its sockets there: take it away, or set TMUX_TMPDIR")


def _plain(title: str) -> str:
    """A name that tmux takes for nothing but a name."""
    return re.sub(r"[^\w /-]+", "-", title).strip() or "agent"


def _given(environment: Mapping[str, str]) -> list[str]:
    return [word for name, value in environment.items() for word in ("-e", f"{name}={value}")]
