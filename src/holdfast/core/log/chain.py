"""The hash chain that makes a log tamper-evident.

Every line takes part: its link is the first 128 bits of SHA-256 over the link before it and the line's
own bytes without its `chain` field. A line written by Holdfast carries its link as its last field; one
written by another tool carries none, and is covered by the next that does. To check one by hand:

    printf '%s%s' "$previous_link" "$line_without_chain" | sha256sum | cut -c1-32

A tab before the chain field is part of what is hashed. It says that the call which wrote this line wrote more after
it; and it stands inside the JSON, so that a line which can be read at all has not lost it.
"""

from hashlib import sha256

GENESIS = "0" * 32
_LENGTH = len(GENESIS)

_OPEN = b',"chain":"'
_CLOSE = b'"}'
_SUFFIX = len(_OPEN) + _LENGTH + len(_CLOSE)
_MORE = b"\t}"

TAIL = 64  # bytes of a line's end: enough for `more_to_come`


def link(previous: str, bare: bytes) -> str:
    """The link of a line whose bytes, without its chain field, are `bare`."""
    return sha256(previous.encode() + bare).hexdigest()[:_LENGTH]


def seal(previous: str, bare: bytes, end: bytes = b"") -> tuple[bytes, str]:
    """The line with its link written into it and whatever ends it, and the link."""
    own = sha256(previous.encode() + bare).hexdigest()[:_LENGTH]
    return bare[:-1] + _OPEN + own.encode() + _CLOSE + end, own


def unseal(line: bytes) -> tuple[bytes, str | None]:
    """The line without its chain field, and the link that it carries (None when it carries none)."""
    line = line.rstrip()
    tail = line[-_SUFFIX:]
    if not (tail.startswith(_OPEN) and tail.endswith(_CLOSE)):
        return line, None
    carried = tail[len(_OPEN) : -len(_CLOSE)]
    if not carried.isascii():
        return line, None
    return line[:-_SUFFIX] + b"}", carried.decode()


def with_more_to_come(bare: bytes) -> bytes:
    """The line without its chain field, marked: it is not the last of the call that writes it."""
    return bare[:-1] + _MORE


def more_to_come(line: bytes) -> bool:
    """Whether a line says that the call which wrote it wrote more. Its last `TAIL` bytes will do."""
    bare, carried = unseal(line)
    return carried is not None and bare.endswith(_MORE)


def carried(line: bytes) -> str | None:
    """The link that a line carries."""
    return unseal(line)[1]
