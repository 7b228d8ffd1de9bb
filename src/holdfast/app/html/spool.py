"""Many streams of text that become one file: each is put by on the disk until its turn, so that memory stays small."""

import os
from collections.abc import Iterator

_AT_ONCE = 4 * 1024 * 1024  # characters kept before they are written


class Spool:
    """Pieces by name, in a folder of its own. The names come out in the order in which they were first used."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._numbers: dict[str, int] = {}
        self._waiting: dict[str, list[str]] = {}
        self._size = 0

    def add(self, name: str, piece: str) -> None:
        self._numbers.setdefault(name, len(self._numbers))
        self._waiting.setdefault(name, []).append(piece)
        self._size += len(piece)
        if self._size >= _AT_ONCE:
            self._put_by()

    def names(self) -> list[str]:
        return list(self._numbers)

    def read(self, name: str) -> Iterator[bytes]:
        self._put_by()
        with open(self._file(name), "rb") as file:
            while chunk := file.read(_AT_ONCE):
                yield chunk

    def _put_by(self) -> None:
        for name, pieces in self._waiting.items():
            with open(self._file(name), "ab") as file:
                file.write("\n".join((*pieces, "")).encode(errors="replace"))
        self._waiting.clear()
        self._size = 0

    def _file(self, name: str) -> str:
        return os.path.join(self._folder, str(self._numbers[name]))
