"""Anchors: records outside a run's folder of what its log was at some moment.

An anchor is a position in the log, in bytes, and the chain's link of the line that ends there. It is written into the
trailers of the run's commits. A log that was cut or rewritten before an anchor does not have that link at that
position, whoever rewrote the run's folder. An anchor only speaks of the past, so an old one stays true: to lose the
newest one makes the proof weaker, never wrong.
"""

import re
from collections.abc import Collection, Iterator
from typing import NamedTuple

import msgspec

RUN, CHAIN = "Holdfast-Run", "Holdfast-Chain"

_TRAILER = re.compile(rf"^({RUN}|{CHAIN}): *(.*?)\s*$", re.MULTILINE)
_VALUE = re.compile("([0-9]{1,18}):([0-9a-f]{32})")


class Anchor(NamedTuple):
    """The link of the line that ends at a position of a log."""

    position: int
    chain: str

    def __str__(self) -> str:
        """As it stands in a trailer."""
        return f"{self.position}:{self.chain}"


class RecordedAnchor(msgspec.Struct, frozen=True):
    """An anchor as it was found: by which commit, of which time, in which repository."""

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
    """The anchors of these runs that a commit's message holds.

    A squashed commit may hold those of several runs, and not as trailers: each belongs to the run named above it.
    """
    run_id = None
    for name, value in _TRAILER.findall(message):
        if name == RUN:
            run_id = value
        elif run_id in run_ids and (found := _VALUE.fullmatch(value)) is not None:
            yield Anchor(int(found[1]), found[2])
