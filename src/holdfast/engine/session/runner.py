"""The run loop: decide what to do, start it, and decide again whenever something finishes or arrives.

The loop keeps nothing that the log does not have, except the steps in progress. It can be killed at any point; the next
session starts by asking `decide` the same question.
"""

import asyncio
from collections import Counter
from contextlib import suppress

from msgspec import structs

from holdfast.core.decide.actions import Action, ActionKey, ActionKind, RuntimeFacts
from holdfast.core.decide.attribution import EVALUATOR, WORKER, agent_name
from holdfast.core.decide.phases import decide
from holdfast.core.decide.tasks import is_over_budget
from holdfast.core.end_reason import EndReason
from holdfast.core.events import Draft
from holdfast.core.events.issue import ErrorEncountered
from holdfast.core.task_state import TaskStage
from holdfast.engine.agents.conversations import AgentUnavailable, Conversations
from holdfast.engine.agents.prompt import AgentPaused
from holdfast.engine.config.run_config import RunConfig
from holdfast.engine.inbox.handle import InboxHandler
from holdfast.engine.session.task_steps import TaskSteps
from holdfast.leaf.errors import BadInput, HoldfastError, StorageFailed
from holdfast.store.base import Inbox
from holdfast.store.run import OwnedRun

_MAX_ATTEMPTS = 3  # in a row, of a step that fails for reasons outside its task
_CLOCK_CHECK_S = 30.0  # while an agent is paused: the clock may be set, and the machine suspended
_CLOCK_GRAIN_S = 1.0  # more than passes between a decision and the wait that follows it
_RETRY_DELAY_S = 0.5  # before the second attempt; doubled before each later one


class AlreadyInProgress(HoldfastError):
    """A step was chosen again while it runs. Two agents in one worktree would undo each other's work."""

    def __init__(self, key: ActionKey) -> None:
        super().__init__(f"{key} is already in progress, and was chosen again; resume the run, and report this")
        self.key = key


