"""Sets of mostly consecutive numbers, as sorted ranges [first, last]: one range when none is missing."""

from bisect import bisect_right
from operator import itemgetter

_range_start = itemgetter(0)


def add(ranges: list[list[int]], number: int) -> bool:
    """Add a number; False when the set already had it."""
    index = bisect_right(ranges, number, key=_range_start)
    if index and number <= ranges[index - 1][1]:
        return False
    ranges.insert(index, [number, number])
    _merge_with_next(ranges, index)
    _merge_with_next(ranges, index - 1)
    return True


def _merge_with_next(ranges: list[list[int]], index: int) -> None:
    """Merge a range with the next when no number is missing between them."""
    if 0 <= index < len(ranges) - 1 and ranges[index][1] + 1 == ranges[index + 1][0]:
        ranges[index][1] = ranges.pop(index + 1)[1]
