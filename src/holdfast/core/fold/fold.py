"""Events → RunState. Incremental: folding a snapshot and the tail after it gives the same result as folding all.

Most lines of a long log are conversation events that change little but a sequence number: `hot_events` reads them in
bulk. Any other line is parsed by itself, and its data decoded if there is a handler for it (in `fold.handlers`).

Sessions are separated as in the Resume Protocol. A session with the command `resume` continues the one before it; in a
log that is not of a Holdfast run, any other command starts fresh.

If a session has the same sequence number twice, the later line counts. By then the earlier one has been applied, and a
fold cannot undo it: it is listed in `repeated`, and the caller folds again without the lines that `SupersededLines`
finds. Logs that Holdfast wrote never need that second pass.

A rewind needs the state at an earlier position. `keep_prefix` keeps it while the fold passes there; without it,
`lacks_prefix` is set and the caller folds again with the positions that it needs (see `store.fold`).
"""

from collections.abc import Iterator, Sequence

import msgspec

from holdfast.core import ranges
from holdfast.core.events import TYPES
from holdfast.core.events.rewind import RewindAxis, RunRewound
from holdfast.core.fold.handlers import HANDLERS, Handler
from holdfast.core.fold.hot_events import HOT_HANDLERS, HotLine, read_hot_lines
from holdfast.core.log.codec import CODEC, InvalidEventData, Line, Malformed, parse, parse_lines
from holdfast.core.rewind import rewound_state
from holdfast.core.state import MAX_KEPT, Note, RunState, Session

FOLD_VERSION = 40  # snapshots of other versions are ignored and written again


class Fold:
    """A fold in progress. It owns its state: give it a copy if another one is still in use."""

    def __init__(
        self,
        state: RunState | None = None,
        *,
        only_sessions: frozenset[str] | None = None,
        skip_lines: frozenset[int] = frozenset(),
    ) -> None:
        """`only_sessions` ignores all other sessions; `skip_lines` ignores these lines (counted from 1)."""
        self.state = state or RunState()
        self.repeated: set[tuple[str, int]] = set()
        self._only_sessions = only_sessions
        self._skip_lines = skip_lines
        self._latest: Session | None = None
        self._prefixes: dict[int, bytes] = {}
        self.lacks_prefix = False  # the state is wrong: a rewind's prefix was not kept

    def keep_prefix(self, position: int, state: RunState | None = None) -> None:
        """Keep the state at this position of the log, by default the current one, for a rewind to it."""
        self._prefixes[position] = msgspec.json.encode(state or self.state)

    def feed(self, data: bytes) -> None:
        """Fold complete lines, each ended by a newline."""
        lines = data.split(b"\n")
        lines.pop()
        self.feed_lines(lines)

    def feed_lines(self, lines: Sequence[bytes]) -> None:
        """Fold separate lines, with or without their newlines."""
        unread, index = iter(lines), 0
        while index < len(lines):
            hot_lines = read_hot_lines(unread)
            following, end = iter(hot_lines), index + len(hot_lines)
            while index <= end and index < len(lines):  # up to and including the line that ended the hot lines
                index += self._fold_hot_lines(following)
                if index < len(lines):
                    self._fold_item(parse(lines[index]))
                    index += 1

    def apply(self, line: Line) -> None:
        state = self.state
        if self._only_sessions is not None and line.sid not in self._only_sessions:
            return
        session = state.sessions.get(line.sid) or self._add_session(line)
        self._latest = session
        newest = session.seen[-1]
        if line.seq == newest[1] + 1:
            newest[1] = line.seq
        elif not ranges.add(session.seen, line.seq):
            self._note_repeated(line)
        state.events += 1
        session.events += 1
        session.last = line.ts
        if CODEC.is_newer(line):
            state.newer += 1
            self._count_unknown(f"{line.type} v{line.v}")
        elif (handler := HANDLERS.get(line.type)) is not None:
            self._handle(handler, line)
            if line.type == RunRewound.type:
                self._rewind(line)
        elif line.type not in TYPES:
            self._count_unknown(line.type)

    def _fold_hot_lines(self, lines: Iterator[HotLine]) -> int:
        """Fold consecutive lines of the latest session, and return their number.

        These are nearly all lines of a log, so common work is done once for all of them. The first line that does not
        follow is consumed too.
        """
        session = self._latest
        if session is None or self._skip_lines:
            next(lines, None)
            return 0
        state, sid, newest = self.state, session.sid, session.seen[-1]
        seq = first = newest[1] + 1
        last: HotLine | None = None
        handler_of = HOT_HANDLERS.get
        for line in lines:
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

    def _fold_item(self, item: Line | Malformed | None) -> None:
        self.state.lines += 1
        if isinstance(item, Malformed):
            self.note_malformed(item.reason)
        elif item is not None and self.state.lines not in self._skip_lines:
            self.apply(item)

    def note_malformed(self, reason: str) -> None:
        self._note(self.state.malformed, reason)

    def _handle(self, handler: Handler, line: Line) -> None:
        try:
            event = CODEC.event(line)
        except InvalidEventData as unfit:
            self.note_malformed(str(unfit))
            event = unfit.partial_event
        if event is not None:
            handler(self.state, line, event)

    def _rewind(self, line: Line) -> None:
        """Continue with the state at an earlier position."""
        try:
            event = CODEC.event(line)
        except InvalidEventData:
            return  # noted already
        if not isinstance(event, RunRewound) or event.only == RewindAxis.FILES or event.position >= event.at:
            return
        prefix = self._prefixes.get(event.position)
        if prefix is None:
            self.lacks_prefix = True
            return
        self.state = rewound_state(msgspec.json.decode(prefix, type=RunState), self.state, event)
        self._latest = self.state.sessions[line.sid]

    def _add_session(self, line: Line) -> Session:
        state = self.state
        session = Session(line.sid, started=line.ts, seen=[[line.seq, line.seq - 1]])
        state.sessions[line.sid] = session
        state.feature = line.feature or state.feature
        return session

    def _note_repeated(self, line: Line) -> None:
        self.repeated.add((line.sid, line.seq))
        self._note(self.state.duplicates, f"session {line.sid} has seq {line.seq} twice: the later one counts")

    def _count_unknown(self, event_type: str) -> None:
        counts = self.state.unknown_types
        if event_type in counts or len(counts) < MAX_KEPT:
            counts[event_type] = counts.get(event_type, 0) + 1
        else:
            self.state.notes_dropped += 1

    def _note(self, notes: list[Note], reason: str) -> None:
        if len(notes) < MAX_KEPT:
            notes.append(Note(self.state.lines, reason))
        else:
            self.state.notes_dropped += 1


class SupersededLines:
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
