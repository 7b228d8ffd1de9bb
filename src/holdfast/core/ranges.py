"""Sets of numbers that mostly follow one another, as sorted ranges [first, last]: one range when none is missing."""

from bisect import bisect_right
from operator import itemgetter

_first = itemgetter(0)


def add(ranges: list[list[int]], number: int) -> bool:
    """Add a number; False when it was there already."""
    index = bisect_right(ranges, number, key=_first)
    if index and number <= ranges[index - 1][1]:
        return False
    ranges.insert(index, [number, number])
    _join(ranges, index)
    _join(ranges, index - 1)
    return True


def _join(ranges: list[list[int]], index: int) -> None:
    """Make one of a range and the next where nothing is missing between them."""
    if 0 <= index < len(ranges) - 1 and ranges[index][1] + 1 == ranges[index + 1][0]:
        ranges[index][1] = ranges.pop(index + 1)[1]
