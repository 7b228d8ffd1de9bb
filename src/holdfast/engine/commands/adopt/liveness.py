"""Whether the other tool still works on a session: then it is not adopted.

Two programs on the same work would undo each other's changes.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress

from holdfast.core.work.foreign_tools import TOOL_NAMES
from holdfast.engine.commands.adopt.base import ForeignSession, Liveness
from holdfast.leaf.errors import Denied
from holdfast.leaf.process.identity import ancestor_pids
from holdfast.leaf.process.proc import PROCESS_NOT_VISIBLE, pids

_SHELLS = frozenset({"bash", "zsh", "sh", "fish", "dash", "ash", "tmux", "tmux: server", "less", "vim", "nvim", "git"})
_TMUX_TIMEOUT_S = 5.0
_MAX_COMMAND_BYTES = 64 * 1024
_MIN_WORD_CHARS = 8  # a shorter word is in too many command lines


def refuse_live_session(session: ForeignSession) -> None:
    """Raise `Denied` while the other tool works on the session."""
    reason = live_reason(session.liveness)
    if reason is not None:
        name = TOOL_NAMES[session.tool]
        raise Denied(f"{session.id} is still in use by {name}: {reason}. End it there first; nothing was changed")


def live_reason(signs: Liveness) -> str | None:
    """Say what shows that the session is in use; None when nothing does."""
    if signs.tmux_session is not None and _has_tmux_session(signs.tmux_session):
        return f"the tmux session {signs.tmux_session} is active"
    own = {os.getpid(), *ancestor_pids()}
    for pid in pids():
        if pid not in own and (reason := _reason_of(pid, signs)) is not None:
            return f"{reason} (pid {pid}, {_name_of(pid)})"
    return None


def _has_tmux_session(name: str) -> bool:
    tmux = shutil.which("tmux")
    if tmux is None:
        return False
    with suppress(OSError, subprocess.TimeoutExpired):
        command = [tmux, "has-session", "-t", f"={name}"]
        return subprocess.run(command, capture_output=True, check=False, timeout=_TMUX_TIMEOUT_S).returncode == 0
    return False


def _reason_of(pid: int, signs: Liveness) -> str | None:
    if pid in signs.pids and _works_in(pid, signs.pid_folders):
        return "one of its processes runs"
    for file in _open_files(pid, signs.files):
        return f"a process has {file} open"
    if _name_of(pid) in _SHELLS:
        return None  # a person who looks at the files
    command = _command_of(pid)
    if any(word in command for word in signs.words if len(word) >= _MIN_WORD_CHARS):
        return "a process was started for it"
    arguments = command.split("\0")
    if (signs.program is None or _is_program(arguments, signs.program)) and _works_in(pid, signs.folders):
        return "a process works in its folder"
    if signs.own_program is not None and _is_program(arguments, signs.own_program):
        named = {os.path.realpath(part) for part in arguments if os.path.isabs(part)}
        if named & set(map(os.path.realpath, signs.repositories)) or _works_in(pid, signs.repositories):
            return f"{signs.own_program} works on its repository"
    return None


def _is_program(arguments: list[str], name: str) -> bool:
    """Whether a command line runs the program: as itself, or as the script of an interpreter."""
    return any(os.path.basename(part) == name for part in arguments[:2])


def _works_in(pid: int, folders: tuple[str, ...]) -> bool:
    with suppress(*PROCESS_NOT_VISIBLE):
        cwd = os.readlink(f"/proc/{pid}/cwd")
        return any(
            cwd == folder or cwd.startswith(folder.rstrip("/") + "/") for folder in map(os.path.realpath, folders)
        )
    return False


def _open_files(pid: int, files: tuple[str, ...]) -> Iterator[str]:
    wanted = set(map(os.path.realpath, files))
    if not wanted:
        return
    with suppress(*PROCESS_NOT_VISIBLE):
        for fd in os.listdir(f"/proc/{pid}/fd"):
            with suppress(*PROCESS_NOT_VISIBLE):
                target = os.readlink(f"/proc/{pid}/fd/{fd}")
                if target in wanted:
                    yield target


def _command_of(pid: int) -> str:
    with suppress(*PROCESS_NOT_VISIBLE), open(f"/proc/{pid}/cmdline", "rb") as file:
        return os.fsdecode(file.read(_MAX_COMMAND_BYTES))
    return ""


def _name_of(pid: int) -> str:
    with suppress(*PROCESS_NOT_VISIBLE), open(f"/proc/{pid}/comm", "rb") as file:
        return os.fsdecode(file.read()).strip()
    return "?"
