"""The conversations of a run: open them, send prompts, restore them after their agent died.

Every prompt is an effect: `turn.started` is durable before it is sent, and the turn's end or its interruption is
recorded after. An agent is started only when a prompt needs it; `recovery` decides how.
"""

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from typing import Self

from msgspec import structs

from holdfast.agents.acp.driver import AgentExited, AgentRefused, AgentSilent, PromptResult
from holdfast.agents.acp.messages import ContentBlock
from holdfast.agents.process.tree import finish_uncancelled
from holdfast.agents.registry import find_agent
from holdfast.core.conversation.interruption import NO_UPDATES, PendingUpdates
from holdfast.core.conversation.states import (
    CANCELLED,
    ENDED_STATES,
    FINISHED_TURN_REASONS,
    INTERRUPTED,
    NO_TOOLS,
    AfterInterruption,
    AgentActivity,
    ConversationState,
    needs_resume,
)
from holdfast.core.decide.actions import PromptKind
from holdfast.core.decide.attribution import conversation_agent_name
from holdfast.core.decide.interrupted import PROGRESS_TEXT
from holdfast.core.decide.transitions import conversation_change
from holdfast.core.events.agent import AgentCompleted
from holdfast.core.events.conversation import (
    ConversationDetached,
    ConversationOpened,
    MessageRecorded,
    TurnStarted,
)
from holdfast.core.events.inbox import InboxHandled
from holdfast.core.messages.addressing import messages_for_conversation
from holdfast.core.messages.schema import message_text
from holdfast.core.redaction.redaction import with_redaction_notice
from holdfast.core.state import Conversation
from holdfast.engine.agents.content import read_content
from holdfast.engine.agents.context import (
    AGENT_ERRORS,
    AgentUnavailable,
    ConversationContext,
    LiveAgent,
    TextSink,
    close_agent,
    recorded_process,
)
from holdfast.engine.agents.continuation import compose_continuation
from holdfast.engine.agents.limits import Pauses
from holdfast.engine.agents.options import apply_option
from holdfast.engine.agents.permissions import PermissionBroker
from holdfast.engine.agents.prompt import (
    NOTHING_TO_SAY,
    Compose,
    Composed,
    ComposedOnce,
    Delivery,
    PromptRefused,
    TurnResult,
    composed_before,
)
from holdfast.engine.agents.recovery import Recovery
from holdfast.engine.agents.refusal import refusal, with_limit
from holdfast.engine.agents.transcript import conversation_lineage, history_of, last_reply
from holdfast.engine.agents.turn_records import TurnOutcome, TurnRecords
from holdfast.leaf.errors import BadInput, Denied, StorageFailed
from holdfast.leaf.failpoints import failpoint_pair
from holdfast.leaf.ids import new_sid
from holdfast.leaf.process.load import load_factor
from holdfast.store.run import OwnedRun

__all__ = ["AgentUnavailable", "ConversationContext", "Conversations", "PromptRefused", "TurnResult"]

_FAILPOINT = failpoint_pair("prompt")
_WITHOUT_TOOLS = "the agent had to report and did not have Holdfast's tools: its MCP server holdfast was not up"


