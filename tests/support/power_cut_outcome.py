"""What a power cut leaves: chosen by Hypothesis, by a seed, or the two extremes."""

import random
from typing import NamedTuple

from hypothesis import strategies as st

from tests.support.disks import PAGE


class Drawn:
    """Hypothesis decides, with a liking for the places where something could go wrong."""

    def __init__(self, data: st.DataObject) -> None:
        self._data = data

    def size(self, low: int, high: int, ends: list[int]) -> int:
        near = {end - back for end in (*ends, high) for back in range(3)}
        pages = range(low - low % PAGE, high, PAGE)
        delicate = sorted(place for place in (low, high, *near, *pages) if low <= place <= high)
        return self._data.draw(st.sampled_from(delicate) | st.integers(low, high), label="length left")

    def keeps(self, page: int) -> bool:
        return self._data.draw(st.booleans(), label=f"page {page} reached the disk")


class Rolled:
    def __init__(self, dice: random.Random) -> None:
        self._dice = dice

    def size(self, low: int, high: int, ends: list[int]) -> int:
        return self._dice.choice([high, self._dice.randint(low, high)])

    def keeps(self, page: int) -> bool:
        return self._dice.random() < 0.5


class Fixed(NamedTuple):
    """So long, or as long as it was written; only the pages that are `lost` are lost."""

    length: int | None = None
    lost: frozenset[int] | None = frozenset()

    def size(self, low: int, high: int, ends: list[int]) -> int:
        return high if self.length is None else self.length

    def keeps(self, page: int) -> bool:
        return self.lost is not None and page not in self.lost


class _Nothing:
    """Not a byte that was not synced is there."""

    def size(self, low: int, high: int, ends: list[int]) -> int:
        return low

    def keeps(self, page: int) -> bool:
        return False


NOTHING_LEFT = _Nothing()
