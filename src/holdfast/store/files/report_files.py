"""Report files: where confined agents report, one file for each conversation.

A confined agent must not write to the inbox: it could put in the user's approval, or a report of another role. It gets
a file of its own. The owner of the run moves what is in it to the inbox, and the file's name says whose reports they
are, whatever is written in it. What is no report is refused.

The agent can write anything to its file: a line without an end, zeros without number. So it is read in bounded pieces.
"""

import asyncio
import fcntl
import hashlib
import os
import stat
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress

import msgspec

from holdfast.core.log.codec import UNREADABLE, Line, parse
from holdfast.core.messages.reports import REFUSED, TOOLS_LISTED, RefusedReport, report_of
from holdfast.core.redaction.redaction import Redactor
from holdfast.leaf.errors import BadInput, StorageFailed
from holdfast.leaf.files.directories import sync_directory
from holdfast.store.base import MESSAGE_TYPE, Message
from holdfast.store.files.disk import make_directories

_PIECE = 1024 * 1024  # bytes that are looked at at once,
_LONGEST_LINE = 16 * 1024 * 1024  # unless one line is longer
_MOST = 256 * 1024 * 1024  # bytes of one file: nothing is read beyond
_NEVER = 2**63  # the size of no file
_SHOWN = 200  # bytes of what is refused
_ENDING = ".jsonl"
_NO_REPORT = frozenset({b"", TOOLS_LISTED})


class ReportFiles:
    """Those of one run, for its owner."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._read_until: dict[str, int] = {}

    def make(self, conversation: str) -> str:
        """A new, empty file for the next agent of a conversation. What the one before wrote must be collected."""
        path = os.path.join(self.folder, f"{conversation}{_ENDING}")
        try:
            make_directories(self.folder)
            with suppress(FileNotFoundError):
                os.unlink(path)
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
            sync_directory(self.folder)
        except OSError as error:
            raise StorageFailed(f"cannot make {path}: {error.strerror}; put that right, and resume") from error
        self._read_until.pop(conversation, None)
        return path

    def unread(self) -> list[str]:
        """The conversations whose files have something that was not read in this session."""
        with suppress(FileNotFoundError), os.scandir(self.folder) as entries:
            found = [(entry.name.removesuffix(_ENDING), entry.stat(follow_symlinks=False)) for entry in entries]
            return sorted(name for name, file in found if file.st_size > self._read_until.get(name, 0))
        return []

    async def read(self, conversation: str, redactor: Redactor) -> AsyncIterator[Message]:
        """What was written since the last time, as messages of this conversation and of nobody else.

        What `redactor` knows is made unreadable in the file.
        """
        path = os.path.join(self.folder, f"{conversation}{_ENDING}")
        with _opened(path) as fd:
            async for lines in self._lines(conversation, fd, redactor):
                refused = False
                for line in lines:
                    if line in _NO_REPORT:
                        continue
                    message = _read(conversation, line)
                    if message is not None:
                        yield message
                    elif not refused:  # one for many: it may write as many as it likes
                        refused = True
                        yield refusal(conversation, line)

    async def _lines(self, conversation: str, fd: int, redactor: Redactor) -> AsyncIterator[list[bytes]]:
        """Whole lines, piece by piece. The next piece begins after those that the caller has dealt with."""
        size = _PIECE
        while (start := self._read_until.get(conversation, 0)) < os.fstat(fd).st_size:
            piece = os.pread(fd, size, start)
            end = piece.rfind(b"\n") + 1
            if start > _MOST or (not end and len(piece) >= _LONGEST_LINE):
                self._read_until[conversation] = _NEVER
                yield [piece[:_SHOWN] or b"(nothing)"]
                return
            if not end and len(piece) == size:
                size *= 2
                continue
            if not end:
                if not _end_line(fd):  # it is being written
                    return
                continue
            _blank(fd, piece[:end], start, redactor)
            yield piece[:end].split(b"\n")
            self._read_until[conversation] = start + end
            size = _PIECE
            await asyncio.sleep(0)


def _read(conversation: str, text: bytes) -> Message | None:
    line = parse(text)
    if not isinstance(line, Line) or line.type != MESSAGE_TYPE:
        return None
    try:
        given = msgspec.json.decode(line.data, type=Message)
        body = report_of(conversation, given.kind, given.body)
    except (*UNREADABLE, BadInput):
        return None
    return _message(conversation, given.id, given.kind, body)


def refusal(conversation: str, text: bytes) -> Message:
    """A message that tells the run of something that is no report."""
    error = "what it wrote to its file of reports is no report; agents report by their tools only"
    body = RefusedReport("agent", "(none)", error, text[:_SHOWN].decode(errors="replace"), conversation)
    name = hashlib.sha256(text).hexdigest()[:24]
    return _message(conversation, name, REFUSED, msgspec.Raw(msgspec.json.encode(body)))


def _message(conversation: str, name: str, kind: str, body: msgspec.Raw) -> Message:
    """Its id begins with ours: an agent might choose that of the answer which the user is about to give."""
    return Message(id=f"report-{conversation}-{name}", kind=kind, sender=conversation, body=body)


def _blank(fd: int, piece: bytes, start: int, redactor: Redactor) -> None:
    for begin, end in redactor.values_in(piece):
        os.pwrite(fd, b"*" * (end - begin), start + begin)


def _end_line(fd: int) -> bool:
    """End a line whose writer died in the middle of it. False while a writer is at it, or the file takes nothing."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    try:
        return os.pwrite(fd, b"\n", os.fstat(fd).st_size) > 0
    except OSError:
        return False
    finally:
        fcntl.flock(fd, fcntl.LOCK_UN)


@contextmanager
def _opened(path: str) -> Iterator[int]:
    fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise StorageFailed(f"{path} is not a plain file; delete it, and resume")
        yield fd
    finally:
        os.close(fd)
