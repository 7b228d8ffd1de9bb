"""Which tool wrote a file or folder, and where the tools keep their sessions on this machine."""

import glob
import os
from collections.abc import Callable, Iterator
from typing import NamedTuple

from holdfast.core.work.foreign_tools import Tool
from holdfast.engine.commands.adopt import agentmux, claude_code, codex, kandev, resume_protocol, tilth
from holdfast.engine.commands.adopt.base import ForeignSession
from holdfast.leaf.errors import BadInput, HoldfastError, NothingToDo

_LOG = resume_protocol.LOG
_MAX_CONVERSATIONS = 200  # the newest of each tool that are looked at


class FoundSession(NamedTuple):
    tool: Tool
    path: str


class _FolderKind(NamedTuple):
    tool: Tool
    fits: Callable[[str], bool]
    read: Callable[[str], ForeignSession]


_FOLDER_KINDS = (
    _FolderKind(Tool.TILTH, tilth.is_session, tilth.read),
    _FolderKind(Tool.AGENTMUX, agentmux.is_session, agentmux.read),
)
_FILE_KINDS = (
    _FolderKind(Tool.RESUME_PROTOCOL, resume_protocol.is_log, resume_protocol.read),
    _FolderKind(Tool.CODEX, codex.is_session, codex.read),
    _FolderKind(Tool.CLAUDE_CODE, claude_code.is_session, claude_code.read),
    _FolderKind(Tool.KANDEV, kandev.is_session, kandev.read),
)


def detect(path: str) -> FoundSession | None:
    """Return which tool wrote what is at a path, by its content; None for anything else."""
    path = os.path.abspath(path)
    if not (os.path.isdir(path) or os.path.isfile(path)):
        return None  # a pipe or a device is never read
    if not os.path.isdir(path):
        folder = os.path.dirname(path)  # the log of a session folder stands for its folder
        kind = next((kind for kind in _FILE_KINDS if kind.fits(path)), None)
        return FoundSession(kind.tool, path) if kind is not None else _folder_session(folder)
    if (found := _folder_session(path)) is not None:
        return found
    inside = [os.path.join(path, name) for name in ("session", _LOG)]
    return next((found for name in inside if os.path.exists(name) and (found := detect(name)) is not None), None)


def _folder_session(path: str) -> FoundSession | None:
    return next((FoundSession(kind.tool, path) for kind in _FOLDER_KINDS if kind.fits(path)), None)


def read_session(found: FoundSession) -> ForeignSession:
    kind = next(kind for kind in (*_FOLDER_KINDS, *_FILE_KINDS) if kind.tool is found.tool)
    return kind.read(found.path)


def find_session(target: str, repo: str) -> FoundSession:
    """Return the session at a path, or the one with an id. Raises `BadInput` or `NothingToDo`."""
    if os.path.exists(target):
        found = detect(target)
        if found is None:
            raise BadInput(
                f"{target} is not a session that adopt knows: of Tilth, AgentMux, the Resume Protocol, Claude Code, "
                "Codex or Kandev; `holdfast adopt --list` shows those on this machine"
            )
        return found
    matches = [found for found in all_sessions(repo, everywhere=True) if _fits(found, target)]
    if not matches:
        raise NothingToDo(f"there is no {target!r}, and no session with this id; list them with: holdfast adopt --list")
    if len(matches) > 1:
        paths = ", ".join(found.path for found in matches[:5])
        raise BadInput(f"{target!r} could be any of {paths}; pass the path")
    return matches[0]


def foreign_session_at(path: str) -> ForeignSession | None:
    """Return the session at a path, of a tool with a format of its own; the Resume Protocol's logs are like ours."""
    found = detect(path) if os.path.exists(path) else None
    return read_session(found) if found is not None and found.tool is not Tool.RESUME_PROTOCOL else None


def _fits(found: FoundSession, name: str) -> bool:
    path = os.path.dirname(found.path) if os.path.basename(found.path) == _LOG else found.path
    stem = os.path.splitext(os.path.basename(path))[0]
    return bool(name) and (stem.startswith(name) or (stem.startswith("rollout-") and f"-{name}" in stem))


def all_sessions(repo: str, *, everywhere: bool = False) -> Iterator[FoundSession]:
    """Yield the sessions on this machine, those of each tool by name; of a repository unless `everywhere`."""
    top = os.path.abspath(repo)
    home = os.environ.get("TILTH_HOME") or os.path.join(os.path.expanduser("~"), ".tilth")
    for folder in sorted(glob.glob(os.path.join(glob.escape(home), "sessions", "*"))):
        if tilth.is_session(folder):
            yield FoundSession(Tool.TILTH, folder)
    for folder in sorted(glob.glob(os.path.join(glob.escape(top), ".agentmux", ".sessions", "*"))):
        if agentmux.is_session(folder):
            yield FoundSession(Tool.AGENTMUX, folder)
    for path in sorted(glob.glob(os.path.join(glob.escape(top), ".claude", "progress", "*", _LOG))):
        if resume_protocol.is_log(path):
            yield FoundSession(Tool.RESUME_PROTOCOL, path)
    yield from _conversations(top, everywhere=everywhere)


def _conversations(top: str, *, everywhere: bool) -> Iterator[FoundSession]:
    folder = "*" if everywhere else "".join(char if char.isascii() and char.isalnum() else "-" for char in top) + "*"
    for path in _newest(os.path.join(glob.escape(claude_code.projects_folder()), folder, "*.jsonl")):
        if claude_code.is_session(path):
            yield FoundSession(Tool.CLAUDE_CODE, path)
    for path in _newest(os.path.join(glob.escape(codex.sessions_folder()), "*", "*", "*", "rollout-*.jsonl")):
        if codex.is_session(path):
            yield FoundSession(Tool.CODEX, path)
    for path in _newest(os.path.join(glob.escape(kandev.sessions_folder()), "*.jsonl")):
        if kandev.is_session(path):
            yield FoundSession(Tool.KANDEV, path)


def _newest(pattern: str) -> list[str]:
    found = glob.glob(pattern)
    return sorted(found, key=_time_of, reverse=True)[:_MAX_CONVERSATIONS]


def _time_of(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0


def is_of_repository(session: ForeignSession, top: str) -> bool:
    """Whether a session worked in this folder. A session that names no folder may have."""
    places = [os.path.realpath(place) for place in (session.repo, session.cwd) if place is not None]
    root = os.path.realpath(top)
    return not places or any(place == root or place.startswith(f"{root}/") for place in places)


def sessions_of(repo: str) -> Iterator[tuple[FoundSession, ForeignSession | str]]:
    """Yield the sessions of a repository, each as read; or why it cannot be read."""
    for found in all_sessions(repo):
        try:
            session = read_session(found)
        except HoldfastError as error:
            yield found, str(error)
            continue
        if is_of_repository(session, repo):
            yield found, session
