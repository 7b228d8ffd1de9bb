"""Records how the turns of conversations ended: finished, or interrupted by the death of an earlier session."""

from typing import NamedTuple

from holdfast.agents.acp.driver import PromptResult
from holdfast.core.conversation.states import CANCELLED, ConversationState
from holdfast.core.decide.attribution import conversation_agent_name
from holdfast.core.decide.interrupted import interruption_events
from holdfast.core.decide.transitions import conversation_change, task_follows
from holdfast.core.events.agent import AgentDied
from holdfast.core.events.conversation import TurnEnded, TurnWasEmpty
from holdfast.engine.agents.context import ConversationContext, LiveAgent
from holdfast.engine.agents.permissions import PermissionBroker
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
        await live.agent.recorder.flush(*left, *spent, turn_ended, *([empty] if outcome.silent else []), *waiting)
        live.agent.recorder.turn_id = None

    async def record_earlier_interruptions(self) -> None:
        """Record the turns and calls that were in progress when an earlier session died as interrupted."""
        states = dict(self._run.state.conversations)
        if any(state.turn is not None for state in states.values()):
            await self.sync_files()
        for name, state in states.items():
            turn = state.turn
            heard_prompt = turn is not None and await was_heard(self._context.log, name, turn.turn)
            rebooted = state.boot_id not in (None, boot_id())
            events = interruption_events(name, state, was_heard=heard_prompt, rebooted=rebooted)
            if events:
                await self._run.append(*events, *task_follows(self._run.state, state.task, ConversationState.WAITING))

    async def sync_files(self) -> None:
        """Sync what agents wrote before a turn counts as finished or interrupted: no later step does.

        Their files are in the run's folder; their commits are in the repository, which may be on another disk.
        """
        info = self._run.state.run
        await sync_existing_folders(
            self._context.folder, *([info.repo] if info is not None and info.repo is not None else [])
        )

    def death_event(self, conversation_id: str, reason: str) -> AgentDied:
        return AgentDied(name=conversation_agent_name(self._run.state.conversations[conversation_id]), reason=reason)
