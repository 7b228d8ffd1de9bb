"""Acting on the messages of a chat: what is done at once, and what waits for the end of the turn.

Accepting work, starting an agent, and the text of a new conversation stay in the queue until `core.decide.chat` takes
them, in the order in which they arrived.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import NamedTuple

import msgspec

from holdfast.core.conversation.states import ENDED_STATES
from holdfast.core.decide.attribution import WORKER
from holdfast.core.decide.chat import PEER, main_task
from holdfast.core.events import Event
from holdfast.core.events.chat import MessageDeleted, MessageEdited, OptionChosen, RuleRevoked
from holdfast.core.events.conversation import ConversationOpened
from holdfast.core.events.inbox import InboxHandled
from holdfast.core.events.plan import (
    Dependency,
    PlanCreated,
    PlannedTask,
    PlannedWave,
    PlanProposed,
    ProposedTask,
)
from holdfast.core.messages.schema import (
    EDITABLE_KINDS,
    AcceptRequest,
    AddConversation,
    CancelTurn,
    ChatCommand,
    DeleteMessage,
    EditMessage,
    EditPlan,
    ResumeConversation,
    RevokeRule,
    SetOption,
)
from holdfast.core.messages.signals import INTERVIEWER_ROLE, InterviewTask, SubmitTasks, read_signal
from holdfast.core.state import Conversation, OpenMessage, RunState
from holdfast.core.task_state import TaskStatus
from holdfast.core.work.tasks import TaskSpec, input_keys
from holdfast.leaf.errors import BadInput
from holdfast.store.run import OwnedRun

_MAX_TITLE_CHARS = 200


class ChatCallbacks(NamedTuple):
    """How running agents are reached. `check_agent` raises `BadInput` for an agent that nobody knows."""

    cancel_turn: Callable[[str, str], None] = lambda *_: None  # the conversation, and who wants it
    apply_option: Callable[[str, str], None] = lambda *_: None  # the conversation, and the option
    check_agent: Callable[[str], object] = lambda _: None
    delivery_lock: AbstractAsyncContextManager[object] = nullcontext()


class ChatMessages:
    def __init__(self, run: OwnedRun, callbacks: ChatCallbacks) -> None:
        self._run = run
        self._callbacks = callbacks

    async def handle(self, body: ChatCommand, message: OpenMessage, handled: InboxHandled) -> None:
        """`BadInput` when it cannot be done."""
        state, by = self._run.state, message.sender or "user"
        match body:
            case SetOption():
                _require_open(state, body.conversation)
                chosen = OptionChosen(conversation=body.conversation, option=body.option, value=body.value, by=by)
                await self._run.append(chosen, handled)
                self._callbacks.apply_option(body.conversation, body.option)
            case RevokeRule():
                if body.rule not in state.rules:
                    raise BadInput(f"there is no rule {body.rule!r}")
                await self._run.append(RuleRevoked(rule=body.rule, by=by), handled)
            case EditMessage() | DeleteMessage():
                await self._change_message(body, by, handled)
            case _ if not state.is_chat:
                raise BadInput(f"{message.kind} is for a chat")
            case _:
                await self._handle_in_chat(body, by, handled)

    async def _handle_in_chat(self, body: ChatCommand, by: str, handled: InboxHandled) -> None:
        state = self._run.state
        match body:
            case CancelTurn():
                await self._cancel(body, by, handled)
            case EditPlan():
                plan = proposed_plan(state, body.overview, body.tasks, body.seeds, by)
                await self._run.append(plan, handled)
            case AddConversation():
                await self._add_conversation(body)
            case AcceptRequest():
                _require_task(state, body)
            case ResumeConversation():
                _require_open(state, body.conversation)

    async def _cancel(self, body: CancelTurn, by: str, handled: InboxHandled) -> None:
        conversation = _require_open(self._run.state, body.conversation)
        turn = conversation.turn.turn if conversation.turn is not None else None
        await self._run.append(handled)
        if body.turn is None or body.turn == turn:
            self._callbacks.cancel_turn(body.conversation, by)

    async def _change_message(self, body: EditMessage | DeleteMessage, by: str, handled: InboxHandled) -> None:
        """Not while a prompt is being composed of it: it is changed before that, or too late."""
        async with self._callbacks.delivery_lock:
            target = self._run.state.messages.get(body.message)
            if target is None:
                raise BadInput(f"message {body.message} was delivered before it could be changed")
            event: Event
            if isinstance(body, EditMessage):
                if target.kind not in EDITABLE_KINDS:
                    raise BadInput(f"message {body.message} has no text to change")
                event = MessageEdited(message=body.message, text=body.text, by=by)
            else:
                event = MessageDeleted(message=body.message, by=by)
            await self._run.append(event, handled)

    async def _add_conversation(self, body: AddConversation) -> None:
        """Its text stays in the queue, as the first message of the conversation."""
        state, conversation_id = self._run.state, body.conversation
        if conversation_id in state.conversations:
            return
        self._callbacks.check_agent(body.agent)
        task_id = body.task if body.task is not None else main_task(state)
        if body.own_worktree:
            plan = plan_with_task(state, body)
            task_id = str(plan.tasks[-1].id)
            opened = ConversationOpened(conversation=conversation_id, agent=body.agent, role=WORKER, task=task_id)
            await self._run.append(plan, opened)
            return
        if task_id is None or task_id not in state.tasks or state.tasks[task_id].status is TaskStatus.COMPLETE:
            raise BadInput(f"there is no open task {task_id!r} for another conversation")
        await self._run.append(
            ConversationOpened(conversation=conversation_id, agent=body.agent, role=PEER, task=task_id)
        )


def plan_with_task(state: RunState, body: AddConversation) -> PlanCreated:
    """The plan, with one more task, which waits for no other."""
    order = state.plan.order if state.plan is not None else []
    number = len(order) + 1
    while f"T-{number}" in state.tasks:
        number += 1
    title = (body.text.strip().splitlines() or [""])[0][:_MAX_TITLE_CHARS]
    description = body.text if body.text.strip() != title else ""
    spec = TaskSpec(id=f"T-{number}", title=title or body.agent, description=description, agent=body.agent)
    added = PlannedTask(
        id=spec.id, summary=spec.title, agent=body.agent, description=description, key=input_keys([spec])[spec.id]
    )
    known = [
        PlannedTask(
            id=name,
            summary=task.summary or name,
            agent=task.wants,
            description=task.description,
            acceptance_criteria=task.acceptance_criteria,
            files=task.files or [],
            key=task.key,
        )
        for name, task in ((name, state.tasks[name]) for name in order)
    ]
    needs = state.plan.blocked_by.items() if state.plan is not None else ()
    return PlanCreated(
        tasks=[*known, added],
        waves=[PlannedWave(wave=1, task_ids=[*order, spec.id])],
        dependencies=[
            Dependency(task_id=name, blocked_by=dependency) for name, needed in needs for dependency in needed
        ],
        overview=state.plan.overview if state.plan is not None else "",
    )


def as_proposed(task: InterviewTask) -> ProposedTask:
    return msgspec.convert(msgspec.to_builtins(task), ProposedTask)


def proposed_plan(
    state: RunState, overview: str, tasks: Sequence[ProposedTask], seeds: Sequence[str], by: str | None = None
) -> PlanProposed:
    """The next revision of an interview's plan. `BadInput` while a run is being prepared from the one before."""
    if not state.is_interview:
        raise BadInput("only an interview has a plan to change")
    if state.interview is not None and state.interview.is_accepted:
        raise BadInput(f"the plan was accepted, and {state.interview.run_id} is being prepared from it")
    check_interview_plan(overview, tasks, seeds)
    revision = state.interview.revision + 1 if state.interview is not None else 1
    return PlanProposed(revision=revision, overview=overview, tasks=[*tasks], seeds=[*seeds], by=by)


