"""The first and the last bytes of a stream, in bounded memory whatever comes, as text of whole characters."""

from codecs import getincrementaldecoder


class Tail:
    def __init__(self, cap: int) -> None:
        self._half = cap // 2
        self._head = bytearray()
        self._tail = bytearray()
        self.dropped = 0

    def add(self, data: bytes) -> None:
        room = self._half - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        self._tail += data
        excess = len(self._tail) - self._half
        if excess > 0:
            del self._tail[:excess]
            self.dropped += excess

    def text(self) -> str:
        if not self.dropped:
            return bytes(self._head + self._tail).decode("utf-8", "replace")
        head = getincrementaldecoder("utf-8")("replace").decode(bytes(self._head))
        tail = bytes(self._tail[_rest_of_character(self._tail) :]).decode("utf-8", "replace")
        return f"{head}\n[… {self.dropped} bytes left out …]\n{tail}"


def _rest_of_character(data: bytearray) -> int:
    """How many bytes at the beginning belong to a character that began before."""
    count = 0
    while count < min(3, len(data)) and data[count] & 0xC0 == 0x80:  # noqa: PLR2004 - a continuation byte
        count += 1
    return count
