"""Share limited space among texts: small texts fit completely, large ones share the rest equally."""

from collections.abc import Sequence


def allocate_room(sizes: Sequence[int], max_each: int, total: int) -> list[int]:
    """The space for each text, in order: at most `max_each` or its size, together at most `total`.

    A large text never displaces a small one, whatever their order.
    """
    wanted = [min(size, max_each) for size in sizes]
    given = [0] * len(wanted)
    room, left = total, len(wanted)
    for index in sorted(range(len(wanted)), key=wanted.__getitem__):
        given[index] = min(wanted[index], room // left)
        room -= given[index]
        left -= 1
    return given


def count_newest_fitting(sizes: Sequence[int], room: int) -> int:
    """How many of the last texts fit completely into this space."""
    count = 0
    for size in reversed(sizes):
        room -= size
        if room < 0:
            break
        count += 1
    return count
