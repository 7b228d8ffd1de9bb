"""One client of a chat: what it sees and what it sends. Any number of clients may look and type at once.

The client is never the runner. Each message is durable before it does anything, so leaving, in any way, loses nothing.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from holdfast.core.conversation.live_text import Hint, LiveText
from holdfast.core.conversation.states import ENDED_STATES
from holdfast.core.decide.chat import OVER_STATUSES, is_first_prompt_due, main_task
from holdfast.core.events.plan import ProposedTask
from holdfast.core.messages.attachments import MAX_ATTACHMENT_BYTES, Attachment
from holdfast.core.messages.schema import UserAnswer
from holdfast.core.state import Conversation, RunState
from holdfast.core.summary.needs import Need, NeedKind, needs_to_answer
from holdfast.engine.commands import chat
from holdfast.engine.commands.answer import send_answer
from holdfast.engine.commands.last_seen import last_seen, remember_last_seen
from holdfast.engine.home import Home
from holdfast.engine.queries.chats import start_of_turns, waits_for_runner
from holdfast.engine.queries.conversations import ConversationStatus, conversations_of
from holdfast.engine.queries.live.follow import Follower, RunUpdate
from holdfast.engine.queries.live.live_text import events_in, live_text
from holdfast.engine.queries.logs import view_run
from holdfast.engine.queries.queued import QueuedMessage, list_queued, queued_beside
from holdfast.leaf.errors import BadInput, NothingToDo

_SEEN_TURNS = 2  # shown again, before what is new
_NEW_TURNS = 20  # shown of what is new
MAX_RESTARTS = 3  # of runners that die before a turn ends


class ChatClient:
    def __init__(self, home: Home, run_id: str) -> None:
        self.home = home
        self.run_id = run_id
        self.conversation_id: str | None = None  # chosen by the person; None: the chat's main one
        self.text = LiveText()
        self.seen: int | None = None  # where this person stopped reading, when the client was opened
        self.is_stopped_by_rewind = False  # its runner did not die
        self._follower: Follower
        self._position = 0

    async def open(self, *, from_now: bool = False) -> None:
        """Begin a few turns before the place where this person stopped reading, or at the log's end."""
        state = (await view_run(self.home, self.run_id)).state
        if not state.is_chat:
            workflow = state.run.workflow if state.run is not None else "unknown"
            raise BadInput(f"run {self.run_id} is not a chat; its workflow is {workflow}. See: holdfast chat --help")
        if from_now:
            self._follower = await Follower.create(self.home, self.run_id)
            self.text = await self._follower.open_text()
            return
        self.seen = last_seen(self.home, self.run_id)
        newest = await start_of_turns(self.home, self.run_id, _NEW_TURNS, rewinds=state.rewinds)
        known = await start_of_turns(self.home, self.run_id, _SEEN_TURNS, before=self.seen, rewinds=state.rewinds)
        start = max(newest, known)
        self._follower = await Follower.create(self.home, self.run_id, start)

    @property
    def state(self) -> RunState:
        return self._follower.state

    async def past(self) -> AsyncGenerator[RunUpdate, None]:
        """Yield what the log has already."""
        async with aclosing(self._follower.pending_updates()) as updates:
            async for update in updates:
                yield self._record(update)

    async def updates(self) -> AsyncGenerator[RunUpdate, None]:
        """Yield what the log gets. Never ends by itself."""
        async with aclosing(self._follower.updates()) as updates:
            async for update in updates:
                yield self._record(update)

    def _record(self, update: RunUpdate) -> RunUpdate:
        for event in events_in(update.lines):
            self.text.record(event)
        if update.lines:
            self._position = update.lines[-1].cursor
        return update

    async def hints(self) -> AsyncGenerator[Hint, None]:
        """Yield what agents say before it is in the log."""
        async with aclosing(live_text(self.home, self.run_id)) as hints:
            async for hint in hints:
                if self.text.add(hint):
                    yield hint

    def remember(self) -> None:
        """Remember that this person has seen everything so far."""
        remember_last_seen(self.home, self.run_id, self._position)

    # What there is

    @property
    def target(self) -> str | None:
        """The conversation that messages go to; None before the first one is open."""
        if self.conversation_id is not None and not self._has_chosen_ended:
            return self.conversation_id
        chosen = self.state.conversations.get(self.conversation_id or "")
        task = self.state.tasks.get((chosen.task if chosen is not None else main_task(self.state)) or "")
        return task.worker if task is not None else None

    @property
    def _has_chosen_ended(self) -> bool:
        chosen = self.state.conversations.get(self.conversation_id or "")
        return chosen is not None and chosen.state in ENDED_STATES

    def _address(self) -> dict[str, str | None]:
        """Whom a message is for. If the chosen conversation has ended: the one that its task has now, or a new one."""
        if not self._has_chosen_ended:
            return {"conversation": self.conversation_id}
        if self.conversation.state not in ENDED_STATES:
            return {"conversation": self.target}
        return {"task": self.state.conversations[self.conversation_id or ""].task}

    @property
    def conversation(self) -> Conversation:
        return self.state.conversations.get(self.target or "") or Conversation()

    @property
    def has_runner(self) -> bool:
        return self.home.is_owned(self.run_id)

    @property
    def is_working(self) -> bool:
        """Whether a turn of the conversation is in progress. A turn without a runner is interrupted."""
        return self.conversation.turn is not None and self.has_runner

    def requests(self) -> list[Need]:
        return [need for need in needs_to_answer(self.state) if need.want is NeedKind.PERMISSION]

    async def statuses(self) -> list[ConversationStatus]:
        return conversations_of(await view_run(self.home, self.run_id))

    # What a person does

    async def say(self, text: str, attachments: Sequence[Attachment] = ()) -> str:
        return await chat.send_chat_message(self.home, self.run_id, text, **self._address(), attachments=attachments)

    async def attach(self, path: str, name: str | None = None, media_type: str | None = None) -> Attachment:
        return await attach_file(self.home, self.run_id, path, name, media_type)

    async def attach_bytes(self, name: str, data: bytes, media_type: str | None = None) -> Attachment:
        return await chat.add_attachment(self.home, self.run_id, name, data, media_type)

    async def edit_plan(self, overview: str, tasks: Sequence[ProposedTask], seeds: Sequence[str]) -> str:
        return await chat.edit_plan(self.home, self.run_id, overview, tasks, seeds)

    async def compact(self) -> str:
        return await chat.compact(self.home, self.run_id, self._target_id())

    async def accept(self, *, finish: bool = False) -> str:
        return await chat.accept(self.home, self.run_id, **self._address(), finish=finish)

    async def cancel(self) -> None:
        """Cancel the turn. `NothingToDo` if none is in progress: a message for the next turn is still delivered."""
        if self.target is not None and self.conversation.turn is not None and self.has_runner:
            await chat.cancel_turn(self.home, self.run_id, self.target, self.conversation.turn.turn)
            return
        queued = await self.queued()
        if not self.has_runner or not (queued or self.has_unsent_goal):
            raise NothingToDo("no turn is in progress")
        what = "nothing was cancelled: the turn has not begun, and your message is still delivered to the agent"
        if queued:
            raise NothingToDo(f"{what}; /drop {len(queued)} takes it back")
        raise NothingToDo(f"{what}; to stop the chat before that: holdfast stop {self.run_id}")

    @property
    def is_turn_due(self) -> bool:
        """Whether a runner is about to deliver the first message, or starts the agent for another one."""
        return self.has_runner and (self.has_unsent_goal or self.conversation.state == "starting")

    async def set_option(self, option: str, value: str | None) -> None:
        await chat.set_option(self.home, self.run_id, self._target_id(), option, value)

    async def add(self, agent: str, text: str, *, own_worktree: bool = False) -> str:
        """Open a conversation with another agent, in the same worktree unless it gets its own."""
        return await chat.add_conversation(self.home, self.run_id, agent, text, own_worktree=own_worktree)

    async def answer(self, need: Need, *, allow: bool, always: bool = False, reason: str | None = None) -> None:
        """Answer a request of an agent. The runner that applies it is started if there is none."""
        answer = UserAnswer(need.key or "", allow, reason=reason, always=always)
        await send_answer(self.home, self.run_id, self.state, need, answer)
        await chat.ensure_runner(self.home, self.run_id)

    @property
    def has_unsent_goal(self) -> bool:
        """Whether no agent has got the first message of the chat."""
        task = self.state.tasks.get(main_task(self.state) or "")
        return task is not None and task.status not in OVER_STATUSES and is_first_prompt_due(self.state, task)

    async def waits_for_runner(self) -> bool:
        """Whether something that a person asked for was left undone by a runner or a sender that died."""
        return not self.has_runner and await waits_for_runner(self.home, self.run_id)

    async def restart_runner(self) -> None:
        """Start a runner, unless there is one, for messages and answers that the one before did not live to deliver."""
        await chat.ensure_runner(self.home, self.run_id)

    async def queued(self) -> list[QueuedMessage]:
        return await list_queued(self.home, self.run_id)

    async def queued_now(self) -> list[QueuedMessage]:
        """The same as far as this client has read the log, which costs little."""
        return await queued_beside(self.home, self.run_id, self.state)

    async def edit(self, message_id: str, text: str) -> None:
        await chat.edit_queued(self.home, self.run_id, message_id, text)

    async def drop(self, message_id: str) -> None:
        await chat.delete_queued(self.home, self.run_id, message_id)

    def _target_id(self) -> str:
        if self.target is None:
            raise BadInput("no agent has been started in this chat yet; send a message first")
        return self.target


async def attach_file(
    home: Home, run_id: str, path: str, name: str | None = None, media_type: str | None = None
) -> Attachment:
    """Store a file of this machine in the run's folder, for the next message."""
    data = await asyncio.to_thread(_read_file, os.path.expanduser(path))
    return await chat.add_attachment(home, run_id, name or path, data, media_type)


def _read_file(path: str) -> bytes:
    """At most one byte more than an attachment may have: the engine says that it is too long."""
    if os.path.exists(path) and not os.path.isfile(path):
        raise BadInput(f"{path} is not a file; attach its files one by one")
    try:
        with open(path, "rb") as file:
            return file.read(MAX_ATTACHMENT_BYTES + 1)
    except OSError as error:
        raise BadInput(f"cannot attach {path}: {error.strerror}") from error


async def finish_sending(tasks: set[asyncio.Task[None]], timeout_s: float) -> bool:
    """Let messages on their way reach a runner; return whether all did. They are durable either way."""
    if not tasks:
        return True
    _, late = await asyncio.wait(tasks, timeout=timeout_s)
    return not late
