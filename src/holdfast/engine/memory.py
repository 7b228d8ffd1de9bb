"""stub"""

from typing import NamedTuple


class Loaded(NamedTuple):
    name: str
    text: str
    characters: int
    cut: bool
    sha256: str


def load(*a, **k):
    return []
