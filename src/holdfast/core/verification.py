"""The strict reading of a log, for those who want proof: every line whole, numbered, and in the chain.

Where the fold forgives, this does not. A log without any chain (another tool wrote it) can be checked for all
the rest; a log that has one must keep it from there to the end.
"""

import msgspec

from holdfast.core import chain
from holdfast.core.codec import CODEC, Line, Malformed, Unfit, is_json, parse
from holdfast.core.state import KEPT


class Damage(msgspec.Struct, frozen=True):
    line: int
    reason: str


class Verdict(msgspec.Struct, frozen=True):
    lines: int
    events: int
    sessions: int
    chained: bool
    chain: str
    damage: tuple[Damage, ...]
    damage_count: int

    @property
    def whole(self) -> bool:
        return self.damage_count == 0


class Verifier:
    """Feed it a log from the beginning, then ask for the verdict."""

    def __init__(self, *, must_be_chained: bool = False) -> None:
        self._must_be_chained = must_be_chained
        self._chained = False
        self._link = chain.GENESIS
        self._lines = 0
        self._events = 0
        self._last_seq: dict[str, int] = {}
        self._damage: list[Damage] = []
        self._damage_count = 0

    def feed(self, data: bytes) -> None:
        """Whole lines, each ended by a newline."""
        for raw in data.split(b"\n")[:-1]:
            self._lines += 1
            self._check_content(raw)
            self._check_chain(raw)

    def verdict(self, fragment: bytes = b"") -> Verdict:
        """What was found. `fragment` is what stands after the last whole call."""
        if fragment:
            self._report("torn: the last write has no end", self._lines + fragment.count(b"\n") + 1)
        return Verdict(
            lines=self._lines,
            events=self._events,
            sessions=len(self._last_seq),
            chained=self._chained,
            chain=self._link,
            damage=tuple(self._damage),
            damage_count=self._damage_count,
        )

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
