"""The agent's own sessions: one file each, so that another process can continue after a kill.

A file is written completely or not at all: a new one is renamed over the old one.
"""

import hashlib
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import msgspec

from holdfast.leaf.failpoints import failpoint_pair

_FAILPOINT = failpoint_pair("playbook.save")
_SESSION_ID = re.compile(r"[A-Za-z0-9_-]{1,100}")
_SUFFIX = ".json"


class RecordedMessage(msgspec.Struct):
    """A message of the user."""

    turn: int
    text: str


class SentUpdate(msgspec.Struct):
    """An update that was sent, for a replay."""

    turn: int
    update: dict[str, Any]


class UnfinishedTurn(msgspec.Struct):
    """The turn in progress; after a kill, the interrupted one."""

    turn: int
    plays: int | None  # the turn of the playbook; None is `otherwise`
    begun: int = 0  # steps started


class PlaybookSession(msgspec.Struct):
    """The content of a session's file."""

    id: str
    cwd: str
    said: list[RecordedMessage] = []
    shown: list[SentUpdate] = []
    turns: int = 0
    next: int = 0  # turns finished, of those that are played in order
    played: list[int] = []  # turns with `once`
    unfinished: UnfinishedTurn | None = None
    tool_calls: int = 0
    mode: str | None = None
    config: dict[str, str | bool] = {}
    title: str | None = None
    updated: str = ""

    def add_update(self, update: dict[str, Any]) -> None:
        """Keep an update for a replay; chunks of one text become one."""
        last = self.shown[-1] if self.shown else None
        kind = update["sessionUpdate"]
        if last and last.turn == self.turns and kind.endswith("_chunk") and last.update["sessionUpdate"] == kind:
            last.update["content"]["text"] += update["content"]["text"]
            return
        self.shown.append(SentUpdate(self.turns, msgspec.json.decode(msgspec.json.encode(update))))

    def cut_after(self, message_id: str) -> bool:
        """Forget what came after this message of the agent. Returns False if there is none."""
        found = [number for number, sent in enumerate(self.shown) if sent.update.get("messageId") == message_id]
        if not found:
            return False
        self.shown = self.shown[: found[-1] + 1]
        self.turns = self.shown[-1].turn
        self.said = [message for message in self.said if message.turn <= self.turns]
        return True


def new_session_id() -> str:
    return f"play-{secrets.token_hex(8)}"


class StateFolder:
    """The state folder."""

    def __init__(self, path: str) -> None:
        self._sessions = os.path.join(path, "sessions")
        self._once_folder = os.path.join(path, "once")

    def save(self, record: PlaybookSession) -> None:
        _FAILPOINT.before()
        record.updated = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        os.makedirs(self._sessions, exist_ok=True)
        path = self._file(record.id)
        temporary = f"{path}.{os.getpid()}.tmp"
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(fd, "wb") as file:
            file.write(msgspec.json.encode(record))
            file.flush()
            os.fdatasync(fd)
        os.rename(temporary, path)
        _FAILPOINT.after()

    def load(self, session_id: str) -> PlaybookSession | None:
        """Return None if there is no such session."""
        if not _SESSION_ID.fullmatch(session_id):
            return None
        try:
            with open(self._file(session_id), "rb") as file:
                return msgspec.json.decode(file.read(), type=PlaybookSession)
        except (FileNotFoundError, msgspec.MsgspecError):
            return None

    def sessions(self) -> Iterator[PlaybookSession]:
        """Yield the sessions, newest first."""
        names: list[str] = []
        with suppress(FileNotFoundError):
            names = [name for name in os.listdir(self._sessions) if name.endswith(_SUFFIX)]
        found = [record for name in names if (record := self.load(name.removesuffix(_SUFFIX))) is not None]
        yield from sorted(found, key=lambda record: record.updated, reverse=True)

    def is_first_time(self, name: str) -> bool:
        """Return True once for each name, across all processes that use this folder."""
        os.makedirs(self._once_folder, exist_ok=True)
        mark = os.path.join(self._once_folder, hashlib.sha256(name.encode()).hexdigest()[:24])
        try:
            os.close(os.open(mark, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        except FileExistsError:
            return False
        return True

    def _file(self, session_id: str) -> str:
        return os.path.join(self._sessions, session_id + _SUFFIX)
