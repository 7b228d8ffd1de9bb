"""Events → RunState. Incremental: folding a snapshot and the tail after it gives what folding all gives.

Most of a long log is talk, and moves little here but a sequence number: `core.talk` reads it in one go. Any
other line is looked at by itself, and its data decoded when there is a handler for it (in `core.handlers`).

Sessions are told apart as the Resume Protocol does. One that says `resume` goes on with what the sitting before
it left; in a log that is not one run's, any other command starts afresh.

Where a session has the same sequence number twice, the later one counts. By then the earlier has been
applied, and a fold cannot take it back: it is listed in `repeated`, and the caller folds once more without
the lines that `Superseded` finds. Logs that Holdfast wrote never need that second pass.
"""

from collections.abc import Iterator, Sequence

from holdfast.core import ranges
from holdfast.core.events import TYPES
from holdfast.core.fold.handlers import HANDLERS, Handler
from holdfast.core.fold.hot_events import TALK_HANDLERS, Talk, leading_talk
from holdfast.core.log.codec import CODEC, Line, Malformed, Unfit, parse, parse_lines
from holdfast.core.state import KEPT, Note, RunState, Session

FOLD_VERSION = 26  # a snapshot made by another version of this file is not read, but made anew


class Fold:
    """A fold in progress. It owns its state: give it a copy if another one is still in use."""

    def __init__(
        self,
        state: RunState | None = None,
        *,
        only: frozenset[str] | None = None,
        without: frozenset[int] = frozenset(),
    ) -> None:
        """`only` keeps to these sessions; `without` leaves out these lines (counted from 1)."""
        self.state = state or RunState()
        self.repeated: set[tuple[str, int]] = set()
        self._only = only
        self._without = without
        self._latest: Session | None = None

    def feed(self, data: bytes) -> None:
        """Fold whole lines, each ended by a newline."""
        lines = data.split(b"\n")
        lines.pop()
        self.feed_lines(lines)

    def feed_lines(self, lines: Sequence[bytes]) -> None:
        """The same for lines that are apart already, with their newlines or without."""
        unread, index = iter(lines), 0
        while index < len(lines):
            talk = leading_talk(unread)
            following, end = iter(talk), index + len(talk)
            while index <= end and index < len(lines):  # to the line that ended the talk, and with it
                index += self._follow(following)
                if index < len(lines):
                    self._take(parse(lines[index]))
                    index += 1

    def apply(self, line: Line) -> None:
        state = self.state
        if self._only is not None and line.sid not in self._only:
            return
        session = state.sessions.get(line.sid) or self._first_of_session(line)
        self._latest = session
        newest = session.seen[-1]
        if line.seq == newest[1] + 1:
            newest[1] = line.seq
        elif not ranges.add(session.seen, line.seq):
            self._note_repeated(line)
        state.events += 1
        session.events += 1
        session.last = line.ts
        if line.v > CODEC.version:
            state.newer += 1
            self._count_unknown(f"{line.type} v{line.v}")
        elif (handler := HANDLERS.get(line.type)) is not None:
            self._handle(handler, line)
        elif line.type not in TYPES:
            self._count_unknown(line.type)

    def _follow(self, talk: Iterator[Talk]) -> int:
        """Fold what comes next, and next to that, in the session that wrote last; and say how many they were.

        That is nearly all of a log, so what is the same for each of them is done once for all. The first that does
        not follow is used up too.
        """
        session = self._latest
        if session is None or self._without:
            next(talk, None)
            return 0
        state, sid, newest = self.state, session.sid, session.seen[-1]
        seq = first = newest[1] + 1
        last: Talk | None = None
        handler_of = TALK_HANDLERS.get
        for line in talk:
            if line.seq != seq or line.sid != sid:
                break
            handle = handler_of(type(line))
            if handle is not None:
                handle(state, line, line.data)
            seq += 1
            last = line
        count = seq - first
        if last is not None:
            newest[1], session.last = last.seq, last.ts
            session.events += count
            state.events += count
            state.lines += count
        return count

    def _take(self, item: Line | Malformed | None) -> None:
        self.state.lines += 1
        if isinstance(item, Malformed):
            self.note_malformed(item.reason)
        elif item is not None and self.state.lines not in self._without:
            self.apply(item)

    def note_malformed(self, reason: str) -> None:
        self._note(self.state.malformed, reason)

    def _handle(self, handler: Handler, line: Line) -> None:
        try:
            event = CODEC.event(line)
        except Unfit as unfit:
            self.note_malformed(str(unfit))
            event = unfit.without
        if event is not None:
            handler(self.state, line, event)

    def _first_of_session(self, line: Line) -> Session:
        state = self.state
        session = Session(line.sid, started=line.ts, seen=[[line.seq, line.seq - 1]])
        state.sessions[line.sid] = session
        state.feature = line.feature or state.feature
        return session

    def _note_repeated(self, line: Line) -> None:
        self.repeated.add((line.sid, line.seq))
        self._note(self.state.duplicates, f"session {line.sid} has seq {line.seq} twice: the later one counts")

    def _count_unknown(self, name: str) -> None:
        counts = self.state.unknown_types
        if name in counts or len(counts) < KEPT:
            counts[name] = counts.get(name, 0) + 1
        else:
            self.state.notes_dropped += 1

    def _note(self, notes: list[Note], reason: str) -> None:
        if len(notes) < KEPT:
            notes.append(Note(self.state.lines, reason))
        else:
            self.state.notes_dropped += 1


class Superseded:
    """Finds the lines (counted from 1) whose sequence number comes again later in the log."""

    def __init__(self, repeated: set[tuple[str, int]]) -> None:
        self._newest: dict[tuple[str, int], int] = dict.fromkeys(repeated, 0)
        self._older: set[int] = set()
        self._number = 0

    def feed(self, data: bytes) -> None:
        for item in parse_lines(data):
            self._number += 1
            if isinstance(item, Line) and (item.sid, item.seq) in self._newest:
                self._older.add(self._newest[item.sid, item.seq])
                self._newest[item.sid, item.seq] = self._number

    @property
    def lines(self) -> frozenset[int]:
        return frozenset(self._older)
