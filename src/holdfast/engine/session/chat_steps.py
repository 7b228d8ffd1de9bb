"""The steps of a chat: a turn for what its user wrote, and from accepted work to the next iteration.

The conversation, its worktree and the worktree's path stay when work is accepted: some agents lose their session when
the folder changes.
"""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from holdfast.core.conversation.interruption import PendingUpdates
from holdfast.core.conversation.states import ASKED_AGAIN, AfterInterruption, ConversationState
from holdfast.core.decide.actions import Action, ActionKind, PromptKind
from holdfast.core.decide.attribution import WORKER
from holdfast.core.decide.chat import next_prompt, open_conversations, queued_messages
from holdfast.core.decide.tasks import was_interrupted
from holdfast.core.decide.transitions import task_change
from holdfast.core.events import Event
from holdfast.core.events.branch import BranchCreated
from holdfast.core.events.chat import IterationAccepted, TaskAccepted
from holdfast.core.events.checkpoint import Checkpoint
from holdfast.core.events.conversation import MessageRecorded
from holdfast.core.events.inbox import InboxHandled
from holdfast.core.events.issue import WarningLogged
from holdfast.core.messages.attachments import MAX_ATTACHMENTS, mentioned_names
from holdfast.core.messages.schema import (
    AcceptRequest,
    MessageKind,
    message_attachments,
    message_text,
    try_decode_body,
)
from holdfast.core.redaction.redaction import with_redaction_notice
from holdfast.core.state import Conversation, RunState
from holdfast.core.task_state import BEGUN_STATUSES, Task, TaskStatus
from holdfast.core.work.names import turn_snapshot
from holdfast.engine.agents.content import PromptFiles
from holdfast.engine.agents.conversations import AgentUnavailable, Conversations
from holdfast.engine.agents.prompt import Composed, Delivery
from holdfast.engine.config.run_config import RunConfig
from holdfast.engine.prompts.chat import chat_prompt, first_message, interview_prompt, plan_notice, reopened_prompt
from holdfast.engine.prompts.task import TaskPromptBuilder
from holdfast.engine.workspace.workspace import Workspace
from holdfast.git.worktrees.worktree import Worktree

_FINISHED = "the chat is finished"


class _Prompt(NamedTuple):
    task_id: str
    conversation_id: str
    kind: PromptKind | None

    @property
    def is_first(self) -> bool:
        return self.kind is PromptKind.BEGIN


