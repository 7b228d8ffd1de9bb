"""Something that is nearly right: pieces of what is, put together, cut, doubled and spoilt by chance."""

import random
from collections.abc import Sequence

_SPICE = [b"\0", b"\xff", b"\xed\xa0\x80", b"{", b"}", b"[", b"]", b'"', b"\\", b"\n", b"\r", b"\t", b": ", b"- ", b"#"]
_SPICE += [
    b"null",
    b"true",
    b"-1",
    b"1e999",
    b"9" * 400,
    b"\\u0000",
    b"\\ud800",
    b"<<: *a",
    b"&a ",
    b"!!int ",
    b"---\n",
    b"{}",
    b"[]",
]
_MOST = 8  # changes


def mutated(seeds: Sequence[bytes], dice: random.Random) -> bytes:
    data = bytearray(dice.choice(seeds))
    for _ in range(dice.randint(1, _MOST)):
        at = dice.randint(0, len(data))
        end = min(len(data), at + dice.choice([1, 1, 4, 16, 64]))
        match dice.randrange(6):
            case 0:
                data[at:at] = dice.choice(_SPICE)
            case 1:
                data[at:end] = dice.choice(_SPICE)
            case 2:
                del data[at:end]
            case 3:
                data[at:at] = data[at:end]
            case 4 if at < len(data):
                data[at] = dice.randrange(256)
            case _:
                other = dice.choice(seeds)
                start = dice.randint(0, len(other))
                data[at:at] = other[start : start + dice.choice([8, 64, 512])]
    return bytes(data)
