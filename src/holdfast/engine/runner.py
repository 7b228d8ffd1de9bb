"""The loop: ask what to do next, set it going, and ask again whenever something has come of it.

Nothing is remembered here that the log does not have, but for what is under way right now. So the loop can be cut off
anywhere; whoever runs it next begins by asking the same question.
"""

import asyncio
from collections import Counter
from contextlib import suppress

from holdfast.core.deciding import Action, Do, Facts
from holdfast.core.events.issue import WarningLogged
from holdfast.core.phases import decide
from holdfast.engine.conversations import Conversations
from holdfast.engine.receiving import Receiver
from holdfast.engine.steps import Steps
from holdfast.engine.terms import Terms
from holdfast.leaf.errors import BadInput, HoldfastError, StorageFailed
from holdfast.store.base import Inbox
from holdfast.store.run import OwnedRun

_TRIES = 3  # of a step that fails for reasons outside of the task, in a row
_PAUSE = 0.5  # seconds before the second of them; each later one is twice as long


class Runner:
    """Moves one run, for one sitting."""

    def __init__(self, run: OwnedRun, inbox: Inbox, steps: Steps, conversations: Conversations, terms: Terms) -> None:
        self._run = run
        self._inbox = inbox
        self._steps = steps
        self._conversations = conversations
        self._terms = terms
        self._under_way: dict[str, asyncio.Task[None]] = {}
        self._failed: Counter[str] = Counter()
        self._stuck: dict[str, str] = {}
        self._stopping: str | None = None
        self._awake = asyncio.Event()

    def wake(self) -> None:
        """Something happened that may change what is to be done."""
        self._awake.set()

    def stop(self, reason: str) -> None:
        """End the sitting as soon as that can be done cleanly."""
        self._stopping = self._stopping or reason
        self.wake()

    @property
    def stuck(self) -> dict[str, str]:
        """Tasks that could not be moved in this sitting, and why."""
        return self._stuck

    async def run(self, receiver: Receiver) -> str:
        """Until there is nothing more to do, or somebody asks to stop. Returns the reason."""
        self._began = asyncio.get_running_loop().time()
        listening = asyncio.create_task(self._listen(receiver))
        listening.add_done_callback(lambda _: self.wake())
        try:
            await receiver.receive()
            await self._steps.tidy_up()
            while True:
                if listening.done():
                    listening.result()  # deaf is worse than dead
                reason = await self._turn()
                if reason is not None:
                    return reason
                await self._sleep()
        finally:
            listening.cancel()
            await self._let_go()
            with suppress(asyncio.CancelledError):
                await listening

    async def _turn(self) -> str | None:
        """One look at the state; the reason to stop, when there is one."""
        self._awake.clear()
        await self._collect()
        if self._stopping is not None:
            return self._stopping
        for action in decide(self._run.state, self._terms.workflow, self._terms.bounds, self._facts()):
            if action.do is Do.STOP:
                return action.reason
            self._set_going(action)
        return None

    def _facts(self) -> Facts:
        elapsed = asyncio.get_running_loop().time() - self._began
        return Facts(frozenset(self._under_way), frozenset(self._stuck), elapsed)

    def _set_going(self, action: Action) -> None:
        step = asyncio.create_task(self._take(action), name=f"{action.do} {action.key}")
        self._under_way[action.key] = step
        step.add_done_callback(lambda _: self.wake())

    async def _take(self, action: Action) -> None:
        tried = self._failed[action.key]
        if tried:
            await asyncio.sleep(_PAUSE * 2 ** (tried - 1))
        await self._steps.take(action)

    async def _collect(self) -> None:
        """Clear away the steps that have ended. What failed is tried again, a few times; not what cannot work."""
        for key, step in list(self._under_way.items()):
            if not step.done():
                continue
            del self._under_way[key]
            error = None if step.cancelled() else step.exception()
            if error is None:
                self._failed.pop(key, None)
            elif isinstance(error, StorageFailed | BadInput) or not isinstance(error, HoldfastError):
                raise error
            else:
                await self._note(key, error)

    async def _note(self, key: str, error: HoldfastError) -> None:
        self._failed[key] += 1
        await self._run.append(WarningLogged(message=f"{key}: {error}"))
        if self._failed[key] >= _TRIES:
            self._stuck[key] = str(error)

    async def _sleep(self) -> None:
        """Until something happens, or the time is up."""
        cap = self._terms.bounds.wall_clock
        left = None if cap is None else max(0.0, self._began + cap - asyncio.get_running_loop().time())
        with suppress(TimeoutError):
            await asyncio.wait_for(self._awake.wait(), left)

    async def _listen(self, receiver: Receiver) -> None:
        async for _ in self._inbox.changes():
            await receiver.receive()
            self.wake()

    async def _let_go(self) -> None:
        """End what is under way: turns are cancelled, so that their agents may put their own things in order."""
        try:
            await asyncio.gather(*(self._conversations.cancel(name) for name in list(self._run.state.conversations)))
        finally:  # also when nobody has the patience for that
            for step in self._under_way.values():
                step.cancel()
            await asyncio.gather(*self._under_way.values(), return_exceptions=True)
            self._under_way.clear()
