"""What a client of a chat needs before it follows it: which chat, from where in its log, and the files to name."""

import os
from collections.abc import Sequence
from contextlib import suppress

from holdfast.core.decide.chat import STARTING_KINDS, has_undone_request, main_task
from holdfast.core.end_reason import EndReason
from holdfast.core.events.conversation import TurnStarted
from holdfast.core.log.codec import Line
from holdfast.core.run_status import RunStatus
from holdfast.core.state import Rewind, RunState
from holdfast.core.work.names import worktree_names
from holdfast.engine.home import Home
from holdfast.engine.queries.logs import RunView, parse_batch, view_run
from holdfast.engine.queries.runs import ListedRun, list_runs
from holdfast.git.repository import find_repository, worktree_top
from holdfast.git.worktrees.files import list_files
from holdfast.leaf.errors import HoldfastError
from holdfast.store.base import START, Position
from holdfast.store.live_log import LiveLog

_CHAT = "chat"
# A chat whose runner ended in one of these ways goes on with the next message; any other waits until it is resumed.
STARTED_FOR_MESSAGES = (EndReason.IDLE, EndReason.WAITING, RunStatus.DONE, RunStatus.INTERRUPTED)
_OVER = (RunStatus.DONE, RunStatus.ARCHIVED, RunStatus.UNREADABLE, RunStatus.EMPTY)


async def open_chats(home: Home, folder: str) -> list[ListedRun]:
    """The chats on the repository of this folder that are not over, the most recently active first."""
    repo = (await find_repository(folder)).common_dir
    return [
        run
        for run in await list_runs(home)
        if run.summary.workflow == _CHAT and run.summary.repo == repo and run.status not in _OVER
    ]


async def waits_for_runner(home: Home, run_id: str) -> bool:
    """Whether a person asked for something, and the runner or the sender died before it was done.

    Not in a chat that was stopped, or that reached a limit: that waits until a person sends a message or resumes it.
    """
    view = await view_run(home, run_id)
    is_of_cluster = view.state.run is not None and view.state.run.remote is not None  # its workers continue it
    if is_of_cluster or view.status not in (*STARTED_FOR_MESSAGES, EndReason.PLANNED):
        return False
    return has_undone_request(view.state) or await has_unread_message(home, view)


async def has_unread_message(home: Home, view: RunView) -> bool:
    """Whether a message is in the inbox for which a runner is to be started: its sender died before that."""
    with suppress(FileNotFoundError):
        async for entry in home.store.inbox(view.run_id).read(view.state.inbox_cursor):
            if entry.message is not None and entry.message.kind in STARTING_KINDS:
                return True
    return False


async def start_of_turns(
    home: Home, run_id: str, turns: int, *, before: Position | None = None, rewinds: Sequence[Rewind] = ()
) -> Position:
    """The position where the last `turns` turns before a position begin; the start of the log if there are fewer."""
    left = turns
    async for batch in LiveLog(home.store.log(run_id), rewinds).read_backwards():
        for line in reversed(parse_batch(batch)):
            if not isinstance(line.line, Line) or line.line.type != TurnStarted.type:
                continue
            begin = line.cursor - len(line.raw) - 1
            if before is not None and begin >= before:
                continue
            left -= 1
            if left <= 0:
                return begin
    return START


async def chat_files(home: Home, run_id: str, state: RunState, conversation_id: str | None = None) -> list[str]:
    """The files in the worktree of a conversation, for completion."""
    conversation = state.conversations.get(conversation_id or "")
    task = conversation.task if conversation is not None else main_task(state)
    with suppress(HoldfastError):
        return await list_files(os.path.join(home.folder(run_id), worktree_names(run_id, task).folder))
    return []


async def checkout_files(folder: str) -> list[str]:
    """The files of the user's checkout, for completion before a chat exists."""
    try:
        return await list_files(await worktree_top(folder))
    except HoldfastError:
        return []
