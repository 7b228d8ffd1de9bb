"""How much of a bounded room each text gets: the small ones whole, the large ones what is left, in equal parts."""

from collections.abc import Sequence


def shares(sizes: Sequence[int], most: int, total: int) -> list[int]:
    """The room of each, in their order: never more than `most` or than it needs, together no more than `total`.

    A large text does not push out a small one, wherever it stands.
    """
    wanted = [min(size, most) for size in sizes]
    given = [0] * len(wanted)
    room, left = total, len(wanted)
    for index in sorted(range(len(wanted)), key=wanted.__getitem__):
        given[index] = min(wanted[index], room // left)
        room -= given[index]
        left -= 1
    return given


def newest_within(sizes: Sequence[int], room: int) -> int:
    """How many of the last texts fit whole into this room."""
    count = 0
    for size in reversed(sizes):
        room -= size
        if room < 0:
            break
        count += 1
    return count