class Runner:
    """Runs one run for one session."""

    def __init__(
        self, run: OwnedRun, inbox: Inbox, steps: TaskSteps, conversations: Conversations, config: RunConfig
    ) -> None:
        self._run = run
        self._inbox = inbox
        self._steps = steps
        self._conversations = conversations
        self._config = config
        self._in_progress: dict[ActionKey, asyncio.Task[None]] = {}
        self._interrupting: dict[str, asyncio.Task[None]] = {}  # turns that are being ended, by conversation
        self._failures: Counter[ActionKey] = Counter()
        self._errors: dict[ActionKey, Draft] = {}  # the last error of each step that failed and did not succeed since
        self._stuck: dict[ActionKey, str] = {}
        self._stop_reason: str | None = None
        self._quiet_since: float | None = None  # when the last step ended, while none is in progress
        self._awake = asyncio.Event()

    def wake(self) -> None:
        """Decide again: something happened that may change the next step."""
        self._awake.set()

    def stop(self, reason: str) -> None:
        """End the session as soon as that is cleanly possible. After a signal, a person's stop is the reason."""
        if self._stop_reason is None or (self._stop_reason, reason) == (EndReason.INTERRUPTED, EndReason.STOPPED):
            self._stop_reason = reason
        self.wake()

    @property
    def stuck(self) -> dict[ActionKey, str]:
        """Return what could not be done in this session, and why."""
        return self._stuck

    async def run(self, receiver: InboxHandler) -> str:
        """Run until nothing is left to do or a stop is requested. Returns the reason."""
        self._started_at = asyncio.get_running_loop().time()
        listening = asyncio.create_task(self._follow_inbox(receiver))
        listening.add_done_callback(lambda _: self.wake())
        try:
            await receiver.receive()
            await self._steps.close_superseded()
            while True:
                if listening.done():
                    listening.result()  # a runner that no longer reads its inbox must end
                reason = await self._decide_and_start(receiver)
                if reason is not None:
                    return reason
                await self._wait_for_wake()
        finally:
            listening.cancel()
            await self._cancel_steps()
            with suppress(asyncio.CancelledError):
                await listening

    async def _decide_and_start(self, receiver: InboxHandler) -> str | None:
        """Decide once and start what was chosen. Returns the reason to stop, if any."""
        self._awake.clear()
        await self._collect_finished()
        if self._stop_reason is not None:
            return self._stop_reason
        actions = self._decide()
        if [action.reason for action in actions] == [EndReason.IDLE]:
            await receiver.receive()  # a last check: a message sent later is read by the next session
            actions = self._decide()
        for action in actions:
            if action.kind is ActionKind.STOP:
                return action.reason
            self._start(action)
        self._interrupt_expensive_turns()
        return None

    def _interrupt_expensive_turns(self) -> None:
        """End the turns of tasks that have spent what one task may spend; then the task fails."""
        state = self._run.state
        if self._config.workflow.chat:
            return
        for key in self._in_progress:
            task = state.tasks.get(key.name) if key.kind == "task" else None
            if task is None or not is_over_budget(task, self._config.bounds):
                continue
            for name in (task.worker, task.evaluator):
                conversation = state.conversations.get(name or "")
                if name is not None and conversation is not None and conversation.turn is not None:
                    self._interrupt(name)

    def _interrupt(self, conversation_id: str) -> None:
        if conversation_id not in self._interrupting:
            cancelling = asyncio.create_task(self._conversations.cancel(conversation_id))
            self._interrupting[conversation_id] = cancelling
            cancelling.add_done_callback(lambda _: self._interrupting.pop(conversation_id, None))

    def _decide(self) -> list[Action]:
        actions = decide(self._run.state, self._config.workflow, self._config.bounds, self._facts())
        if self._in_progress or any(action.kind is not ActionKind.STOP for action in actions):
            self._quiet_since = None
        elif self._quiet_since is None:
            self._quiet_since = asyncio.get_running_loop().time()
        return actions

    def _facts(self) -> RuntimeFacts:
        now = asyncio.get_running_loop().time()
        idle = now - self._quiet_since if self._quiet_since is not None else 0.0
        elapsed, paused = now - self._started_at, self._conversations.pauses.now()
        busy, stuck = frozenset(self._in_progress), frozenset(self._stuck)
        return RuntimeFacts(busy, stuck, elapsed, idle, paused, self._config.choice)

    def _start(self, action: Action) -> None:
        """Start a step in the background. `decide` never returns a key that is already in progress."""
        if action.key in self._in_progress:
            raise AlreadyInProgress(action.key)
        step = asyncio.create_task(self._run_step(action), name=f"{action.kind} {action.key}")
        self._in_progress[action.key] = step
        step.add_done_callback(lambda _: self.wake())

    async def _run_step(self, action: Action) -> None:
        failures = self._failures[action.key]
        if failures:
            await asyncio.sleep(_RETRY_DELAY_S * 2 ** (failures - 1))
        await self._steps.run(action)

    async def _collect_finished(self) -> None:
        """Remove finished steps.

        A step that failed is retried up to `_MAX_ATTEMPTS`; storage and input errors end the session.
        """
        for key, step in list(self._in_progress.items()):
            if not step.done():
                continue
            del self._in_progress[key]
            error = None if step.cancelled() else step.exception()
            if isinstance(error, AgentPaused):
                continue  # the log says until when
            if error is None:
                await self._record_success(key)
            elif isinstance(error, StorageFailed | BadInput) or not isinstance(error, HoldfastError):
                raise error
            else:
                await self._record_failure(key, error)

    async def _record_failure(self, key: ActionKey, error: HoldfastError) -> None:
        self._failures[key] += 1
        encountered = ErrorEncountered(error=f"{key}: {error}", attempts=self._failures[key], retried=True)
        self._errors[key] = Draft(encountered, agent=self._agent_of(key))
        await self._run.append(self._errors[key])
        is_permanent = isinstance(error, AgentUnavailable) and error.is_permanent
        if is_permanent or self._failures[key] >= _MAX_ATTEMPTS:
            self._stuck[key] = str(error)

    async def _record_success(self, key: ActionKey) -> None:
        """Record that a step which failed before has succeeded."""
        encountered = self._errors.pop(key, None)
        self._failures.pop(key, None)
        if encountered is not None:
            resolved = structs.replace(encountered.event, resolved=True)
            await self._run.append(structs.replace(encountered, event=resolved))

    def _agent_of(self, key: ActionKey) -> str | None:
        """Return the agent of a failed step."""
        if key.kind != "task" or key.name not in self._run.state.tasks:
            return agent_name(key.role, key.name) if key.role is not None else None
        judging = self._run.state.tasks[key.name].stage is TaskStage.EVALUATE
        return agent_name(EVALUATOR if judging else WORKER, key.name)

    async def _wait_for_wake(self) -> None:
        """Wait for an event or the timeout."""
        bounds, now = self._config.bounds, asyncio.get_running_loop().time()
        ends = [self._started_at + bounds.wall_clock] if bounds.wall_clock is not None else []
        if self._quiet_since is not None and now < self._quiet_since + bounds.idle + _CLOCK_GRAIN_S:
            ends.append(self._quiet_since + bounds.idle)  # later, it was decided to wait for something else
        ends += [now + min(pause.left_s, _CLOCK_CHECK_S) for pause in self._conversations.pauses.now().values()]
        left = max(0.0, min(ends) - now) if ends else None
        with suppress(TimeoutError):
            await asyncio.wait_for(self._awake.wait(), left)

    async def _follow_inbox(self, receiver: InboxHandler) -> None:
        async for _ in self._inbox.changes():
            await receiver.receive()
            self.wake()

    async def _cancel_steps(self) -> None:
        """Cancel the steps in progress: turns are cancelled, so that agents can finish cleanly."""
        try:
            await asyncio.gather(*(self._conversations.cancel(name) for name in list(self._run.state.conversations)))
        finally:  # also when this is cancelled
            for step in self._in_progress.values():
                step.cancel()
            await asyncio.gather(*self._in_progress.values(), return_exceptions=True)
            self._in_progress.clear()
