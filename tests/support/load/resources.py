"""What a process has of the machine: files and memory."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

_FEWEST, _PART = 40, 5  # how many are the first, or else one of so many
_MORE = 1.5  # times the memory that these hold at most
_OPEN = 64  # files: three agents at once, the git and the checks of each, and what a runner itself has


class Held(NamedTuple):
    descriptors: int
    memory: int  # bytes

    @classmethod
    def by(cls, pid: int) -> "Held | None":
        """None when it is gone."""
        try:
            status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
            private = next((line for line in status if line.startswith("RssAnon:")), None)
            return cls(len(os.listdir(f"/proc/{pid}/fd")), int(private.split()[1]) * 1024) if private else None
        except (FileNotFoundError, ProcessLookupError):
            return None


def must_be_bounded(held: Sequence[Held]) -> None:
    """In the order in which they were measured: the later ones hold no more memory than the first did.

    How many files are open depends on what a runner is at just then, and the first may not have been at their busiest.
    """
    most = max(one.memory for one in held[: max(_FEWEST, len(held) // _PART)])
    over = [one for one in held if one.descriptors > _OPEN or one.memory > most * _MORE]
    assert not over, f"{_OPEN} files, and {most} bytes as the first; but then: {over}"
