"""A session on disk: one JSONL file, appended to and synced after every step. What is in it survives a kill.

Records: `session` first, then `message` (one message of the conversation), `started` (a tool call is about to run),
`mode`, `allowed` (a tool that needs no more asking), `title`, `compacted`, `withdrawn`. Unknown ones are skipped.
"""

import fcntl
import os
import re
import secrets
from collections.abc import Iterator
from typing import Any

import msgspec

from holdfast.leaf.errors import HoldfastError, RunOwned
from holdfast.leaf.failpoints import Failpoint, failpoint_pair, trigger_failpoint
from holdfast.leaf.files.directories import sync_directory
from holdfast.leaf.files.sync import drop_unwritten_pages

_FAILPOINT_SAVE, _FAILPOINT_TORN = failpoint_pair("builtin.save"), Failpoint("builtin.save.torn")
_FAILPOINT_REPAIR = failpoint_pair("builtin.repair")
_SESSION_ID = re.compile(r"hfb-[0-9a-f]{24}")
_SUFFIX = ".jsonl"


class NoSuchSession(HoldfastError):
    pass


def new_session_id() -> str:
    return f"hfb-{secrets.token_hex(12)}"


class SessionFile:
    """A session file, locked by one process at a time. The kernel releases the lock when that process dies."""

    def __init__(self, path: str, fd: int) -> None:
        self._path = path
        self._fd = fd

    @classmethod
    def create(cls, folder: str, session_id: str, first_record: dict[str, Any]) -> "SessionFile":
        os.makedirs(folder, mode=0o700, exist_ok=True)
        path = _session_path(folder, session_id)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        file = cls(path, fd)
        file.append({"type": "session", **first_record})
        sync_directory(folder)
        return file

    @classmethod
    def open(cls, folder: str, session_id: str) -> tuple["SessionFile", list[dict[str, Any]]]:
        """Lock a session and read it. A torn last line, as a kill leaves it, is set aside."""
        path = _session_path(folder, session_id)
        try:
            fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
        except FileNotFoundError:
            raise NoSuchSession(f"there is no session {session_id}") from None
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            raise RunOwned(f"session {session_id} is open in another process; end that one first") from None
        try:
            records = _repair_and_read(path, fd)
        except BaseException:
            os.close(fd)
            raise
        return cls(path, fd), records

    def append(self, *records: dict[str, Any]) -> None:
        """Return when the records are on the disk.

        After a failed write, nothing is written until the file is opened again.
        """
        if self.is_closed:
            raise HoldfastError(f"{self._path} is closed, or a write to it failed: nothing more can be saved")
        data = b"".join(msgspec.json.encode(record) + b"\n" for record in records)
        try:
            _FAILPOINT_SAVE.before()
            if _FAILPOINT_TORN.is_due():
                os.write(self._fd, data[: len(data) // 2])
                trigger_failpoint()
            while data:
                data = data[os.write(self._fd, data) :]
            os.fdatasync(self._fd)
        except OSError:
            drop_unwritten_pages(self._fd)
            self.close()
            raise
        _FAILPOINT_SAVE.after()

    @property
    def is_closed(self) -> bool:
        return self._fd < 0

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def session_headers(folder: str) -> Iterator[tuple[str, float, dict[str, Any]]]:
    """Yield id, mtime and first record of every session, newest first."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return
    sessions = [name for name in names if name.endswith(_SUFFIX) and _SESSION_ID.fullmatch(name.removesuffix(_SUFFIX))]
    found = [(os.stat(os.path.join(folder, name)).st_mtime, name) for name in sessions]
    for changed, name in sorted(found, reverse=True):
        with open(os.path.join(folder, name), "rb") as file:
            first = _decode(file.readline())
            if first is not None:
                yield name.removesuffix(_SUFFIX), changed, first


def read_title(folder: str, session_id: str) -> str | None:
    """Return the newest title near the beginning of the file: titles are written early."""
    title = None
    with open(_session_path(folder, session_id), "rb") as file:
        for _ in range(8):
            record = _decode(file.readline())
            if record is not None and record.get("type") == "title":
                title = str(record["title"])
    return title


def _session_path(folder: str, session_id: str) -> str:
    if not _SESSION_ID.fullmatch(session_id):
        raise NoSuchSession(f"there is no session {session_id!r}")
    return os.path.join(folder, session_id + _SUFFIX)


def _repair_and_read(path: str, fd: int) -> list[dict[str, Any]]:
    with open(path, "rb") as file:
        data = file.read()
    whole = data.rfind(b"\n") + 1
    if whole < len(data):
        with open(f"{path}.torn-{whole}", "wb") as aside:
            aside.write(data[whole:])
            aside.flush()
            os.fsync(aside.fileno())
        _FAILPOINT_REPAIR.before()
        os.ftruncate(fd, whole)
        _FAILPOINT_REPAIR.after()
    try:
        os.fsync(fd)  # complete lines of a killed writer may be only in the page cache
    except OSError:
        drop_unwritten_pages(fd)
        raise
    records = [record for line in data[:whole].splitlines() if (record := _decode(line)) is not None]
    if not records or records[0].get("type") != "session":
        raise NoSuchSession(f"{path} is not a session of the built-in agent; it was left as it is")
    return records


def _decode(line: bytes) -> dict[str, Any] | None:
    try:
        record = msgspec.json.decode(line)
    except msgspec.DecodeError:
        return None
    return record if isinstance(record, dict) else None
