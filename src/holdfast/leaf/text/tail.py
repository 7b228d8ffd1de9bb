"""The first and last bytes of a stream in bounded memory, as text of whole characters."""

from codecs import getincrementaldecoder


class BoundedOutput:
    def __init__(self, max_bytes: int) -> None:
        self._half = max_bytes // 2
        self._head = bytearray()
        self._tail = bytearray()
        self.dropped_bytes = 0

    def add(self, data: bytes) -> None:
        room = self._half - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        self._tail += data
        excess = len(self._tail) - self._half
        if excess > 0:
            del self._tail[:excess]
            self.dropped_bytes += excess

    def text(self) -> str:
        if not self.dropped_bytes:
            return bytes(self._head + self._tail).decode("utf-8", "replace")
        head = getincrementaldecoder("utf-8")("replace").decode(bytes(self._head))
        tail = bytes(self._tail[_leading_continuation_bytes(self._tail) :]).decode("utf-8", "replace")
        return f"{head}\n[… {self.dropped_bytes} bytes left out …]\n{tail}"


def _leading_continuation_bytes(data: bytearray) -> int:
    """The number of bytes at the start that belong to a character cut off before them."""
    count = 0
    while count < min(3, len(data)) and data[count] & 0xC0 == 0x80:  # noqa: PLR2004 - a continuation byte
        count += 1
    return count
