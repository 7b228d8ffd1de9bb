import itertools

from hypothesis import given
from hypothesis import strategies as st

from holdfast.core import ranges
from tests.core.strategies import examples


@given(st.lists(st.integers(0, 15)))
@examples(200)
def test_ranges_hold_what_a_set_would(numbers: list[int]) -> None:
    kept: list[list[int]] = []
    known: set[int] = set()
    for number in numbers:
        assert ranges.add(kept, number) == (number not in known)
        known.add(number)
        assert [n for first, last in kept for n in range(first, last + 1)] == sorted(known)
        assert all(before[1] + 1 < after[0] for before, after in itertools.pairwise(kept))