class ChatSteps:
    """The steps of a chat. A step that was interrupted is chosen again."""

    def __init__(
        self,
        workspace: Workspace,
        conversations: Conversations,
        config: RunConfig,
        ensure_worktree: Callable[[str], Awaitable[Worktree]],
        receive: Callable[[], Awaitable[None]],
    ) -> None:
        self._workspace = workspace
        self._conversations = conversations
        self._config = config
        self._ensure_worktree = ensure_worktree
        self._receive = receive
        self._prompts = TaskPromptBuilder(workspace, config)
        self.steps: dict[ActionKind, Callable[[str, Action], Awaitable[None]]] = {
            ActionKind.CONVERSE: self._converse,
            ActionKind.AWAIT_USER: self._await_user,
            ActionKind.ACCEPT: self._accept,
            ActionKind.NEXT_ITERATION: self._next_iteration,
            ActionKind.RESUME_AGENT: self._resume_agent,
            ActionKind.END_CONVERSATIONS: self._end_conversations,
        }

    @property
    def _state(self) -> RunState:
        return self._workspace.effects.run.state

    def _task(self, task_id: str) -> Task:
        return self._state.tasks[task_id]

    async def _append(self, *events: Event) -> None:
        await self._workspace.effects.run.append(*events)

    # A turn

    async def _converse(self, task_id: str, action: Action) -> None:
        worktree = await self._ensure_worktree(task_id)
        conversation_id = action.conversation or await self._open(task_id)
        prompt = _Prompt(task_id, conversation_id, action.prompt_kind)
        turn = await self._conversations.converse(conversation_id, worktree.path, lambda: self._compose(prompt))
        await self._receive()
        await self._workspace.relink(task_id)
        if turn is None:
            return
        await self._workspace.snapshot(task_id, turn_snapshot(self._turns(task_id), conversation_id, turn.turn_id))
        conversation = self._conversations.state(conversation_id)
        if turn.reason in ASKED_AGAIN and not conversation.limited:  # the user decides what to do; it is not retried
            await self._append(WarningLogged(message=f"{conversation.agent} answered with an error: {turn.detail}"))

    async def _open(self, task_id: str) -> str:
        task = self._task(task_id)
        agent = self._config.agent_for(WORKER, task.wants)
        return await self._conversations.open_or_reuse(task.worker, agent, role=WORKER, task=task_id)

    def _turns(self, task_id: str) -> int:
        return sum(
            conversation.turns for conversation in self._state.conversations.values() if conversation.task == task_id
        )

    async def _compose(self, prompt: _Prompt) -> Composed | None:
        """Return the prompt with its messages as they are now; None if the user withdrew all of them."""
        task_id, conversation_id, is_first = prompt.task_id, prompt.conversation_id, prompt.is_first
        task, conversation = self._task(task_id), self._conversations.state(conversation_id)
        keys = self._keys(prompt)
        new = {key: message_text(self._state.messages[key].body) for key in keys}
        if not new and prompt.kind is PromptKind.MESSAGE:
            return None
        files = self._files(conversation, keys)
        notices = self._prompts.notices(task_id) | plan_notice(self._state) if conversation_id == task.worker else {}
        if was_interrupted(conversation):
            added = chat_prompt(self._state, task, [], [])
            since = PendingUpdates({**({"": added} if added else {}), **new}, notices)
            composed = await self._conversations.compose_continuation(
                conversation_id, AfterInterruption.CONTINUE, since
            )
            if composed is not None:
                return Composed(composed.message, Delivery(tuple(new), tuple(notices)), files)
        messages = [*self._conversations.unheard_messages(conversation_id), *new.values()]
        if is_first:
            is_interview = self._config.workflow.interview
            messages.insert(0, interview_prompt(self._state, task) if is_interview else first_message(task))
        text = chat_prompt(self._state, task, messages, list(notices.values()))
        if not is_first and conversation.turns == 0 and conversation.role == WORKER:
            text = reopened_prompt(task, text)
        message = MessageRecorded(conversation=conversation_id, speaker="user", text=with_redaction_notice(text))
        if is_first:
            files = files._replace(mentioned=(*mentioned_names(first_message(task)), *files.mentioned))
        return Composed(message, Delivery(tuple(new), tuple(notices)), files)

    def _files(self, conversation: Conversation, keys: list[str]) -> PromptFiles:
        """Return the files of these messages, and of those that the agent may not have received."""
        bodies = [message.body for message in conversation.unheard.values()]
        bodies += [self._state.messages[key].body for key in keys]
        stored = {attachment.id: attachment for body in bodies for attachment in message_attachments(body)}
        names = [name for body in bodies for name in mentioned_names(message_text(body))]
        return PromptFiles(tuple(stored.values())[:MAX_ATTACHMENTS], tuple(names))

    def _keys(self, prompt: _Prompt) -> list[str]:
        """Return the keys: those for a new conversation now belong to this one."""
        own = next_prompt(self._state, prompt.task_id, prompt.conversation_id)
        return own or next_prompt(self._state, prompt.task_id, None)

    async def _await_user(self, task_id: str, _: Action) -> None:
        await self._append(*task_change(self._state, task_id, TaskStatus.REVIEW, self._task(task_id).reason))

    async def _resume_agent(self, task_id: str, action: Action) -> None:
        """Start the agent and leave it idle. The requests are done even if none of its agents can be started."""
        worktree, conversation_id = await self._ensure_worktree(task_id), action.conversation or ""
        requests = [
            key
            for key in queued_messages(self._state, task_id)
            if self._state.messages[key].kind == MessageKind.RESUME_CONVERSATION
            and self._state.messages[key].conversation == conversation_id
        ]
        failure: list[Event] = []
        try:
            await self._conversations.ensure_agent(conversation_id, worktree.path)
        except AgentUnavailable as error:
            failure = [WarningLogged(message=str(error))]
        await self._append(*failure, *(InboxHandled(message=key) for key in requests))

    # From accepted work to the next iteration

    async def _accept(self, task_id: str, _: Action) -> None:
        key = queued_messages(self._state, task_id)[0]
        message, task = self._state.messages[key], self._task(task_id)
        body = try_decode_body(message.kind, message.body)
        handled = InboxHandled(message=key)
        if task.status not in BEGUN_STATUSES or not isinstance(body, AcceptRequest):
            await self._append(WarningLogged(message=f"{task_id} has nothing to accept"), handled)
            return
        accepted = TaskAccepted(task_id=task_id, iteration=task.iteration, by=message.sender, finish=body.finish)
        await self._append(accepted, *task_change(self._state, task_id, TaskStatus.IN_PROGRESS), handled)

    async def _next_iteration(self, task_id: str, _: Action) -> None:
        """The merged commit is where the next iteration begins: the branch and its worktree stay as they are."""
        task, place = self._task(task_id), self._workspace.place(task_id)
        commit = task.commit
        based = [BranchCreated(name=place.branch, base=commit, task=task_id)] if commit is not None else []
        checkpoint = Checkpoint(
            label=f"{task_id}-accepted-{task.accepted + 1}",
            branch=self._workspace.place().branch,
            commit=await self._workspace.tip(),
            plan_step=task_id,
        )
        await self._append(
            IterationAccepted(task_id=task_id, iteration=task.iteration, commit=commit),
            *based,
            checkpoint,
            *task_change(self._state, task_id, TaskStatus.REVIEW),
        )

    async def _end_conversations(self, task_id: str, _: Action) -> None:
        for conversation_id in open_conversations(self._state, task_id):
            is_new = self._conversations.state(conversation_id).state == ConversationState.CREATED
            final = ConversationState.CANCELLED if is_new else ConversationState.COMPLETED
            await self._conversations.close(conversation_id, final, _FINISHED)
