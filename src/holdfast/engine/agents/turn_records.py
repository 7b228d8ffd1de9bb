"""Records how the turns of conversations ended: finished, or interrupted by the death of an earlier session."""

from typing import NamedTuple

from msgspec import structs

from holdfast.agents.acp.driver import PromptResult
from holdfast.agents.limits.problem import ProviderProblem
from holdfast.agents.registry import find_agent
from holdfast.core.conversation.states import CANCELLED, FINISHED_TURN_REASONS, ConversationState
from holdfast.core.decide.attribution import conversation_agent_name
from holdfast.core.decide.interrupted import CauseOfDeath, interruption_events
from holdfast.core.decide.transitions import conversation_change, task_follows
from holdfast.core.events import Event
from holdfast.core.events.agent import AgentDied
from holdfast.core.events.conversation import TurnEnded, TurnInterrupted, TurnWasEmpty
from holdfast.core.state import Conversation
from holdfast.engine.agents.context import ConversationContext, LiveAgent
from holdfast.engine.agents.limits import LimitedTurn, limit_event
from holdfast.engine.agents.permissions import PermissionBroker
from holdfast.engine.agents.prompt import AgentPaused
from holdfast.engine.agents.transcript import was_heard
from holdfast.leaf.files.sync import sync_existing_folders
from holdfast.leaf.process.identity import boot_id
from holdfast.store.run import OwnedRun


class TurnOutcome(NamedTuple):
    """How a turn ended. `silent` when the agent neither said nor did anything; `cancelled_by` is a user's name."""

    result: PromptResult
    silent: bool = False
    cancelled_by: str | None = None


class TurnRecords:
    """Writes the ends of turns to the log of a run, for its owner."""

    def __init__(self, run: OwnedRun, context: ConversationContext, permissions: PermissionBroker) -> None:
        self._run = run
        self._context = context
        self._permissions = permissions

    async def record_end(self, conversation_id: str, live: LiveAgent, turn_id: str, outcome: "TurnOutcome") -> None:
        result = outcome.result
        turn = self._run.state.conversations[conversation_id].turn
        began = (turn.started if turn is not None else None) or ""
        await self._permissions.withdraw(conversation_id, "the turn ended without an answer")
        spent = live.agent.recorder.uncounted_usage(result.input_tokens, result.output_tokens)
        turn_ended = TurnEnded(
            conversation=conversation_id,
            turn=turn_id,
            stop_reason=result.reason,
            message_id=live.agent.recorder.last_message_id,
            by=outcome.cancelled_by if result.reason == CANCELLED else None,
        )
        empty = TurnWasEmpty(
            conversation=conversation_id,
            turn=turn_id,
            streak=self._run.state.conversations[conversation_id].empty + 1,
            stop_reason=result.reason,
            input_tokens=result.input_tokens,
            output_tokens=result.output_tokens,
        )
        waiting = conversation_change(self._run.state, conversation_id, ConversationState.WAITING)
        left = live.agent.recorder.final_events()
        limit = await self._limit_events(conversation_id, turn_id, result)
        await live.agent.recorder.flush(
            *left, *spent, turn_ended, *([empty] if outcome.silent else []), *limit, *waiting
        )
        live.agent.recorder.turn_id = None
        if not limit and result.reason in FINISHED_TURN_REASONS:
            await self._end_shared_limit(conversation_id, began)

    async def apply_shared_limit(self, conversation_id: str) -> None:
        """Raise `AgentPaused`, and send no prompt, if another run has met the limit of the account."""
        agent = self._run.state.conversations[conversation_id].agent or ""
        hit = await self._context.limits.shared.find(find_agent(agent, self._context.agents), agent)
        if hit is not None:
            await self._run.append(structs.replace(hit, conversation=conversation_id))
            raise AgentPaused(f"{agent}: its usage limit is reached; learnt from {hit.how}")

    async def _end_shared_limit(self, conversation_id: str, began: str) -> None:
        agent = self._run.state.conversations[conversation_id].agent or ""
        await self._context.limits.shared.clear(find_agent(agent, self._context.agents), agent, began)

    async def _limit_events(self, conversation_id: str, turn_id: str | None, result: PromptResult) -> list[Event]:
        return (
            []
            if result.problem is None
            else [await self.limit_event(conversation_id, turn_id, result.detail or "", result.problem)]
        )

    async def limit_event(
        self, conversation_id: str, turn_id: str | None, detail: str, problem: ProviderProblem
    ) -> Event:
        agent = self._run.state.conversations[conversation_id].agent or ""
        entry = find_agent(agent, self._context.agents)
        limited = LimitedTurn(agent, entry, conversation_id, turn_id, detail)
        return await limit_event(self._run.state, self._context.limits, limited, problem)

    async def record_earlier_interruptions(self) -> None:
        """Record the turns and calls that were in progress when an earlier session died as interrupted."""
        states = dict(self._run.state.conversations)
        if any(state.turn is not None for state in states.values()):
            await self.sync_files()
        for name, state in states.items():
            turn = state.turn
            heard_prompt = turn is not None and await was_heard(self._context.log, name, turn.turn)
            cause = self._cause_of_death(state)
            events = interruption_events(name, state, was_heard=heard_prompt, cause=cause)
            if events:
                await self._run.append(*events, *task_follows(self._run.state, state.task, ConversationState.WAITING))

    def _cause_of_death(self, state: Conversation) -> CauseOfDeath:
        """A boot id tells of a reboot only on the machine where it was read."""
        if self._run.state.has_moved:
            return CauseOfDeath.MOVED
        return CauseOfDeath.SESSION if state.boot_id in (None, boot_id()) else CauseOfDeath.REBOOT

    async def sync_files(self) -> None:
        """Sync what agents wrote before a turn counts as finished or interrupted: no later step does.

        Their files are in the run's folder; their commits are in the repository, which may be on another disk.
        """
        info = self._run.state.run
        await sync_existing_folders(
            self._context.folder, *([info.repo] if info is not None and info.repo is not None else [])
        )

    def end_without_agent(
        self, conversation_id: str, turn_id: str, reason: str, *, cancelled_by: str | None
    ) -> tuple[Event, list[Event]]:
        """Return the end of a turn whose agent is dead, and what changes with it."""
        if cancelled_by is not None:
            end: Event = TurnEnded(conversation=conversation_id, turn=turn_id, stop_reason=CANCELLED, by=cancelled_by)
        else:
            end = TurnInterrupted(conversation=conversation_id, turn=turn_id, reason=reason)
        how = "the turn was interrupted" if cancelled_by is None else "the turn was cancelled"
        return end, [*conversation_change(self._run.state, conversation_id, ConversationState.WAITING, how)]

    def death_event(self, conversation_id: str, reason: str) -> AgentDied:
        return AgentDied(name=conversation_agent_name(self._run.state.conversations[conversation_id]), reason=reason)
