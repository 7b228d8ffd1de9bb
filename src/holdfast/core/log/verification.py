"""Strict verification of a log: every line complete, numbered, in the chain, and matching its anchors.

The fold tolerates damage; this module does not. A log without a chain (another tool wrote it) is checked for all the
rest. Once a log has a chain, it must continue to the end. A log of a Holdfast run must have one.
"""

from collections.abc import Iterable

import msgspec

from holdfast.core.events.log import RetentionApplied
from holdfast.core.events.session import RunCreated
from holdfast.core.log import chain
from holdfast.core.log.anchors import RecordedAnchor
from holdfast.core.log.codec import CODEC, InvalidEventData, Line, Malformed, is_json, parse
from holdfast.core.log.withholding import WithheldDigest, is_placeholder
from holdfast.core.state import MAX_KEPT


class Damage(msgspec.Struct, frozen=True):
    line: int
    reason: str


class AnchorCheck(msgspec.Struct, frozen=True):
    """The result of checking a log against its anchors. `last_line` is the last line that an anchor proves.

    `repositories` were searched for anchors; `absent` no longer exist; `unread` could not be read, with the reason.
    """

    found: int = 0
    held: int = 0
    last: RecordedAnchor | None = None
    last_line: int = 0
    missing: tuple[RecordedAnchor, ...] = ()
    repositories: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()


class WithheldEvents(msgspec.Struct, frozen=True):
    """The events that a retention rule withheld, and when that was recorded."""

    rule: str
    events: int
    at: str | None


class LogVerification(msgspec.Struct, frozen=True):
    lines: int
    events: int
    sessions: int
    chained: bool
    chain: str
    damage: tuple[Damage, ...]
    damage_count: int
    ours: bool = False
    anchors: AnchorCheck = AnchorCheck()
    withheld: tuple[WithheldEvents, ...] = ()

    @property
    def is_intact(self) -> bool:
        """Whether there is no damage and every repository with anchors could be read."""
        return self.damage_count == 0 and not self.anchors.unread


