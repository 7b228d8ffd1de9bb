"""Collects many streams of text on the disk, to write them one after the other with little memory."""

import os
from collections.abc import Iterator

_MAX_BUFFERED_CHARS = 4 * 1024 * 1024  # before they are written to the disk


class Spool:
    """Pieces of text by name, in its own folder. Names keep the order of their first use."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._numbers: dict[str, int] = {}
        self._buffered: dict[str, list[str]] = {}
        self._buffered_chars = 0

    def add(self, name: str, piece: str) -> None:
        self._numbers.setdefault(name, len(self._numbers))
        self._buffered.setdefault(name, []).append(piece)
        self._buffered_chars += len(piece)
        if self._buffered_chars >= _MAX_BUFFERED_CHARS:
            self._flush()

    def names(self) -> list[str]:
        return list(self._numbers)

    def read(self, name: str) -> Iterator[bytes]:
        self._flush()
        with open(self._path(name), "rb") as file:
            while chunk := file.read(_MAX_BUFFERED_CHARS):
                yield chunk

    def _flush(self) -> None:
        for name, pieces in self._buffered.items():
            with open(self._path(name), "ab") as file:
                file.write("\n".join((*pieces, "")).encode(errors="replace"))
        self._buffered.clear()
        self._buffered_chars = 0

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, str(self._numbers[name]))
