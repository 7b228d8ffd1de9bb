"""Anchors: records of a log's state, kept outside the run's folder.

An anchor is a byte position in the log and the chain link of the line that ends there. It is written into the trailers
of the run's commits. A log that was cut or rewritten before an anchor does not have that link at that position, even if
the whole run folder was rewritten. An anchor is only about the past, so an old one stays true: losing the newest anchor
makes the proof weaker, never wrong.
"""

import re
from collections.abc import Collection, Iterator
from typing import NamedTuple

import msgspec

RUN_TRAILER, CHAIN_TRAILER = "Holdfast-Run", "Holdfast-Chain"

_TRAILER = re.compile(rf"^({RUN_TRAILER}|{CHAIN_TRAILER}): *(.*?)\s*$", re.MULTILINE)
_VALUE = re.compile("([0-9]{1,18}):([0-9a-f]{32})")


class Anchor(NamedTuple):
    """The link of the line that ends at a position of a log."""

    position: int
    chain: str

    def __str__(self) -> str:
        """The text in a trailer."""
        return f"{self.position}:{self.chain}"


class RecordedAnchor(msgspec.Struct, frozen=True):
    """An anchor with the commit, time and repository where it was found."""

    position: int
    chain: str
    commit: str
    time: str
    subject: str
    repository: str

    @property
    def anchor(self) -> Anchor:
        return Anchor(self.position, self.chain)


def anchors_in(message: str, run_ids: Collection[str]) -> Iterator[Anchor]:
    """The anchors of these runs in a commit message.

    A squashed commit may contain those of several runs, and not as trailers: each belongs to the run named above it.
    """
    run_id = None
    for name, value in _TRAILER.findall(message):
        if name == RUN_TRAILER:
            run_id = value
        elif run_id in run_ids and (found := _VALUE.fullmatch(value)) is not None:
            yield Anchor(int(found[1]), found[2])