class Verifier:
    """Verifies a log: `feed` it from the beginning, then call `result`."""

    def __init__(self, *, must_be_chained: bool = False, anchors: Iterable[RecordedAnchor] = ()) -> None:
        """`anchors` must have been read before the log: lines written meanwhile come after them."""
        self._must_be_chained = must_be_chained
        self._ours = must_be_chained
        self._chained = False
        self._link = chain.GENESIS
        self._position = 0
        self._lines = 0
        self._events = 0
        self._last_seq: dict[str, int] = {}
        self._damage: list[Damage] = []
        self._damage_count = 0
        self._pending_anchors = sorted(anchors, key=lambda anchor: anchor.position, reverse=True)  # the next one last
        self._confirmed: list[tuple[RecordedAnchor, int]] = []  # each with its line
        self._missing: list[tuple[RecordedAnchor, int]] = []
        self._withheld_lines = WithheldDigest()
        self._recorded_lines = 0  # of the withheld lines, those that the log's own record confirms
        self._withheld: list[WithheldEvents] = []

    def feed(self, data: bytes) -> None:
        """Verify complete lines, each ended by a newline."""
        for raw in data.split(b"\n")[:-1]:
            self._lines += 1
            self._position += len(raw) + 1
            self._check_content(raw)
            self._check_chain(raw)
            while self._pending_anchors and self._pending_anchors[-1].position <= self._position:
                self._check_anchor(self._pending_anchors.pop())

    def result(self, fragment: bytes = b"") -> LogVerification:
        """The result. `fragment` is what follows the last complete write call."""
        if fragment:
            self._report("torn: the last write has no end", self._lines + fragment.count(b"\n") + 1)
        if self._withheld_lines.events > self._recorded_lines:
            self._report(_UNRECORDED, self._lines + 1)
        self._missing += [(anchor, self._lines + 1) for anchor in reversed(self._pending_anchors)]
        self._pending_anchors = []
        ours = self._ours or bool(self._confirmed or self._missing)
        if ours and self._lines and not self._chained and not self._must_be_chained:
            self._report("carries no link: Holdfast wrote this log, and its chain was removed", 1)
        for anchor, line in self._missing:
            self._report(_missing_anchor_reason(anchor, cut_off=anchor.position > self._position), line)
        last, last_line = self._confirmed[-1] if self._confirmed else (None, 0)
        return LogVerification(
            lines=self._lines,
            events=self._events,
            sessions=len(self._last_seq),
            chained=self._chained,
            chain=self._link,
            damage=tuple(sorted(self._damage, key=lambda damage: damage.line)),
            damage_count=self._damage_count,
            ours=ours,
            withheld=tuple(self._withheld),
            anchors=AnchorCheck(
                found=len(self._confirmed) + len(self._missing),
                held=len(self._confirmed),
                last=last,
                last_line=last_line,
                missing=tuple(anchor for anchor, _ in self._missing[:MAX_KEPT]),
            ),
        )

    def _check_anchor(self, anchor: RecordedAnchor) -> None:
        """An anchor holds when the last line ends at its position and has its link."""
        holds = anchor.anchor == (self._position, self._link)
        (self._confirmed if holds else self._missing).append((anchor, self._lines))

    def _check_content(self, raw: bytes) -> None:
        line = parse(raw)
        if line is None:
            self._report("blank line")
        elif isinstance(line, Malformed):
            self._report(line.reason)
        elif not is_json(raw):  # the head is readable, something in the data is not
            self._report("not UTF-8 text, or not JSON, inside its data")
        else:
            self._events += 1
            self._ours = self._ours or line.type == RunCreated.type
            self._check_order(line)
            try:
                event = CODEC.event(line)
                if isinstance(event, RetentionApplied):
                    self._check_withheld(event, line)
            except InvalidEventData as unfit:
                self._report(str(unfit))

    def _check_order(self, line: Line) -> None:
        last = self._last_seq.get(line.sid, -1)
        if line.seq == last + 1:
            self._last_seq[line.sid] = line.seq
        elif line.seq > last:
            self._report(f"gap: session {line.sid} goes from seq {last} to {line.seq}")
            self._last_seq[line.sid] = line.seq
        else:
            self._report(f"duplicate: session {line.sid} has seq {line.seq} again, or out of order")

    def _check_withheld(self, record: RetentionApplied, line: Line) -> None:
        """Compare the withheld lines so far with the record. Those of this record may not be withheld yet."""
        found = self._withheld_lines
        if found.events == record.all_events - record.events and record.events:
            return
        if (found.events, found.hexdigest()) != (record.all_events, record.digest):
            self._report("the lines that are withheld before this one, or lines before them, are not what it recorded")
        self._recorded_lines = found.events
        if record.events:
            self._withheld.append(WithheldEvents(record.rule, record.events, line.ts))

    def _check_chain(self, raw: bytes) -> None:
        bare, carried = chain.unseal(raw)
        if carried is not None and is_placeholder(raw):  # the record of the withheld lines proves its link
            self._withheld_lines.add(self._link, raw)
            self._chained, self._link = True, carried
            return
        own = chain.link(self._link, bare)
        if carried is None:
            if self._chained or self._must_be_chained:
                self._report("carries no link: this line is not in the chain")
            self._link = own
            return
        self._chained = True
        if carried != own:
            self._report("chain broken: this line, or one before it, is not what was written")
        elif not raw.removesuffix(b" ").endswith(b"}"):
            self._report("there is text after the end of the line's JSON")
        self._link = carried

    def _report(self, reason: str, line: int | None = None) -> None:
        number = line or self._lines
        if self._damage and self._damage[-1].line == number:
            return  # one reason per line: the first is the most specific
        self._damage_count += 1
        if len(self._damage) < MAX_KEPT:
            self._damage.append(Damage(number, reason))


_UNRECORDED = "lines before the end are withheld, and no record of that follows them"


def _missing_anchor_reason(anchor: RecordedAnchor, *, cut_off: bool) -> str:
    seen_by = f"commit {anchor.commit[:12]} of {anchor.time} ({anchor.subject!r})"
    if cut_off:
        return f"cut off: {seen_by} recorded a log of {anchor.position} bytes, but this one is shorter"
    return f"rewritten: {seen_by} recorded other content up to byte {anchor.position}"
