"""What is known of a session of another tool, in one shape for all of them.

A reader changes nothing: it only reads the other tool's files. The history of a session is not kept here. It is read
from the files once more, entry by entry, when it is written to the run's log.
"""

from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec

from holdfast.core.end_reason import EndReason
from holdfast.core.events import Event
from holdfast.core.work.foreign_tools import Tool
from holdfast.core.work.tasks import TaskList

NO_TASKS = TaskList(tasks=())


class EntryKind(StrEnum):
    USER = "user"
    AGENT = "agent"
    THOUGHT = "thought"
    CALL = "call"
    RESULT = "result"


class Entry(NamedTuple):
    """One entry of a conversation, as the other tool recorded it.

    `data` is the input of a call or the output of a result. `position` is the byte of `source` where its line starts.
    """

    conversation: str
    kind: EntryKind
    source: str
    position: int
    at: str | None = None
    text: str = ""
    tool: str = ""
    call: str = ""
    data: Any = None
    failed: bool = False


class ForeignConversation(msgspec.Struct, frozen=True, kw_only=True):
    """One agent's conversation. `key` is the name that its entries use.

    `native_id` is the agent's own session, which `native_agent` can load. `interrupted`: its last turn did not end.
    """

    key: str
    role: str | None = None
    task: str | None = None
    about: str | None = None
    native_agent: str | None = None
    native_id: str | None = None
    interrupted: bool = False
    is_over: bool = False


class Spent(msgspec.Struct, frozen=True, kw_only=True):
    input_tokens: int = 0
    output_tokens: int = 0
    dollars: float | None = None


class TaskWork(msgspec.Struct, frozen=True, kw_only=True):
    """Unfinished work of one task, apart from the finished work of the others.

    It is on a `branch` of its own; or in the uncommitted files of the worktree, and in the newest commits of the
    session's branch whose subject starts with `subject`.
    """

    task: str
    branch: str | None = None
    subject: str | None = None
    is_failed: bool = False  # kept as a failed attempt; else as work in progress


class Liveness(msgspec.Struct, frozen=True, kw_only=True):
    """What would show that the other tool still works on the session."""

    folders: tuple[str, ...] = ()  # a process works in one of them
    files: tuple[str, ...] = ()  # a process has one of them open
    words: tuple[str, ...] = ()  # a process was started with one of them
    program: str | None = None  # only processes of this program count for `folders`
    own_program: str | None = None  # this program, at work in `repositories` or started for them, counts too
    repositories: tuple[str, ...] = ()
    tmux_session: str | None = None
    pids: tuple[int, ...] = ()  # one of them works in `pid_folders`: a pid alone may be another program's by now
    pid_folders: tuple[str, ...] = ()


def _no_entries() -> Iterator[Entry]:
    return iter(())


class ForeignSession(msgspec.Struct, kw_only=True):
    """A session of another tool. `before` and `after` are the events that state its progress, around its history.

    `cwd` is where it worked: a checkout or worktree of the repository. `plan_folder` is a task list in the repository,
    which is read from there when `tasks` is empty.
    """

    tool: Tool
    path: str
    id: str
    goal: str
    workflow: str
    state: str  # in words, for people
    version: str | None = None
    end_reason: str = EndReason.INTERRUPTED
    tasks: TaskList = NO_TASKS
    plan_folder: str | None = None
    task_states: dict[str, str] = {}
    wanted_phases: tuple[str, ...] = ()
    before: Callable[[TaskList], list[Event]] = lambda _: []
    after: Callable[[TaskList], list[Event]] = lambda _: []
    conversations: tuple[ForeignConversation, ...] = ()
    history: Callable[[], Iterator[Entry]] = _no_entries
    spent: Spent = Spent()
    cwd: str | None = None
    repo: str | None = None
    branch: str | None = None
    branch_in: str | None = None  # a bundle that has the branch, when the repository lacks it
    follows_checkout: bool = False  # it has no branch of its own: it works on what is checked out
    work: tuple[TaskWork, ...] = ()
    only_on_its_branch: bool = False  # the checkout is the user's: its files count only while it is on `branch`
    task_branches: tuple[str, frozenset[str]] | None = None  # how they begin, and those that it knows
    keep_out: tuple[str, ...] = ()  # paths of the checkout that are the other tool's own
    has_checkpoint: bool = True  # a resume needs no decision where to start
    liveness: Liveness = Liveness()
    next_step: str = "continue"  # what a resume does, in words
    findings: list[str] = []
