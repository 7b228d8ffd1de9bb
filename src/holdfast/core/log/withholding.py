"""Withholding: lines of an archived run are replaced by what proves that they were there.

A line that is withheld becomes a `log.withheld` line of the same length, with its session, sequence number, time and
link. So every position stays what it was, the lines after it are still in the chain, and the fold gives the same state:
only lines that the fold ignores are withheld.

A link cannot be checked any more when its line is gone. Instead, the event `retention.applied`, written before lines
are withheld, has a digest of all withheld lines and the links before them. Its link is anchored like that of any event.
"""

from collections.abc import Iterable, Iterator
from hashlib import sha256

import msgspec

from holdfast.core.events.conversation import AgentPlanned, MessageRecorded
from holdfast.core.events.log import LogWithheld, RetentionApplied
from holdfast.core.events.work import HookRan, MemoryLoaded, ProgressReported
from holdfast.core.log import chain
from holdfast.core.log.codec import Line, parse

TRANSCRIPTS = "transcripts"

# The fold ignores these.
WITHHELD_EVENTS = (
    MessageRecorded,
    AgentPlanned,
    ProgressReported,
    HookRan,
    MemoryLoaded,
)
_WITHHELD_TYPES = frozenset(kind.type for kind in WITHHELD_EVENTS)
_TYPE_MARKS = tuple(f'"type":"{name}"'.encode() for name in sorted(_WITHHELD_TYPES))
_MARK = f'"type":"{LogWithheld.type}"'.encode()
_MORE = b"\t"


class _Head(msgspec.Struct, frozen=True):
    v: int
    ts: str | None
    sid: str
    seq: int
    type: str
    data: LogWithheld


class WithheldDigest:
    """The digest of all withheld lines so far, each with the link before it."""

    def __init__(self) -> None:
        self.events = 0
        self._hash = sha256()

    def add(self, link_before: str, line: bytes) -> None:
        self.events += 1
        self._hash.update(link_before.encode() + line.rstrip() + b"\n")

    def hexdigest(self) -> str:
        return self._hash.hexdigest()


def placeholder(raw: bytes, rule: str) -> bytes | None:
    """Return the line that stands for a line (both with their newline); None when this one is kept."""
    if not any(mark in raw for mark in _TYPE_MARKS):
        return None
    line = parse(raw)
    if not isinstance(line, Line) or line.type not in _WITHHELD_TYPES:
        return None
    _, carried = chain.unseal(raw)
    if carried is None:
        return None
    text = raw.rstrip(b"\n")
    tail_start = text.rindex(b',"chain":"')
    more = _MORE if chain.has_more_to_come(text) else b""
    tail = more + text[tail_start:] + b"\n"
    head = msgspec.json.encode(
        _Head(line.v, line.ts, line.sid, line.seq, LogWithheld.type, LogWithheld(rule=rule, event=line.type))
    )[:-1]
    padding = len(raw) - len(head) - len(tail)
    return head + b" " * padding + tail if padding >= 0 else None


def withhold(lines: Iterable[bytes], rule: str, until: int) -> Iterator[bytes]:
    """Yield the lines of a log, those before `until` that the rule withholds as their placeholders."""
    position = 0
    for raw in lines:
        found = placeholder(raw, rule) if position < until else None
        position += len(raw)
        yield found if found is not None else raw


class Measurement:
    """Says what a rule would withhold of a log: `add` every line, from the first."""

    def __init__(self, rule: str) -> None:
        self.events = 0
        self.bytes = 0
        self._rule = rule
        self._all = WithheldDigest()
        self._link = chain.GENESIS

    def add(self, raw: bytes) -> None:
        found = placeholder(raw, self._rule)
        if found is not None:
            self.events += 1
            self.bytes += len(raw)
        elif is_placeholder(raw):
            found = raw
        bare, carried = chain.unseal(raw)
        if found is not None:
            self._all.add(self._link, found)
        self._link = carried if carried is not None else chain.link(self._link, bare)

    def record(self, until: int) -> RetentionApplied:
        """The event that records it, for the lines before a position."""
        return RetentionApplied(
            rule=self._rule,
            events=self.events,
            bytes=self.bytes,
            until=until,
            all_events=self._all.events,
            digest=self._all.hexdigest(),
        )


def is_placeholder(raw: bytes) -> bool:
    if _MARK not in raw:
        return False
    line = parse(raw)
    return isinstance(line, Line) and line.type == LogWithheld.type
