"""A chat as rows of text: what was said word for word, each tool call on one line, and a short note for the rest.

Only what is in the log becomes a row; it stays on the screen. `live_rows` are what is not complete: text as it comes,
and tool calls in progress.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import msgspec
from msgspec import structs

from holdfast.app.cli.chat.wrapping import MessageWrapper, wrap_line
from holdfast.app.text.event_colours import event_colour
from holdfast.app.text.events import describe_event, event_details
from holdfast.app.text.interview_plan import plan_lines
from holdfast.app.text.screen import printable, shorten_to_width
from holdfast.app.text.spans import Row, Span
from holdfast.core.conversation.call_text import DIFF_LABELS, LABEL_COLUMNS, call_lines, call_summary, cut_lines
from holdfast.core.conversation.live_text import LiveText
from holdfast.core.conversation.tool_output import text_of_result
from holdfast.core.events import Event
from holdfast.core.events.agent import AgentDied
from holdfast.core.events.branch import BranchMerged
from holdfast.core.events.chat import (
    IterationAccepted,
    MessageDeleted,
    MessageEdited,
    OptionChosen,
    RuleAdded,
    RuleRevoked,
    TaskAccepted,
)
from holdfast.core.events.conversation import (
    START_STEP,
    AgentMisbehaved,
    ConversationAttached,
    ConversationOpened,
    FilesSent,
    MessageRecorded,
    ModeChanged,
    PermissionAnswered,
    PermissionRequested,
    RecoveryStrategyFailed,
    ToolBlocked,
    ToolCalled,
    ToolDetailed,
    ToolReturned,
    TurnEnded,
    TurnInterrupted,
    TurnStarted,
)
from holdfast.core.events.inbox import InboxConsumed
from holdfast.core.events.issue import BlockerReported, ErrorEncountered, WarningLogged
from holdfast.core.events.plan import PlanAccepted, PlanProposed, RunPrepared
from holdfast.core.events.preparation import BaselineStarted, WorktreeSetupFinished
from holdfast.core.events.provider import LimitLifted, OutageMet, QuotaHit
from holdfast.core.events.rewind import RunRewound
from holdfast.core.events.session import SessionEnd
from holdfast.core.events.task import TaskCompleted, TaskFailed
from holdfast.core.events.work import CommitRefused, MergeConflicted, TaskCommitted, ValidatorFinished
from holdfast.core.log.codec import CODEC, InvalidEventData, Line
from holdfast.core.messages.schema import EDITABLE_KINDS, MessageKind, message_text
from holdfast.core.state import RunState
from holdfast.engine.queries.logs import LogLine

_MAX_CALLS = 1_000  # kept for `/show`
_REQUEST_LINES = 40
_SHOWN_LINES = 400  # of one part of a tool call
_QUIET_ENDS = ("end_turn", None)
_DENIAL_PREFIX = f"{MessageKind.DENIAL}-"  # of the keys of messages that say why a request was denied
_ROUTINE_ENDS = ("idle", "planned", "all_done")  # of sessions

_NOTED: Final[tuple[type[Event], ...]] = (  # everything else is of no interest to the person who chats
    AgentDied,
    AgentMisbehaved,
    BaselineStarted,
    BlockerReported,
    BranchMerged,
    CommitRefused,
    ConversationAttached,
    ErrorEncountered,
    FilesSent,
    IterationAccepted,
    LimitLifted,
    MergeConflicted,
    MessageDeleted,
    MessageEdited,
    ModeChanged,
    OptionChosen,
    OutageMet,
    PlanAccepted,
    QuotaHit,
    RunRewound,
    RecoveryStrategyFailed,
    RuleAdded,
    RuleRevoked,
    RunPrepared,
    TaskAccepted,
    TaskCommitted,
    TaskCompleted,
    TaskFailed,
    ToolBlocked,
    ValidatorFinished,
    WarningLogged,
    WorktreeSetupFinished,
)


@dataclass
class Entry:
    """Something that is folded to one line: a tool call, or a prompt to which Holdfast added text."""

    number: int
    title: str
    parts: dict[str, str] = field(default_factory=dict)
    status: str = "in progress"


@dataclass
class _Speech:
    """The open message of a conversation, as far as the log has it. Whole lines are rows already."""

    speaker: str = ""
    rest: str = ""
    wrapper: MessageWrapper = field(default_factory=MessageWrapper)


class Transcript:
    def __init__(self, width: Callable[[], int]) -> None:
        self._width = width
        self.entries: dict[int, Entry] = {}
        self._calls: dict[tuple[str, str], Entry] = {}  # those in progress
        self._texts: dict[str, str] = {}  # of messages that no prompt has delivered
        self._deleted = ""  # the text of the message that was taken back last
        self._is_reply = False  # the newest prompt says why a request was denied
        self._delivered: dict[str, list[str]] = {}  # the texts of the newest prompt, by conversation
        self._options: dict[str, dict[str, str]] = {}  # the kinds of the offered answers, by request
        self._speech: dict[str, _Speech] = {}
        self._started: dict[str, str | None] = {}  # when turns started
        self._newest_speaker: str | None = None
        self._error = ""  # the one shown last: a session that it ended does not repeat it
        self.sent: list[str] = []  # what people wrote, for the editor's history

    # What is in the log

    def rows(self, log_line: LogLine, state: RunState) -> list[Row]:
        if not isinstance(log_line.line, Line):
            return []
        event = _decode(log_line.line)
        if event is None:
            return []
        self._remember(event)
        return self._rows_of(event, state, log_line.line.ts)

    def _rows_of(self, event: Event, state: RunState, ts: str | None) -> list[Row]:
        match event:
            case MessageRecorded():
                return self._message(event, state)
            case TurnStarted():
                self._started[event.conversation] = ts
            case ToolCalled() | ToolDetailed() | ToolReturned():
                return [*self._end_message(event.conversation), *self._tool(event)]
            case TurnEnded() | TurnInterrupted():
                return [*self._end_message(event.conversation), *self._turn_end(event, ts)]
            case PermissionRequested():
                return [*self._end_message(event.conversation), *self._request(event, state)]
            case PlanProposed():
                return [row for line in plan_lines(event) for row in self._note(line, "cyan")]
            case PermissionAnswered():
                return self._answer(event)
            case ConversationOpened() if len(state.conversations) > 1:
                return self._note(f"{_name(event.agent)} ({event.role}) joined", "cyan")
            case SessionEnd() if event.reason not in _ROUTINE_ENDS:
                return self._described(self._without_shown_error(event), state)
        return self._described(event, state) if _is_noted(event) else []

    def _remember(self, event: Event) -> None:
        """Remember what people wrote, until a prompt delivers it; and the newest error."""
        match event:
            case InboxConsumed() if event.kind in EDITABLE_KINDS:
                self._texts[event.message] = message_text(bytes(event.body))
            case MessageEdited():
                self._texts[event.message] = event.text
            case ErrorEncountered():
                self._error = event.error or ""
            case MessageDeleted():
                self._deleted = self._texts.pop(event.message, "")
            case TurnStarted():
                found = (self._texts.pop(key, None) for key in event.messages)
                self._delivered[event.conversation] = [text for text in found if text is not None]
                self._is_reply = any(key.startswith(_DENIAL_PREFIX) for key in event.messages)

    def _without_shown_error(self, event: SessionEnd) -> SessionEnd:
        return structs.replace(event, summary=None) if event.summary == self._error else event

    def _described(self, event: Event, state: RunState) -> list[Row]:
        text = describe_event(event)
        if isinstance(event, MessageDeleted) and self._deleted:
            text = f"taken back: {' '.join(self._deleted.split())}"
        if not text or (isinstance(event, TaskCompleted) and state.is_interview):  # the prepared run is named
            return []
        details: list[Row] = [[Span(f"      {line}", "dim")] for line in event_details(event, state)]
        is_merged = (isinstance(event, IterationAccepted) and event.commit) or isinstance(event, TaskCompleted)
        if is_merged and state.run is not None:
            details += self._note(f"bring it into your branch with: holdfast merge {state.run.run_id}")
        return [*self._note(text, event_colour(event) or "dim"), *details]

    def _note(self, text: str, colour: str | None = "dim") -> list[Row]:
        return note_rows(text, self._width(), colour)

    def _message(self, event: MessageRecorded, state: RunState) -> list[Row]:
        if event.speaker in ("user", "system"):
            return self._prompt(event, state)
        if event.speaker != "agent":
            return self._end_message(event.conversation)
        ended, speech = self._continue(event.conversation, event.speaker)
        head = self._heading(event.conversation, state)
        *lines, speech.rest = (speech.rest + event.text).split("\n")
        rows = [*ended, *head, *speech.wrapper.rows(lines, self._width())]
        return rows if event.more else [*rows, *self._end_message(event.conversation)]

    def _continue(self, conversation_id: str, speaker: str) -> tuple[list[Row], _Speech]:
        speech = self._speech.get(conversation_id)
        if speech is not None and speech.speaker == speaker:
            return [], speech
        ended = self._end_message(conversation_id)
        self._speech[conversation_id] = speech = _Speech(speaker)
        return ended, speech

    def _end_message(self, conversation_id: str) -> list[Row]:
        speech = self._speech.pop(conversation_id, None)
        return speech.wrapper.rows([speech.rest], self._width()) if speech is not None and speech.rest.strip() else []

    def _heading(self, conversation_id: str, state: RunState) -> list[Row]:
        """Who speaks, if several agents do."""
        if len(state.conversations) < 2 or self._newest_speaker == conversation_id:  # noqa: PLR2004 - several
            return []
        self._newest_speaker = conversation_id
        conversation = state.conversations.get(conversation_id)
        return [[], [Span(f"● {_name(conversation.agent if conversation else None)}", "cyan")]]

    def _prompt(self, event: MessageRecorded, state: RunState) -> list[Row]:
        """What a person wrote. What Holdfast added to it is folded."""
        texts = self._delivered.pop(event.conversation, [])
        goal = state.run.goal.strip() if state.run is not None and state.run.goal else ""
        if goal and not self.sent and (event.text.startswith(goal) or event.text.rstrip().endswith(goal)):
            texts = [goal, *(text for text in texts if text.strip() != goal)]  # no message of the inbox has it
        rows: list[Row] = []
        is_own = event.speaker == "user" and not self._is_reply
        for text in texts or ([event.text] if is_own else []):
            self.sent.append(text)
            rows += self.person_rows(text)
        if not (is_own and event.text.strip() in ("\n\n".join(texts).strip(), *self.sent[-1:])):
            entry = self._entry("Holdfast added to this prompt" if texts else "a prompt from Holdfast")
            entry.status = "sent"
            entry.parts["prompt"] = event.text
            rows.append(self._folded(entry))
        return [*rows, []]

    def person_rows(self, text: str) -> list[Row]:
        lines = [part for line in text.rstrip().split("\n") for part in wrap_line(printable(line), self._width() - 2)]
        marks = ["› ", *["  "] * len(lines)]
        return [[], *([Span(mark, "cyan"), Span(line, "bold")] for mark, line in zip(marks, lines, strict=False))]

    # Tool calls

    def _entry(self, title: str) -> Entry:
        number = max(self.entries, default=0) + 1
        entry = self.entries[number] = Entry(number, title)
        if len(self.entries) > _MAX_CALLS:
            del self.entries[next(iter(self.entries))]
        return entry

    def _tool(self, event: ToolCalled | ToolDetailed | ToolReturned) -> list[Row]:
        key = (event.conversation, event.call)
        if not isinstance(event, ToolReturned):
            entry = self._calls.get(key)
            if entry is None:
                entry = self._calls[key] = self._entry(event.tool)
            entry.title = event.tool
            entry.parts["input"] = _as_text(event.input)
            return []
        entry = self._calls.pop(key) if key in self._calls else self._entry("a tool")
        entry.status = event.status
        entry.parts["result"] = text_of_result(bytes(event.content), bytes(event.output))
        return [self._folded(entry)]

    def _folded(self, entry: Entry) -> Row:
        failed = entry.status in ("failed", "interrupted")
        tail = f"  {entry.status}" if failed else ""
        lines = len(entry.parts.get("result", "").splitlines())
        size = f"  {lines} lines" if lines > 1 else ""
        title = shorten_to_width(
            printable(" ".join(entry.title.split())), max(20, self._width() - 14 - len(tail + size))
        )
        mark = "✗" if failed else "▸"
        colour = "yellow" if failed else "dim"
        return [
            Span(f"  {mark} {entry.number:<3} ", colour),
            Span(title, "dim"),
            Span(tail, "yellow"),
            Span(size, "dim"),
        ]

    def unfolded(self, number: int) -> list[Row] | None:
        """All of a tool call; None for a number that does not exist."""
        entry = self.entries.get(number)
        if entry is None:
            return None
        rows: list[Row] = [
            [],
            [Span(f"  {entry.number}  {printable(entry.title)}  ", "bold"), Span(entry.status, "dim")],
        ]
        for name, text in entry.parts.items():
            if not text.strip():
                continue
            rows.append([Span(f"  {name}", "dim")])
            shown = cut_lines(
                [printable(line.replace("\t", "    ")) for line in text.splitlines()],
                _SHOWN_LINES,
                "holdfast logs has all of it",
            )
            rows += [[Span(f"    {line}", _diff_colour(line) if name == "result" else None)] for line in shown]
        return [*rows, []]

    # Turns and requests

    def _turn_end(self, event: TurnEnded | TurnInterrupted, ts: str | None) -> list[Row]:
        took = _seconds_between(self._started.pop(event.conversation, None), ts)
        if isinstance(event, TurnInterrupted):
            why = f": {event.reason}" if event.reason else ""
            return [*self._note(f"turn interrupted{why}; your next message continues it", "yellow"), []]
        if event.stop_reason == "cancelled":
            return [*self._note(f"turn cancelled{' by ' + event.by if event.by else ''}", "yellow"), []]
        if event.stop_reason not in _QUIET_ENDS:
            return [*self._note(f"turn ended: {event.stop_reason}", "yellow"), []]
        return [*self._note(took, "dim"), []] if took else [[]]

    def _request(self, event: PermissionRequested, state: RunState) -> list[Row]:
        options: Any = msgspec.json.decode(event.options) or []
        self._options[event.request] = {one["id"]: one["kind"] for one in options}
        width = self._width()
        summary = wrap_line(f"may I: {call_summary(event)}", width, "  ? ", "    ")
        rows: list[Row] = [[Span(line, "yellow")] for line in summary]
        return rows if event.request not in state.permissions else [[], *rows, *call_rows(event, width)]

    def _answer(self, event: PermissionAnswered) -> list[Row]:
        kind = self._options.pop(event.request, {}).get(event.option or "", "")
        answer = "allowed" if kind.startswith("allow") else "denied" if kind.startswith("reject") else "not answered"
        by = f" by {event.by}" if event.by else ""
        why = f": {event.reason}" if event.reason else ""
        return self._note(f"{answer}{by}{why}", "green" if answer == "allowed" else "yellow")

    # What is not complete

    def live_rows(self, state: RunState, text: LiveText, max_rows: int) -> list[Row]:
        """What agents say and do now: the last rows that fit."""
        rows: list[Row] = []
        for conversation_id, conversation in state.conversations.items():
            if conversation.turn is None:
                continue
            turn, width = conversation.turn.turn, self._width()
            speech = self._speech.get(conversation_id) or _Speech()
            spoken = speech.rest + text.unrecorded(conversation_id, turn, "agent")
            if thought := text.unrecorded(conversation_id, turn, "thought").strip():
                last = printable(" ".join(thought[-2 * width :].split()))
                rows.append([Span(f"  thinking  {last[-max(10, width - 14) :]}", "dim")])
            if spoken.strip():
                rows += speech.wrapper.copy().rows(spoken.split("\n"), width)
            rows += [
                [Span(f"  ⋯ {shorten_to_width(printable(entry.title), max(10, width - 6))}", "dim")]
                for (of, _), entry in self._calls.items()
                if of == conversation_id
            ]
        return rows[-max_rows:]


def note_rows(text: str, width: int, colour: str | None = "dim") -> list[Row]:
    marks = itertools.chain(["  · "], itertools.repeat("    "))
    lines = wrap_line(printable(text), width - 5)
    return [[Span(mark, "dim"), Span(line, colour)] for mark, line in zip(marks, lines, strict=False)]


def call_rows(call: PermissionRequested, width: int) -> Iterator[Row]:
    """All that is known about the call. Text of files keeps its lines, and the rest is wrapped."""
    label = ""
    for line in cut_lines(call_lines(call), _REQUEST_LINES, "holdfast show --json has all of it"):
        name, text = line[:LABEL_COLUMNS], line[LABEL_COLUMNS:]
        label = name.strip() or label
        if label in DIFF_LABELS and not name.strip():
            yield [Span(f"      {line}", _diff_colour(text))]
        else:
            below = " " * (6 + LABEL_COLUMNS)
            yield from ([Span(part)] for part in wrap_line(text, width, f"      {name}", below))


def _is_noted(event: Event) -> bool:
    if isinstance(event, RecoveryStrategyFailed) and event.rung == START_STEP:
        return False  # the error that follows says more
    return isinstance(event, _NOTED)


def _decode(line: Line) -> Event | None:
    try:
        return CODEC.event(line)
    except InvalidEventData as error:
        return error.partial_event


def _name(agent: str | None) -> str:
    """`playbook:/long/path.yaml` as `playbook`."""
    return printable((agent or "agent").partition(":")[0])


agent_name = _name


def _as_text(raw: msgspec.Raw) -> str:
    found: Any = msgspec.json.decode(raw)
    if found is None:
        return ""
    if isinstance(found, Mapping):
        return "\n".join(f"{key}: {_plain(value)}" for key, value in found.items())
    return _plain(found)


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _diff_colour(line: str) -> str | None:
    return {"+": "green", "-": "red", "@": "cyan"}.get(line[:1])


def _seconds_between(start: str | None, end: str | None) -> str:
    """How long a turn took; nothing for a short one."""
    if start is None or end is None:
        return ""
    seconds = (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()
    if seconds < 10:  # noqa: PLR2004 - not worth a line
        return ""
    return f"{seconds:.0f} s" if seconds < 60 else f"{seconds // 60:.0f} min {seconds % 60:.0f} s"  # noqa: PLR2004
