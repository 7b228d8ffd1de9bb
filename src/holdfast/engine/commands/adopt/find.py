"""Which tool wrote a file or folder, and where the tools keep their sessions on this machine."""

import glob
import os
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from holdfast.core.redaction.redaction import SHAPES_ONLY_REDACTOR
from holdfast.core.work.foreign_tools import Tool
from holdfast.core.work.names import BRANCH_PREFIX
from holdfast.engine.commands.adopt import agentmux, claude_code, codex, kandev, resume_protocol, tilth
from holdfast.engine.commands.adopt.base import ForeignSession
from holdfast.git.repository import find_repository
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
    session = kind.read(found.path)
    session.goal = SHAPES_ONLY_REDACTOR.redact_text(session.goal)  # it is shown, and names the run
    return session


def find_session(target: str, tops: Sequence[str]) -> FoundSession:
    """Return the session at a path, or the one with an id. Raises `BadInput` or `NothingToDo`."""
    found = detect(target) if os.path.exists(target) else None
    if found is not None:
        return found
    matches = list(all_sessions(tops, everywhere=True, named=target)) if os.sep not in target else []
    exact = [match for match in matches if _is_named(match.path, target)]
    matches = exact or matches
    if len(matches) > 1:
        paths = ", ".join(found.path for found in matches[:5])
        raise BadInput(f"{target!r} could be any of {paths}; pass the path")
    if matches:
        return matches[0]
    if os.path.exists(target):
        raise BadInput(
            f"{target} is not a session that adopt knows: of Tilth, AgentMux, the Resume Protocol, Claude Code, "
            "Codex or Kandev; `holdfast adopt --list` shows those on this machine"
        )
    raise NothingToDo(f"there is no {target!r}, and no session with this id; list them with: holdfast adopt --list")


def foreign_session_at(path: str) -> ForeignSession | None:
    """Return the session at a path, of a tool with a format of its own; the Resume Protocol's logs are like ours."""
    found = detect(path) if os.path.exists(path) else None
    return read_session(found) if found is not None and found.tool is not Tool.RESUME_PROTOCOL else None


def _stem(path: str) -> str:
    """The name of a session by its path: a log in a folder of its own has the folder's."""
    path = os.path.dirname(path) if os.path.basename(path) == _LOG else path
    stem, extension = os.path.splitext(os.path.basename(path))
    return stem if extension == ".jsonl" else stem + extension


def _is_named(path: str, name: str) -> bool:
    stem = _stem(path)
    return stem == name or (stem.startswith("rollout-") and stem.endswith(f"-{name}"))


def _may_be_named(path: str, name: str) -> bool:
    """Whether a path has the id, or an id that starts so."""
    stem = _stem(path)
    return bool(name) and (stem.startswith(name) or (stem.startswith("rollout-") and f"-{name}" in stem))


def all_sessions(tops: Sequence[str], *, everywhere: bool = False, named: str | None = None) -> Iterator[FoundSession]:
    """Yield the sessions on this machine, those of each tool by name.

    Only of a repository unless `everywhere`; only with an id that starts with `named`.
    """
    home = os.environ.get("TILTH_HOME") or os.path.join(os.path.expanduser("~"), ".tilth")
    places = (
        (Tool.TILTH, tilth.is_session, [os.path.join(glob.escape(home), "sessions", "*")]),
        (
            Tool.AGENTMUX,
            agentmux.is_session,
            [os.path.join(glob.escape(top), ".agentmux", ".sessions", "*") for top in tops],
        ),
        (
            Tool.RESUME_PROTOCOL,
            resume_protocol.is_log,
            [os.path.join(glob.escape(top), ".claude", "progress", "*", _LOG) for top in tops],
        ),
    )
    for tool, fits, patterns in places:
        for path in sorted(path for pattern in patterns for path in glob.glob(pattern)):
            if (named is None or _may_be_named(path, named)) and fits(path):
                yield FoundSession(tool, path)
    yield from _conversations(tops, everywhere=everywhere, named=named)


async def folders_of_repository(folder: str) -> list[str]:
    """The top folders of a repository's checkouts, without those of runs. The folder itself comes first.

    A tool that was started in it may keep its sessions there.
    """
    place = os.path.realpath(folder)
    try:
        repository = await find_repository(place)
        found = [each for each in await repository.worktrees() if not (each.branch or "").startswith(BRANCH_PREFIX)]
    except HoldfastError:
        return [place]
    tops = [os.path.realpath(each.path) for each in found if os.path.isdir(each.path)]
    tops.sort(key=lambda top: not f"{place}/".startswith(f"{top}/"))  # the one that the user is in comes first
    is_below_top = any(place.startswith(f"{top}/") for top in tops)
    return [place, *tops] if is_below_top or not tops else tops


def _conversations(tops: Sequence[str], *, everywhere: bool, named: str | None) -> Iterator[FoundSession]:
    names = ["*"] if everywhere else [claude_code.folder_of(top) + "*" for top in tops]
    projects = glob.escape(claude_code.projects_folder())
    places = (
        (Tool.CLAUDE_CODE, claude_code.is_session, [os.path.join(projects, name, "*.jsonl") for name in names]),
        (
            Tool.CODEX,
            codex.is_session if everywhere else lambda path: codex.works_in(path, tops),
            [os.path.join(glob.escape(codex.sessions_folder()), "*", "*", "*", "rollout-*.jsonl")],
        ),
        (Tool.KANDEV, kandev.is_session, [os.path.join(glob.escape(kandev.sessions_folder()), "*.jsonl")]),
    )
    for tool, fits, patterns in places:
        paths = {path for pattern in patterns for path in glob.glob(pattern)}
        count = 0
        for path in sorted(paths, key=_time_of, reverse=True):
            if (named is None or _may_be_named(path, named)) and fits(path):
                yield FoundSession(tool, path)
                count += 1
                if count == _MAX_CONVERSATIONS:
                    break


def _time_of(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0


def is_of_repository(session: ForeignSession, tops: Sequence[str]) -> bool:
    """Whether a session worked in one of these folders. A session that names no folder may have."""
    places = [os.path.realpath(place) for place in (session.repo, session.cwd) if place is not None]
    return not places or any(place == top or place.startswith(f"{top}/") for place in places for top in tops)


def sessions_of(tops: Sequence[str]) -> Iterator[tuple[FoundSession, ForeignSession | str]]:
    """Yield the sessions of a repository, each as read; or why it cannot be read."""
    for found in all_sessions(tops):
        try:
            session = read_session(found)
        except HoldfastError as error:
            yield found, str(error)
            continue
        if is_of_repository(session, tops):
            yield found, session
