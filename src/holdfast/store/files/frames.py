"""A compressed log: a gzip file whose members are independent frames, so that any position can be read.

Every frame holds `FRAME_BYTES` of the log, the last one fewer. The header of a member says how long the member is, so
the frames are found without an index that could disagree with them. `zcat events.jsonl.gz` prints the log.
"""

import os
import struct
import zlib
from binascii import crc32
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from holdfast.leaf.errors import StorageFailed

FRAME_BYTES = 256 * 1024  # of the log; measured: larger ones are hardly smaller, and cost more memory
_LEVEL = 6
_KEPT_FRAMES = 2  # decompressed at once, of one open log
_HEADER = struct.Struct("<4B I 2B H 2s H I I I")  # gzip's, with one extra field
_TRAILER = struct.Struct("<I I")
_MAGIC, _DEFLATE, _HAS_EXTRA, _UNIX = (0x1F, 0x8B), 8, 4, 3
_FIELD = b"HF"
_FIELD_BYTES = 12
_EXTRA_BYTES = 4 + _FIELD_BYTES


class Frame(NamedTuple):
    """Where a frame is in the file, and how much of the log it holds. `generation` is that of the whole file."""

    offset: int
    size: int
    content: int
    generation: int


def compress(pieces: Iterable[bytes], generation: int) -> Iterator[bytes]:
    """Yield the frames of a log. `generation` is a number of the caller, which every frame carries."""
    buffered = bytearray()
    for piece in pieces:
        buffered += piece
        while len(buffered) >= FRAME_BYTES:
            yield _encode_frame(bytes(buffered[:FRAME_BYTES]), generation)
            del buffered[:FRAME_BYTES]
    if buffered:
        yield _encode_frame(bytes(buffered), generation)


def _encode_frame(content: bytes, generation: int) -> bytes:
    deflate = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    body = deflate.compress(content) + deflate.flush()
    size = _HEADER.size + len(body) + _TRAILER.size
    header = _HEADER.pack(
        *_MAGIC, _DEFLATE, _HAS_EXTRA, 0, 0, _UNIX, _EXTRA_BYTES, _FIELD, _FIELD_BYTES, size, len(content), generation
    )
    return header + body + _TRAILER.pack(crc32(content), len(content))


class CompressedLog:
    """An open compressed log. Positions count the bytes of the log, not of the file."""

    def __init__(self, fd: int, path: str) -> None:
        self._fd = fd
        self._path = path
        self._frames = list(_read_frames(fd, path))
        self._decompressed: OrderedDict[int, bytes] = OrderedDict()

    @property
    def size(self) -> int:
        return (len(self._frames) - 1) * FRAME_BYTES + self._frames[-1].content if self._frames else 0

    @property
    def generation(self) -> int:
        return self._frames[0].generation if self._frames else 0

    def pread(self, count: int, position: int) -> bytes:
        found = bytearray()
        while count > 0 and position < self.size:
            start = position % FRAME_BYTES
            piece = self._frame(position // FRAME_BYTES)[start : start + count]
            found += piece
            position += len(piece)
            count -= len(piece)
        return bytes(found)

    def _frame(self, number: int) -> bytes:
        if number in self._decompressed:
            self._decompressed.move_to_end(number)
            return self._decompressed[number]
        content = self._decompressed[number] = self._decode(self._frames[number])
        if len(self._decompressed) > _KEPT_FRAMES:
            self._decompressed.popitem(last=False)
        return content

    def _decode(self, frame: Frame) -> bytes:
        data = os.pread(self._fd, frame.size, frame.offset)
        try:
            content = zlib.decompress(data[_HEADER.size : -_TRAILER.size], -zlib.MAX_WBITS)
            if _TRAILER.unpack(data[-_TRAILER.size :]) != (crc32(content), frame.content):
                raise _damaged(self._path, frame.offset)
        except (zlib.error, struct.error):
            raise _damaged(self._path, frame.offset) from None
        return content


def _read_frames(fd: int, path: str) -> Iterator[Frame]:
    offset, end = 0, os.fstat(fd).st_size
    is_last = False
    while offset < end:
        raw = os.pread(fd, _HEADER.size, offset)
        if is_last or len(raw) < _HEADER.size:
            raise _damaged(path, offset)
        *start, size, content, generation = _HEADER.unpack(raw)
        is_ours = (start[0], start[1], start[2], start[8]) == (*_MAGIC, _DEFLATE, _FIELD)
        if not is_ours or size <= _HEADER.size or offset + size > end or not 0 < content <= FRAME_BYTES:
            raise _damaged(path, offset)
        yield Frame(offset, size, content, generation)
        is_last = content < FRAME_BYTES
        offset += size


def _damaged(path: str, offset: int) -> StorageFailed:
    return StorageFailed(f"{path} is damaged at byte {offset}: it is not what `holdfast prune` wrote; restore it")
