"""Report files: confined agents write their reports there, one file per conversation.

A confined agent must not write to the inbox: it could forge the user's approval, or a report of another role. It gets
its own file. The owner of the run moves the reports to the inbox, and attributes them by the file's name, whatever the
file says. Everything that is not a report is refused.

The agent can write anything to its file: an endless line, gigabytes of zeros. So it is read in bounded chunks.
"""

import asyncio
import fcntl
import hashlib
import os
import stat
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress

import msgspec

from holdfast.core.log.codec import DECODE_ERRORS, Line, parse
from holdfast.core.messages.reports import attribute_report
from holdfast.core.messages.schema import RefusedReport, Report
from holdfast.core.messages.signals import TOOLS_LISTED
from holdfast.core.redaction.redaction import Redactor
from holdfast.leaf.errors import BadInput, StorageFailed
from holdfast.leaf.files.directories import sync_directory
from holdfast.leaf.files.disk import make_directories
from holdfast.store.base import MESSAGE_TYPE, Message

_CHUNK_BYTES = 1024 * 1024  # read at once,
_MAX_LINE_BYTES = 16 * 1024 * 1024  # unless one line is longer
_MAX_FILE_BYTES = 256 * 1024 * 1024  # the rest of a file is not read
_END_OF_READING = 2**63  # larger than any file
_MAX_EXCERPT_BYTES = 200  # of what is refused
_SUFFIX = ".jsonl"
_NO_REPORT = frozenset({b"", TOOLS_LISTED})


class ReportFiles:
    """The report files of one run, for its owner."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._read_until: dict[str, int] = {}

    def create(self, conversation_id: str) -> str:
        """Create an empty file for the next agent of a conversation. Earlier reports must have been collected."""
        path = os.path.join(self.folder, f"{conversation_id}{_SUFFIX}")
        try:
            make_directories(self.folder)
            with suppress(FileNotFoundError):
                os.unlink(path)
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
            sync_directory(self.folder)
        except OSError as error:
            raise StorageFailed(f"cannot create {path}: {error.strerror}; fix this, then resume the run") from error
        self._read_until.pop(conversation_id, None)
        return path

    def unread_conversations(self) -> list[str]:
        """Return the conversations whose files have content that this session has not read."""
        with suppress(FileNotFoundError), os.scandir(self.folder) as entries:
            found = [(entry.name.removesuffix(_SUFFIX), entry.stat(follow_symlinks=False)) for entry in entries]
            return sorted(name for name, file in found if file.st_size > self._read_until.get(name, 0))
        return []

    async def read(self, conversation_id: str, redactor: Redactor) -> AsyncIterator[Message]:
        """Yield the new reports, always as messages of this conversation.

        Overwrites secrets in the file.
        """
        path = os.path.join(self.folder, f"{conversation_id}{_SUFFIX}")
        with _open_regular_file(path) as fd:
            async for lines in self._read_lines(conversation_id, fd, redactor):
                refused = False
                for line in lines:
                    if line in _NO_REPORT:
                        continue
                    message = _parse_report(conversation_id, line)
                    if message is not None:
                        yield message
                    elif not refused:  # one refusal for many lines: the agent may write any number
                        refused = True
                        yield refusal_message(conversation_id, line)

    async def _read_lines(self, conversation_id: str, fd: int, redactor: Redactor) -> AsyncIterator[list[bytes]]:
        """Yield complete lines, chunk by chunk. The next chunk starts after the lines that the caller has handled."""
        size = _CHUNK_BYTES
        while (start := self._read_until.get(conversation_id, 0)) < os.fstat(fd).st_size:
            piece = os.pread(fd, size, start)
            end = piece.rfind(b"\n") + 1
            if start > _MAX_FILE_BYTES or (not end and len(piece) >= _MAX_LINE_BYTES):
                self._read_until[conversation_id] = _END_OF_READING
                yield [piece[:_MAX_EXCERPT_BYTES] or b"(nothing)"]
                return
            if not end and len(piece) == size:
                size *= 2
                continue
            if not end:
                if not _terminate_line(fd):  # a writer is writing it
                    return
                continue
            _redact(fd, piece[:end], start, redactor)
            yield piece[:end].split(b"\n")
            self._read_until[conversation_id] = start + end
            size = _CHUNK_BYTES
            await asyncio.sleep(0)


def _parse_report(conversation_id: str, text: bytes) -> Message | None:
    line = parse(text)
    if not isinstance(line, Line) or line.type != MESSAGE_TYPE:
        return None
    try:
        given = msgspec.json.decode(line.data, type=Message)
        report = attribute_report(conversation_id, given.kind, given.body)
    except (*DECODE_ERRORS, BadInput):
        return None
    return _report_message(conversation_id, given.id, report)


def refusal_message(conversation_id: str, text: bytes) -> Message:
    """Return a message that tells the run about content that is not a report."""
    error = "it wrote something to its report file that is not a report; agents report only with their tools"
    body = RefusedReport("agent", "(none)", error, text[:_MAX_EXCERPT_BYTES].decode(errors="replace"), conversation_id)
    name = hashlib.sha256(text).hexdigest()[:24]
    return _report_message(conversation_id, name, body)


def _report_message(conversation_id: str, report_id: str, report: Report | RefusedReport) -> Message:
    """The id gets a prefix: an agent might choose the id of an answer that the user is about to give."""
    return Message.of(report, message_id=f"report-{conversation_id}-{report_id}", sender=conversation_id)


def original_report_id(message: Message) -> str:
    """Return the id that the agent's server gave a report."""
    return message.id.removeprefix(f"report-{message.sender}-")


def _redact(fd: int, piece: bytes, start: int, redactor: Redactor) -> None:
    for begin, end in redactor.value_spans(piece):
        os.pwrite(fd, b"*" * (end - begin), start + begin)


def _terminate_line(fd: int) -> bool:
    """Terminate a line whose writer died in the middle. False while a writer holds the file, or the disk is full."""
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
def _open_regular_file(path: str) -> Iterator[int]:
    fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise StorageFailed(f"{path} is not a plain file; delete it, then resume the run")
        yield fd
    finally:
        os.close(fd)
