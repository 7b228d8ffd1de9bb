"""A session that is one conversation of one agent: of Claude Code, Codex or Kandev."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from holdfast.core.decide.attribution import WORKER
from holdfast.core.end_reason import EndReason
from holdfast.core.events import Event
from holdfast.core.events.chat import TaskStateChanged
from holdfast.core.events.task import TaskStarted
from holdfast.core.work.foreign_tools import Tool
from holdfast.core.work.tasks import TaskList, TaskSpec
from holdfast.engine.commands.adopt.base import Entry, EntryKind, ForeignConversation, ForeignSession, TaskWork
from holdfast.leaf.errors import BadInput

TASK_ID = "T-1"
_TITLE_CHARS = 200
_CANCELLED = "[Request interrupted by user"


class _Ending:
    """How the conversation ends: whether its last turn was cut off."""

    def __init__(self, entries: Iterator[Entry]) -> None:
        self.count = 0
        self.goal: str | None = None  # the first prompt
        self.is_open = False
        open_calls: set[str] = set()
        for entry in entries:
            self.count += 1
            match entry.kind:
                case EntryKind.USER:
                    self.goal = self.goal or entry.text
                    self.is_open = not entry.text.startswith(_CANCELLED)  # a person stopped it: that is an end
                    open_calls.clear()
                case EntryKind.CALL:
                    open_calls.add(entry.call)
                    self.is_open = True
                case EntryKind.RESULT:
                    open_calls.discard(entry.call)
                    self.is_open = True
                case EntryKind.AGENT:
                    self.is_open = bool(open_calls)
                case EntryKind.THOUGHT:
                    self.is_open = True


class ConversationFacts(NamedTuple):
    """What a reader found out. `interrupted` when the tool itself says how the last turn ended."""

    tool: Tool
    path: str
    session_id: str
    native_agent: str | None
    finding: str | None
    interrupted: bool | None = None


def conversation_session(facts: ConversationFacts, history: Callable[[], Iterator[Entry]]) -> ForeignSession:
    """Return the session as a run with one task.

    Its interrupted turn is continued; without one it is a chat, which waits for its user.
    """
    tool, path, session_id, native_agent, finding, interrupted = facts
    ending = _Ending(history())
    if not ending.count:
        raise BadInput(f"{path}: nothing was said in this session, so there is nothing to adopt")
    is_open = ending.is_open if interrupted is None else interrupted
    text = (ending.goal or f"session {session_id}").strip()
    title = text.splitlines()[0][:_TITLE_CHARS]
    session = ForeignSession(
        tool=tool,
        path=path,
        id=session_id,
        goal=title,
        workflow="solo" if is_open else "chat",
        state="interrupted" if is_open else "waiting for its user",
        end_reason=EndReason.INTERRUPTED if is_open else EndReason.IDLE,
        tasks=TaskList(tasks=(TaskSpec(id=TASK_ID, title=title, description=text if text != title else ""),)),
        conversations=(
            ForeignConversation(
                key=WORKER,
                role=WORKER,
                task=TASK_ID,
                native_agent=native_agent,
                native_id=session_id if native_agent is not None else None,
                interrupted=is_open,
            ),
        ),
        history=history,
        work=(TaskWork(task=TASK_ID),),
        follows_checkout=True,
        next_step="continue the interrupted turn" if is_open else "wait for your next message (holdfast send)",
        findings=[finding] if finding is not None else [],
    )
    session.before = lambda _: [TaskStarted(task_id=TASK_ID, summary=title)]
    session.after = lambda _: [] if is_open else [_waits()]
    return session


def _waits() -> Event:
    return TaskStateChanged(task_id=TASK_ID, state="review", reason="it waits for its user")