def check_interview_plan(overview: str, tasks: Sequence[ProposedTask], seeds: Sequence[str]) -> None:
    """Raise `BadInput` unless an agent could have submitted this plan."""
    arguments = {"overview": overview, "tasks": msgspec.to_builtins(tasks), "seeds": [*seeds]}
    read_signal(INTERVIEWER_ROLE, SubmitTasks.tool, arguments)


def undeliverable_in_chat(state: RunState, message: OpenMessage) -> str | None:
    """Why a message to one conversation can never be delivered."""
    conversation = state.conversations.get(message.conversation or "")
    if message.conversation is None:
        return None
    if conversation is None:
        return f"there is no conversation {message.conversation}"
    return (
        f"conversation {message.conversation} is {conversation.state}" if conversation.state in ENDED_STATES else None
    )


def _require_open(state: RunState, conversation_id: str) -> Conversation:
    found = state.conversations.get(conversation_id)
    if found is None or found.state in ENDED_STATES:
        raise BadInput(f"there is no open conversation {conversation_id!r}")
    return found


def _require_task(state: RunState, body: AcceptRequest) -> None:
    if body.conversation is not None:
        _require_open(state, body.conversation)
    elif body.task is not None and body.task not in state.tasks:
        raise BadInput(f"there is no task {body.task!r}")
