"""The strict reading of a log, for those who want proof: every line whole, numbered, in the chain, and at its anchors.

Where the fold forgives, this does not. A log without any chain (another tool wrote it) can be checked for all
the rest; a log that has one must keep it from there to the end. A log of a run of ours must have one.
"""

from collections.abc import Iterable

import msgspec

from holdfast.core.events.session import RunCreated
from holdfast.core.log import chain
from holdfast.core.log.anchors import RecordedAnchor
from holdfast.core.log.codec import CODEC, Line, Malformed, Unfit, is_json, parse
from holdfast.core.state import KEPT


class Damage(msgspec.Struct, frozen=True):
    line: int
    reason: str


class AnchorCheck(msgspec.Struct, frozen=True):
    """What the anchors of a log say of it. `last_line` is the last line that one of them proves.

    `repositories` were asked for anchors; `absent` are not there any more; `unread` could not be read, and why.
    """

    found: int = 0
    held: int = 0
    last: RecordedAnchor | None = None
    last_line: int = 0
    missing: tuple[RecordedAnchor, ...] = ()
    repositories: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()


class Verdict(msgspec.Struct, frozen=True):
    lines: int
    events: int
    sessions: int
    chained: bool
    chain: str
    damage: tuple[Damage, ...]
    damage_count: int
    ours: bool = False
    anchors: AnchorCheck = AnchorCheck()

    @property
    def whole(self) -> bool:
        """Nothing speaks against it, and every anchor could be asked."""
        return self.damage_count == 0 and not self.anchors.unread


class Verifier:
    """Feed it a log from the beginning, then ask for the verdict."""

    def __init__(self, *, must_be_chained: bool = False, anchors: Iterable[RecordedAnchor] = ()) -> None:
        """`anchors` must have been read before the log: what is written meanwhile comes after them."""
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
        self._ahead = sorted(anchors, key=lambda anchor: anchor.position, reverse=True)  # the next one last
        self._held: list[tuple[RecordedAnchor, int]] = []  # each with its line
        self._missing: list[tuple[RecordedAnchor, int]] = []

    def feed(self, data: bytes) -> None:
        """Whole lines, each ended by a newline."""
        for raw in data.split(b"\n")[:-1]:
            self._lines += 1
            self._position += len(raw) + 1
            self._check_content(raw)
            self._check_chain(raw)
            while self._ahead and self._ahead[-1].position <= self._position:
                self._check_anchor(self._ahead.pop())

    def verdict(self, fragment: bytes = b"") -> Verdict:
        """What was found. `fragment` is what stands after the last whole call."""
        if fragment:
            self._report("torn: the last write has no end", self._lines + fragment.count(b"\n") + 1)
        self._missing += [(anchor, self._lines + 1) for anchor in reversed(self._ahead)]
        self._ahead = []
        ours = self._ours or bool(self._held or self._missing)
        if ours and self._lines and not self._chained and not self._must_be_chained:
            self._report("carries no link: Holdfast wrote this log, and its chain was taken out", 1)
        for anchor, line in self._missing:
            self._report(_missing_anchor(anchor, cut_off=anchor.position > self._position), line)
        last, last_line = self._held[-1] if self._held else (None, 0)
        return Verdict(
            lines=self._lines,
            events=self._events,
            sessions=len(self._last_seq),
            chained=self._chained,
            chain=self._link,
            damage=tuple(sorted(self._damage, key=lambda damage: damage.line)),
            damage_count=self._damage_count,
            ours=ours,
            anchors=AnchorCheck(
                found=len(self._held) + len(self._missing),
                held=len(self._held),
                last=last,
                last_line=last_line,
                missing=tuple(anchor for anchor, _ in self._missing[:KEPT]),
            ),
        )

    def _check_anchor(self, anchor: RecordedAnchor) -> None:
        """It holds when the line that we stand after ends at its position and is the very one that it saw."""
        holds = anchor.anchor == (self._position, self._link)
        (self._held if holds else self._missing).append((anchor, self._lines))

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
                CODEC.event(line)
            except Unfit as unfit:
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

    def _check_chain(self, raw: bytes) -> None:
        bare, carried = chain.unseal(raw)
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
            self._report("something stands after the end of the line's JSON")
        self._link = carried

    def _report(self, reason: str, line: int | None = None) -> None:
        number = line or self._lines
        if self._damage and self._damage[-1].line == number:
            return  # one reason a line: the first is the telling one
        self._damage_count += 1
        if len(self._damage) < KEPT:
            self._damage.append(Damage(number, reason))


def _missing_anchor(anchor: RecordedAnchor, *, cut_off: bool) -> str:
    seen_by = f"commit {anchor.commit[:12]} of {anchor.time} ({anchor.subject!r})"
    if cut_off:
        return f"cut off: {seen_by} recorded a log of {anchor.position} bytes, and this one ends before that"
    return f"rewritten: {seen_by} recorded another log at byte {anchor.position}"
