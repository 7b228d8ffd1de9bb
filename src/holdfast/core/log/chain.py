"""The hash chain that makes a log tamper-evident.

Every line has a link: the first 128 bits of SHA-256 over the previous link and the line's own bytes without its `chain`
field. A line written by Holdfast carries its link as its last field. A line of another tool carries none; the next line
that does covers it. To check a link by hand:

    printf '%s%s' "$previous_link" "$line_without_chain" | sha256sum | cut -c1-32

A tab before the chain field is part of the hashed bytes. It means that the same write call wrote more lines after this
one. It is inside the JSON, so a line that can be parsed has not lost it.
"""

from hashlib import sha256

GENESIS = "0" * 32
_LINK_CHARS = len(GENESIS)

_OPEN = b',"chain":"'
_CLOSE = b'"}'
_SUFFIX_BYTES = len(_OPEN) + _LINK_CHARS + len(_CLOSE)
_MORE_MARK = b"\t}"

TAIL_BYTES = 64  # of a line's end: enough for `has_more_to_come`


def link(previous: str, bare: bytes) -> str:
    """The link of a line whose bytes, without its chain field, are `bare`."""
    return sha256(previous.encode() + bare).hexdigest()[:_LINK_CHARS]


def seal(previous: str, bare: bytes, end: bytes = b"") -> tuple[bytes, str]:
    """The line with its link and `end`, and the link itself."""
    own = sha256(previous.encode() + bare).hexdigest()[:_LINK_CHARS]
    return bare[:-1] + _OPEN + own.encode() + _CLOSE + end, own


def unseal(line: bytes) -> tuple[bytes, str | None]:
    """The line without its chain field, and the link that it carries, if any."""
    line = line.rstrip()
    tail = line[-_SUFFIX_BYTES:]
    if not (tail.startswith(_OPEN) and tail.endswith(_CLOSE)):
        return line, None
    carried = tail[len(_OPEN) : -len(_CLOSE)]
    if not carried.isascii():
        return line, None
    return line[:-_SUFFIX_BYTES] + b"}", carried.decode()


def mark_more_to_come(bare: bytes) -> bytes:
    """The bare line with the mark that more lines of the same write call follow."""
    return bare[:-1] + _MORE_MARK


def has_more_to_come(line: bytes) -> bool:
    """Whether a line has the mark that more lines of its write call follow. Its last `TAIL_BYTES` are enough."""
    bare, carried = unseal(line)
    return carried is not None and bare.endswith(_MORE_MARK)


def carried_link(line: bytes) -> str | None:
    """The link that a line carries."""
    return unseal(line)[1]
