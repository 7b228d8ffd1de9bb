"""A conversation as text within a budget, for an agent that cannot restore its own session.

The budget is filled from the newest entry; the text keeps the original order and says when entries are left out.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from holdfast.core.text.cut import cut

MAX_MESSAGE_CHARS = 2_000
MAX_RESULT_CHARS = 500  # of one tool call
MAX_HISTORY_CHARS = 60_000

_HEAD = "RESUME CONTEXT FOR CONTINUING TASK\n\n=== EXECUTION HISTORY ===\n"
_REQUEST = "\n\n=== CURRENT REQUEST ===\n"
_INSTRUCTIONS = (
    "\n\n=== INSTRUCTIONS ===\n"
    "You are continuing work on the above task. The history shows what was said and done before this session.\n"
    "Do not repeat work that was already completed. Look at the files as they are now; they may have changed since.\n"
)


class EntryKind(StrEnum):
    USER = "user"
    ASSISTANT = "assistant"
    CALL = "call"
    RESULT = "result"


class HistoryEntry(NamedTuple):
    """One entry of the history. `tool` names the tool of a call or a result."""

    kind: EntryKind
    text: str = ""
    tool: str = ""


def format_entry(entry: HistoryEntry) -> str:
    match entry.kind:
        case EntryKind.USER:
            return f"[USER]: {cut(entry.text, MAX_MESSAGE_CHARS)}"
        case EntryKind.ASSISTANT:
            return f"[ASSISTANT]: {cut(entry.text, MAX_MESSAGE_CHARS)}"
        case EntryKind.CALL:
            return f"[TOOL CALL: {entry.tool}]"
        case EntryKind.RESULT:
            return f"[TOOL RESULT: {entry.tool}] {cut(entry.text, MAX_RESULT_CHARS)}"


class History:
    """Collects entries from the newest to the oldest, until the budget is full."""

    def __init__(self, budget: int = MAX_HISTORY_CHARS) -> None:
        self._chars_left = budget
        self._lines: list[str] = []
        self.omitted_count = 0

    def add(self, entry: HistoryEntry) -> bool:
        """Add an entry older than those before. False when the budget is full."""
        line = format_entry(entry)
        if len(line) + 1 > self._chars_left:
            self._chars_left = 0
            self.omitted_count += 1
            return False
        self._chars_left -= len(line) + 1
        self._lines.append(line)
        return True

    def __bool__(self) -> bool:
        return bool(self._lines)

    def prompt_with_history(self, request: str) -> str:
        """The prompt with the history in front of the request."""
        more = ["[earlier entries are left out]"] if self.omitted_count else []
        return "".join((_HEAD, "\n".join([*more, *reversed(self._lines)]), _REQUEST, request, _INSTRUCTIONS))


def build_history(newest_first: Iterable[HistoryEntry], budget: int = MAX_HISTORY_CHARS) -> History:
    history = History(budget)
    for entry in newest_first:
        history.add(entry)
    return history
