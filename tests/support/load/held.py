"""What a process has of the machine: files and memory."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

_FEWEST, _PART = 40, 5  # how many are the first, or else one of so many: enough that some were at their busiest
_MORE = 1.5  # times what these hold at most


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
    """In the order in which they were measured: the later ones hold no more than the first did."""
    early = held[: max(_FEWEST, len(held) // _PART)]
    most = Held(max(one.descriptors for one in early), max(one.memory for one in early))
    over = [one for one in held if one.descriptors > most.descriptors * _MORE or one.memory > most.memory * _MORE]
    assert not over, f"the first held {most} at most, and then: {over}"
