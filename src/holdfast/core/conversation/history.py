"""A conversation as text, for an agent that cannot bring it back by itself: the seed's format, within a budget.

The newest entries come first into the budget, and stand in their own order in the text. That some are left out is said.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from holdfast.core.text.cut import cut

MESSAGE = 2_000  # characters of one message
RESULT = 500  # characters of one tool's result
TOTAL = 60_000  # characters of the history as a whole

_HEAD = "RESUME CONTEXT FOR CONTINUING TASK\n\n=== EXECUTION HISTORY ===\n"
_REQUEST = "\n\n=== CURRENT REQUEST ===\n"
_INSTRUCTIONS = (
    "\n\n=== INSTRUCTIONS ===\n"
    "You are continuing work on the above task. The history shows what was said and done before this session.\n"
    "Do not repeat work that was already completed. Look at the files as they are now; they may have changed since.\n"
)


class Kind(StrEnum):
    USER = "user"
    ASSISTANT = "assistant"
    CALL = "call"
    RESULT = "result"


class Entry(NamedTuple):
    """One thing of the history. `tool` names the tool of a call or a result."""

    kind: Kind
    text: str = ""
    tool: str = ""


def shown(entry: Entry) -> str:
    match entry.kind:
        case Kind.USER:
            return f"[USER]: {cut(entry.text, MESSAGE)}"
        case Kind.ASSISTANT:
            return f"[ASSISTANT]: {cut(entry.text, MESSAGE)}"
        case Kind.CALL:
            return f"[TOOL CALL: {entry.tool}]"
        case Kind.RESULT:
            return f"[TOOL RESULT: {entry.tool}] {cut(entry.text, RESULT)}"


class History:
    """Takes entries from the newest to the oldest, until the budget is full."""

    def __init__(self, budget: int = TOTAL) -> None:
        self._room = budget
        self._lines: list[str] = []
        self.left_out = 0

    def add(self, entry: Entry) -> bool:
        """One more, older than those before. False when there is no room any more."""
        line = shown(entry)
        if len(line) + 1 > self._room:
            self._room = 0
            self.left_out += 1
            return False
        self._room -= len(line) + 1
        self._lines.append(line)
        return True

    def __bool__(self) -> bool:
        return bool(self._lines)

    def before(self, request: str) -> str:
        """The prompt that brings the history along."""
        more = ["[earlier entries are left out]"] if self.left_out else []
        return "".join((_HEAD, "\n".join([*more, *reversed(self._lines)]), _REQUEST, request, _INSTRUCTIONS))


def history_of(newest_first: Iterable[Entry], budget: int = TOTAL) -> History:
    history = History(budget)
    for entry in newest_first:
        history.add(entry)
    return history