class Conversations:
    """The conversations of one run, for its owner. A context: no agent outlives it.

    The caller has fenced the run: no process of an earlier session is alive.
    """

    def __init__(
        self,
        run: OwnedRun,
        context: ConversationContext,
        permissions: PermissionBroker,
        text_sink: TextSink | None = None,
    ) -> None:
        """`text_sink` receives text as it is streamed."""
        self._run = run
        self._context = context
        self._permissions = permissions
        self._recovery = Recovery(run, context, permissions, text_sink)
        self._turns = TurnRecords(run, context, permissions)
        self.pauses = Pauses(lambda: run.state, context.limits)
        self._live: dict[str, LiveAgent] = {}
        self._start_locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._turn_locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._turn_end_events: dict[str, asyncio.Event] = {}  # set when the turn is over
        self._cancelled: dict[str, str | None] = {}  # user names, if a person cancelled the turn
        # held while a prompt is composed and recorded, so that its messages do not change
        self.delivery_lock = asyncio.Lock()
        self._closing: set[str] = set()

    async def __aenter__(self) -> Self:
        await self._turns.record_earlier_interruptions()
        return self

    async def __aexit__(self, *_: object) -> None:
        names = list(self._run.state.conversations)
        silenced = (self._shut_down(name, "the session ended") for name in names)
        for error in await asyncio.gather(*silenced, return_exceptions=True):
            if isinstance(error, BaseException):  # once all are handled
                raise error

    # What there is

    def state(self, conversation_id: str) -> Conversation:
        found = self._run.state.conversations.get(conversation_id)
        if found is None:
            raise BadInput(f"there is no conversation {conversation_id!r}")
        return found

    def resume_need(self, conversation_id: str) -> tuple[bool, str]:
        """Return whether it must be resumed before a prompt, and the reason."""
        state = self.state(conversation_id)
        alive = recorded_process(state)
        seen = AgentActivity(
            is_running=conversation_id in self._live and not self._live[conversation_id].agent.tree.is_dead,
            was_active_recently=alive is not None and alive.is_alive(),
            was_started=state.started,
        )
        return needs_resume(state.state, state.token, seen)

    # What can be done

    async def open(
        self,
        agent: str,
        *,
        role: str | None = None,
        task: str | None = None,
        about: str | None = None,
        after: str | None = None,
    ) -> str:
        find_agent(agent, self._context.agents)  # raises before anything is written
        name = new_sid()
        await self._run.append(
            ConversationOpened(conversation=name, agent=agent, role=role, task=task, about=about, after=after)
        )
        return name

    async def open_or_reuse(
        self,
        current_id: str | None,
        agent: str,
        *,
        role: str,
        task: str | None = None,
        about: str | None = None,
        continues: bool = False,
    ) -> str:
        """Return the existing conversation; a new one if it is over, or if another agent takes over.

        With `continues`, that agent gets the history. A conversation that another agent takes over ends. If we are
        killed in between, the next session ends it.
        """
        conversation = self._run.state.conversations.get(current_id or "")
        if current_id is None or conversation is None or conversation.state in ENDED_STATES:
            return await self.open(agent, role=role, task=task, about=about)
        if conversation.agent == agent:
            return current_id
        name = await self.open(agent, role=role, task=task, about=about, after=current_id if continues else None)
        await self.close(
            current_id, ConversationState.CANCELLED, f"{agent} took over from {conversation.agent or 'another agent'}"
        )
        return name

    def prompt_kind(self, conversation_id: str, how: PromptKind | None) -> PromptKind:
        """Return the chosen kind of prompt, but the complete one for an agent that does not know its job yet."""
        return how if how is not None and self.state(conversation_id).briefed else PromptKind.BEGIN

    def unheard_messages(self, conversation_id: str) -> list[str]:
        """Return messages that were delivered in turns that did not finish."""
        return [message_text(message.body) for message in self.state(conversation_id).unheard.values()]

    async def last_reply(self, conversation_id: str) -> str:
        return await last_reply(self._context.log, conversation_id)

    async def send_prompt(
        self, conversation_id: str, text: str, cwd: str, *, messages: Sequence[str] = (), notices: Sequence[str] = ()
    ) -> TurnResult:
        """Run one turn, after the earlier ones.

        A dead agent is restored first; one that died before it got the prompt is retried. The text contains these
        messages and notices; they are listed for the log.
        """
        message = MessageRecorded(conversation=conversation_id, speaker="user", text=text)
        return await self._send_message(conversation_id, message, cwd, Delivery(tuple(messages), tuple(notices)))

    async def continue_turn(
        self, conversation_id: str, cwd: str, policy: AfterInterruption, since: PendingUpdates = NO_UPDATES
    ) -> TurnResult | None:
        """Continue an interrupted turn with everything that arrived since.

        None if there is none, or a person decides how. Repeats what earlier prompts for this turn delivered: the agent
        may not have received it.
        """
        composed = await self.compose_continuation(conversation_id, policy, since)
        if composed is None:
            return None
        return await self._send_message(conversation_id, composed.message, cwd, composed.delivery)

    async def compose_continuation(
        self, conversation_id: str, policy: AfterInterruption, since: PendingUpdates = NO_UPDATES
    ) -> Composed | None:
        """Return the prompt that continues an interrupted turn; None if there is none, or a person decides."""
        state = self.state(conversation_id)
        return await compose_continuation(self._context.log, conversation_id, state, policy, since)

    async def cancel(self, conversation_id: str, by: str | None = None) -> None:
        """End the turn in progress. An agent that does not stop when asked is killed.

        `by` is the person who cancels: such a turn is not continued. A turn whose agent is still starting ends before
        its prompt is sent.
        """
        if self._turn_locks[conversation_id].locked():
            self._cancelled[conversation_id] = by
        live, turn_end = self._live.get(conversation_id), self._turn_end_events.get(conversation_id)
        if live is None or turn_end is None:
            return
        with suppress(*AGENT_ERRORS):  # the turn ends anyway
            await live.agent.cancel(live.session)
        await self._permissions.withdraw(conversation_id, "the turn was cancelled")
        try:
            await asyncio.wait_for(turn_end.wait(), self._context.deadlines.cancel * load_factor())
        except TimeoutError:
            await self._detach(conversation_id, "the agent did not stop when its turn was cancelled")

    async def close(self, conversation_id: str, final_state: ConversationState, reason: str | None = None) -> None:
        """Close the conversation."""
        conversation_change(self._run.state, conversation_id, final_state)  # raises before anything is stopped
        await self._shut_down(conversation_id, reason or "the conversation is over")
        state = self.state(conversation_id)
        change = conversation_change(self._run.state, conversation_id, final_state, reason)
        await self._run.append(
            *change,
            *([AgentCompleted(name=conversation_agent_name(state), result=final_state)] if state.started else []),
        )

    async def stop_agent(self, conversation_id: str | None, reason: str) -> None:
        """Stop the agent; the next prompt restores it."""
        if conversation_id is not None:
            async with self._turn_locks[conversation_id], self._start_locks[conversation_id]:
                await self._detach(conversation_id, reason)

    async def ensure_agent(self, conversation_id: str, cwd: str) -> LiveAgent:
        """Return the running agent, or restore one. One call at a time."""
        async with self._start_locks[conversation_id]:
            self._must_be_open(conversation_id)
            live = self._live.get(conversation_id)
            if live is not None and not live.agent.tree.is_dead:
                return live
            if live is not None:
                await self._detach(
                    conversation_id, f"the agent has died: {await live.agent.tree.wait_for_exit()}", died=True
                )
            live = self._live[conversation_id] = await self._recovery.restore(conversation_id, cwd)
            for option in self.state(conversation_id).options:
                await self.apply_option(conversation_id, option)
            return live

    async def apply_option(self, conversation_id: str, option: str) -> None:
        """Set an option that a person chose, if the agent runs; otherwise it is set when the agent starts."""
        live = self._live.get(conversation_id)
        if live is not None:
            with suppress(AgentExited, AgentSilent):  # the next step that needs the agent restores it, with its options
                await apply_option(self._run, conversation_id, option, live.agent, live.opened)

    # Turns

    async def _send_message(
        self, conversation_id: str, message: MessageRecorded, cwd: str, delivery: Delivery
    ) -> TurnResult:
        message = structs.replace(message, text=with_redaction_notice(message.text))
        async with self._turn_locks[conversation_id]:
            own = messages_for_conversation(self._run.state.messages, conversation_id)
            texts = [message_text(self._run.state.messages[key].body) for key in own]
            message = structs.replace(message, text="\n\n".join([message.text, *texts]))
            delivery = delivery._replace(messages=(*delivery.messages, *own))
            return await self._run_turns(conversation_id, cwd, composed_before(message, delivery))

    async def converse(self, conversation_id: str, cwd: str, compose: Compose) -> TurnResult | None:
        """Run one turn of a chat. Its prompt is composed once the agent is ready; None means no turn.

        Until then a person may change the messages that it delivers.
        """
        async with self._turn_locks[conversation_id]:
            turn = await self._run_turns(conversation_id, cwd, compose)
        return None if turn.reason == NOTHING_TO_SAY else turn

    async def _run_turns(self, conversation_id: str, cwd: str, compose: Compose) -> TurnResult:
        """Run a turn, and retry once if its agent died before it got the prompt."""
        self._cancelled.pop(conversation_id, None)
        await self._turns.apply_shared_limit(conversation_id)
        await self._context.on_turn_start(conversation_id)
        composed = ComposedOnce(compose)
        turn = await self._run_turn(conversation_id, cwd, composed)
        if turn.reason == "unheard" and conversation_id not in self._closing | self._cancelled.keys():
            turn = await self._run_turn(conversation_id, cwd, composed)
        await self._context.on_turn_end(conversation_id)
        return turn._replace(reason="interrupted") if turn.reason == "unheard" else turn

    async def _run_turn(self, conversation_id: str, cwd: str, compose: Compose) -> TurnResult:
        live = await self.ensure_agent(conversation_id, cwd)
        async with AsyncExitStack() as composing:
            await composing.enter_async_context(self.delivery_lock)
            composed = await compose()
            if composed is None:
                return TurnResult("", NOTHING_TO_SAY)
            return await self._run_composed_turn(conversation_id, live, composed, composing)

    async def _run_composed_turn(
        self, conversation_id: str, live: LiveAgent, composed: Composed, composing: AsyncExitStack
    ) -> TurnResult:
        recorded, delivery, files = composed
        rewound = self.state(conversation_id).rewound
        if rewound is not None:
            recorded = structs.replace(recorded, text=f"{rewound}\n\n{recorded.text}")
        for attachment in files.stored:
            await self._context.fetch(attachment)
        content = await read_content(self._context.folder, live.cwd, files, live.accepts)
        recorded = structs.replace(recorded, text=content.text(recorded.text))
        turn = new_sid()
        prompt = (
            await self._with_history(conversation_id, recorded.text)
            if self.state(conversation_id).blank
            else recorded.text
        )
        self._must_be_open(conversation_id)
        frames_before = live.agent.frames_received
        live.agent.recorder.begin_turn(turn)
        reports = self.state(conversation_id).reports
        must_report = self._context.must_report(self.state(conversation_id))
        no_tools = must_report and self._recovery.lacks_tools(conversation_id)
        turn_end = self._turn_end_events[conversation_id] = asyncio.Event()
        try:
            await self._run.append(
                TurnStarted(
                    conversation=conversation_id,
                    turn=turn,
                    messages=list(delivery.messages),
                    notices=list(delivery.notices),
                ),
                structs.replace(recorded, turn=turn),
                *content.events(conversation_id, turn),
                *(InboxHandled(message=message) for message in delivery.messages),
                *conversation_change(self._run.state, conversation_id, ConversationState.RUNNING),
            )
            await composing.aclose()
            if conversation_id in self._cancelled:
                ended = PromptResult("cancelled")
            else:
                ended = await self._prompt_agent(conversation_id, live, prompt, content.blocks)
            await self._turns.sync_files()
            await self._run.check_inbox_writable()
        except (AgentExited, AgentSilent) as error:
            has_answered = live.agent.frames_received > frames_before
            stop_reason = await self._record_interruption(
                conversation_id, live, turn, f"{error}; {PROGRESS_TEXT[has_answered]}", died=True
            )
            unheard = stop_reason == INTERRUPTED and not has_answered and isinstance(error, AgentExited)
            return TurnResult(turn, "unheard" if unheard else stop_reason, str(error))
        except StorageFailed:
            await finish_uncancelled(self._leave_turn_open(conversation_id, live))
            raise
        except BaseException:  # nothing waits for it any more, so it must not look as if it continued
            reason = f"the session ended; {PROGRESS_TEXT[live.agent.frames_received > frames_before]}"
            await finish_uncancelled(self._record_interruption(conversation_id, live, turn, reason))
            raise
        finally:
            del self._turn_end_events[conversation_id]
            turn_end.set()
        ended = with_limit(ended, live, self.state(conversation_id).agent, self._context)
        silent = (
            live.agent.recorder.is_silent
            and ended.reason in FINISHED_TURN_REASONS
            and not await self._has_reported(conversation_id, reports)
        )
        is_finished = ended.reason in FINISHED_TURN_REASONS
        if no_tools and is_finished and not await self._has_reported(conversation_id, reports):
            silent, ended = False, ended._replace(reason=NO_TOOLS, detail=_WITHOUT_TOOLS)
        by = self._cancelled.get(conversation_id)
        await self._turns.record_end(conversation_id, live, turn, TurnOutcome(ended, silent=silent, cancelled_by=by))
        if ended.reason == NO_TOOLS and self._recovery.lacks_tools(conversation_id):
            await self._detach(conversation_id, _WITHOUT_TOOLS)  # another agent may get them
        return TurnResult(turn, ended.reason, ended.detail, limited=ended.problem is not None)

    async def _prompt_agent(
        self, conversation_id: str, live: LiveAgent, prompt: str, files: Sequence[ContentBlock]
    ) -> PromptResult:
        _FAILPOINT.before()
        try:
            ended = await live.agent.prompt(live.session, prompt, files)
        except AgentRefused as error:
            if self._cancelled.get(conversation_id) is not None:
                return PromptResult(CANCELLED)  # an error because it aborted its request is not its provider's
            return refusal(error, self.state(conversation_id).agent, self._context)
        _FAILPOINT.after()
        return ended

    async def _with_history(self, conversation_id: str, text: str) -> str:
        past = await history_of(self._context.log, conversation_lineage(self._run.state, conversation_id))
        return with_redaction_notice(past.prompt_with_history(text))

    async def _has_reported(self, conversation_id: str, before: int) -> bool:
        """Return whether it reported since. Not every agent announces its calls of our tools."""
        await self._run.consume_inbox()
        return self.state(conversation_id).reports > before

    async def _record_interruption(
        self, conversation_id: str, live: LiveAgent, turn_id: str, reason: str, *, died: bool = False
    ) -> str:
        """Record that the agent died in the middle. Nothing of it may be alive before anything builds on that.

        Returns how the turn ended: one that a person cancelled is not interrupted, though its agent was killed for it.
        """
        by = self._cancelled.get(conversation_id)
        attached = self._live.pop(conversation_id, None) is not None
        alive = await close_agent(live.stack)
        try:
            await self._turns.sync_files()
        except StorageFailed:
            await self._leave_turn_open(conversation_id, live)
            raise
        detached = [ConversationDetached(conversation=conversation_id, reason=reason)] if attached else []
        death = [self._turns.death_event(conversation_id, reason)] if died and by is None else []
        end, change = self._turns.end_without_agent(conversation_id, turn_id, reason, cancelled_by=by)
        await self._run.append(*live.agent.recorder.final_events(), end, *detached, *death, *change)
        if alive is not None:
            raise alive
        return INTERRUPTED if by is None else CANCELLED

    async def _leave_turn_open(self, conversation_id: str, live: LiveAgent) -> None:
        """Leave the turn open, as our own death would: what was written in it may not be on the disk.

        So the log does not call it interrupted; the session that records the interruption knows whether the machine
        went down.
        """
        self._live.pop(conversation_id, None)
        alive = await close_agent(live.stack)
        await self._run.append(*live.agent.recorder.final_events())
        if alive is not None:
            raise alive

    # The end

    async def _detach(self, conversation_id: str, reason: str, *, died: bool = False) -> None:
        """Detach its agent, and make sure that all of it is dead.

        Raises `Denied` while something is alive, at every attempt.
        """
        live = self._live.pop(conversation_id, None)
        if live is None:
            await self._recovery.ensure_dead(conversation_id)
            return
        alive = await close_agent(live.stack)
        detached = ConversationDetached(conversation=conversation_id, reason=reason)
        death = [self._turns.death_event(conversation_id, reason)] if died else []
        await self._run.append(*live.agent.recorder.final_events(), detached, *death)
        if alive is not None:
            raise alive

    async def _shut_down(self, conversation_id: str, reason: str) -> None:
        """Stop its agent and record a turn that this interrupted."""
        self._closing.add(conversation_id)
        await self._detach(conversation_id, reason)
        async with self._turn_locks[conversation_id], self._start_locks[conversation_id]:
            await self._detach(conversation_id, reason)

    def _must_be_open(self, conversation_id: str) -> None:
        phase = self.state(conversation_id).state
        if phase in ENDED_STATES:
            raise Denied(f"conversation {conversation_id} is {phase}; open a new one")
        if conversation_id in self._closing:
            raise Denied(
                f"conversation {conversation_id} is being closed; send the message after a resume, or in a new one"
            )
