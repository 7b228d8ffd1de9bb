"""Mistakes in files that people write: all at once, each with its line."""

from collections.abc import Sequence
from typing import NamedTuple

from holdfast.leaf.errors import BadInput


class Mistake(NamedTuple):
    """`path` is the place in the file, such as `phases[0].role`. A mistake in a flag has no file."""

    file: str | None
    line: int | None
    path: str
    what: str

    def __str__(self) -> str:
        place = ":".join(str(part) for part in (self.file, self.line) if part is not None)
        return ": ".join(part for part in (place, self.path, self.what) if part)


class BadFile(BadInput):
    def __init__(self, mistakes: Sequence[Mistake]) -> None:
        super().__init__("\n".join(map(str, mistakes)))
        self.mistakes = tuple(mistakes)

    @classmethod
    def mistakes_of(cls, error: BadInput) -> tuple[Mistake, ...]:
        """The mistakes of any input error; one that names no place in a file is a single mistake."""
        return error.mistakes if isinstance(error, cls) else (Mistake(None, None, "", str(error)),)

    @property
    def lines(self) -> tuple[str, ...]:
        return tuple(map(str, self.mistakes))
