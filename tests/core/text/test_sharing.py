"""How a bounded room is shared."""

import pytest

from holdfast.core.text.sharing import allocate_room, count_newest_fitting

#  sizes, the most of each, all together
SHARES: dict[str, tuple[list[int], int, int, list[int]]] = {
    "nobody": ([], 10, 10, []),
    "all fit": ([3, 4], 10, 10, [3, 4]),
    "one is larger than any may be": ([30, 4], 10, 20, [10, 4]),
    "a large one first does not push out a small one": ([100, 3], 100, 10, [7, 3]),
    "a large one last neither": ([3, 100], 100, 10, [3, 7]),
    "large ones share what is left": ([100, 2, 100], 100, 12, [5, 2, 5]),
    "large ones of different size share alike": ([9, 100, 5], 100, 12, [4, 4, 4]),
    "there is nothing to share": ([5, 5], 10, 0, [0, 0]),
    "what cannot be halved goes to the later": ([9, 9], 10, 7, [3, 4]),
}


@pytest.mark.parametrize("what", SHARES)
def test_shares(what: str) -> None:
    sizes, most, total, expected = SHARES[what]
    assert allocate_room(sizes, most, total) == expected


@pytest.mark.parametrize(
    ("sizes", "room", "count"), [([], 5, 0), ([3, 3], 6, 2), ([3, 3], 5, 1), ([1, 9], 5, 0), ([9, 1, 1], 5, 2)]
)
def test_newest_within(sizes: list[int], room: int, count: int) -> None:
    assert count_newest_fitting(sizes, room) == count
