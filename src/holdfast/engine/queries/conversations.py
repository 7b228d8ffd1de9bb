"""The conversations of a run, from outside: whether each has an agent, and what the next message would start.

Read from the log and the process table; the run may have an owner or none.
"""

import os
from typing import NamedTuple

from holdfast.core.conversation.states import ENDED_STATES, AgentActivity, needs_resume
from holdfast.core.decide.chat import receiver_of
from holdfast.core.messages.schema import EDITABLE_KINDS
from holdfast.core.state import Conversation, RunState
from holdfast.engine.home import Home
from holdfast.engine.queries.logs import RunView, view_run
from holdfast.leaf.errors import BadInput
from holdfast.leaf.process.identity import ProcessIdentity


class ConversationStatus(NamedTuple):
    """One conversation. `reason` is a code that says why it must be resumed before the next prompt, or need not be.

    `is_resumable`: a message or a request would resume it. `queued` counts messages that wait for it.
    """

    id: str
    agent: str | None
    role: str | None
    task: str | None
    state: str
    needs_resume: bool
    reason: str
    is_agent_running: bool
    is_resumable: bool
    turns: int
    last_stop: str | None
    queued: int
    options: dict[str, str]
    commands: dict[str, str]  # the agent's own, without the slash


async def conversation_status(home: Home, run_id: str, conversation_id: str) -> ConversationStatus:
    for found in conversations_of(await view_run(home, run_id)):
        if found.id == conversation_id:
            return found
    raise BadInput(f"run {run_id} has no conversation {conversation_id!r}")


def conversations_of(view: RunView) -> list[ConversationStatus]:
    """Every conversation of a run, the oldest first."""
    can_continue = _can_continue(view.state)
    return [
        _status(view.state, key, conversation, owned=view.holder is not None, can_continue=can_continue)
        for key, conversation in view.state.conversations.items()
    ]


def _status(
    state: RunState, conversation_id: str, conversation: Conversation, *, owned: bool, can_continue: bool
) -> ConversationStatus:
    """A process of an agent without a runner is what a dead runner left: it is not running, but was just now."""
    alive = _is_alive(conversation)
    need = needs_resume(
        conversation.state,
        conversation.token,
        AgentActivity(
            is_running=alive and owned, was_active_recently=alive and not owned, was_started=conversation.started
        ),
    )
    return ConversationStatus(
        id=conversation_id,
        agent=conversation.agent,
        role=conversation.role,
        task=conversation.task,
        state=conversation.state,
        needs_resume=need.must_resume,
        reason=need.reason,
        is_agent_running=alive and owned,
        is_resumable=can_continue and conversation.state not in ENDED_STATES,
        turns=conversation.turns,
        last_stop=conversation.last,
        queued=_queued(state, conversation_id, conversation),
        options=dict(conversation.options),
        commands=dict(conversation.commands),
    )


def _is_alive(conversation: Conversation) -> bool:
    if conversation.pid is None or conversation.start_time is None or conversation.boot_id is None:
        return False
    return ProcessIdentity(conversation.pid, conversation.start_time, conversation.boot_id).is_alive()


def _queued(state: RunState, conversation_id: str, conversation: Conversation) -> int:
    waiting = (message for message in state.messages.values() if message.kind in EDITABLE_KINDS)
    return sum(receiver_of(state, conversation.task or "", message) == conversation_id for message in waiting)


def _can_continue(state: RunState) -> bool:
    """Whether the run's repository can be reached. A worktree that is gone is created again."""
    info = state.run
    if info is None or info.archived or info.repo is None:
        return False
    return info.remote is not None or os.path.isdir(info.repo)
