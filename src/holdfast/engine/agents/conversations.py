"""Conversations of a run: opened, spoken to, and brought back from the dead, one way for all of it.

Every prompt is an effect: `turn.started` is durable before it is sent, and the turn's end, or that it was cut off, is
written after. An agent is started when somebody speaks to it, and not before; how is the ladder's.
"""

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple, Self

from acp.schema import TextContentBlock
from msgspec import structs

from holdfast.agents.acp.driver import AgentDied, AgentRefused, AgentSilent, Ended
from holdfast.agents.process.tree import seen_through
from holdfast.agents.registry import find_agent
from holdfast.core.conversation.interruption import NOTHING_SINCE, Since
from holdfast.core.conversation.states import (
    ASKED_AGAIN,
    NO_TOOLS,
    OVER,
    REFUSED,
    SPOKE,
    AfterInterruption,
    Phase,
    Seen,
    must_go,
    needs_resume,
)
from holdfast.core.decide.actions import How
from holdfast.core.decide.attribution import agent_in
from holdfast.core.events import Event
from holdfast.core.events.agent import AgentCompleted
from holdfast.core.events.agent import AgentDied as AgentGone
from holdfast.core.events.conversation import (
    ConversationDetached,
    ConversationOpened,
    ConversationStateChanged,
    MessageRecorded,
    ToolReturned,
    TurnEnded,
    TurnInterrupted,
    TurnStarted,
    TurnWasEmpty,
)
from holdfast.core.events.inbox import InboxHandled
from holdfast.core.messages.addressing import messages_only_for
from holdfast.core.redaction.redaction import with_notice
from holdfast.core.state import Conversation
from holdfast.core.summary.needs import words_of
from holdfast.engine.agents.credentials import auth_advice
from holdfast.engine.agents.permissions import Desk
from holdfast.engine.agents.recovery import AgentUnavailable, Failed, Ground, Hint, Ladder, Live, hang_up
from holdfast.engine.agents.transcript import history_of, interrupted_turn, was_heard
from holdfast.leaf.errors import BadInput, Denied, HoldfastError, StorageFailed
from holdfast.leaf.failpoints import around
from holdfast.leaf.files.sync import have_on_disk
from holdfast.leaf.ids import new_sid
from holdfast.leaf.process.identity import ProcessIdentity, boot_id
from holdfast.leaf.process.load import slowness
from holdfast.store.run import OwnedRun
from holdfast.workflows.continuation_prompt import continue_turn, repeat_request

__all__ = ["AgentUnavailable", "Conversations", "Ground", "PromptRefused", "Turn"]

_CRASH = around("prompt")
_HEARD = {True: "the agent had begun to answer", False: "the agent had answered nothing"}
_WITHOUT_TOOLS = "the agent had to report and did not have Holdfast's tools: its MCP server holdfast was not up"


class PromptRefused(HoldfastError):
    """An agent answered its prompt with an error, as when its provider has no room: no word on the work itself."""


class Turn(NamedTuple):
    """How a turn went. `reason` is the protocol's, or `interrupted`, `refused` or `no_tools` with what was said."""

    turn: str
    reason: str
    detail: str | None = None

    def must_be_answered(self) -> None:
        if self.reason in ASKED_AGAIN:
            raise PromptRefused(self.detail or "the agent answered its prompt with an error")


class _Told(NamedTuple):
    """What a prompt delivers, as the log has it."""

    messages: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()


class Conversations:
    """Those of one run, in the hands of its owner. A context: no agent outlives it.

    Whoever opened the run has fenced it: of an earlier sitting nothing is alive.
    """

    def __init__(self, run: OwnedRun, ground: Ground, desk: Desk, hint: Hint | None = None) -> None:
        """`hint` gets text as it is streamed: the conversation, who speaks, and the piece."""
        self._run = run
        self._ground = ground
        self._desk = desk
        self._ladder = Ladder(run, ground, desk, hint or (lambda *_: None))
        self._live: dict[str, Live] = {}
        self._starting: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._speaking: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._turns: dict[str, asyncio.Event] = {}  # set when the turn is over
        self._cancelled: set[str] = set()
        self._closing: set[str] = set()

    async def __aenter__(self) -> Self:
        await self._bury_turns()
        return self

    async def __aexit__(self, *_: object) -> None:
        names = list(self._run.state.conversations)
        silenced = (self._silence(name, "the run's sitting ended") for name in names)
        for error in await asyncio.gather(*silenced, return_exceptions=True):
            if isinstance(error, BaseException):  # once all are seen to
                raise error

    # What there is

    def state(self, name: str) -> Conversation:
        found = self._run.state.conversations.get(name)
        if found is None:
            raise BadInput(f"there is no conversation {name!r}")
        return found

    def need(self, name: str) -> tuple[bool, str]:
        """Whether it must be resumed before it can be spoken to, and why (not)."""
        state = self.state(name)
        alive = _identity(state)
        seen = Seen(
            running=name in self._live and not self._live[name].agent.tree.dead,
            recently=alive is not None and alive.is_alive(),
            started=state.started,
        )
        return needs_resume(state.state, state.token, seen)

    # What can be done

    async def open(
        self, agent: str, *, role: str | None = None, task: str | None = None, about: str | None = None
    ) -> str:
        find_agent(agent, self._ground.agents)  # before anything is written
        name = new_sid()
        await self._run.append(ConversationOpened(conversation=name, agent=agent, role=role, task=task, about=about))
        return name

    async def seat(
        self, known: str | None, agent: str, *, role: str, task: str | None = None, about: str | None = None
    ) -> str:
        """The conversation that there is; a new one, when it is over or another agent is to lead it now.

        One that another agent takes over ends. Killed in between, the next session ends it.
        """
        talk = self._run.state.conversations.get(known or "")
        if known is None or talk is None or talk.state in OVER:
            return await self.open(agent, role=role, task=task, about=about)
        if talk.agent == agent:
            return known
        name = await self.open(agent, role=role, task=task, about=about)
        await self.close(known, Phase.CANCELLED, f"{agent} took over from {talk.agent or 'another agent'}")
        return name

    def fitting(self, name: str, how: How | None) -> How:
        """What was chosen to be told; all of it, to one that does not know yet what it is there for."""
        return how if how is not None and self.state(name).briefed else How.BEGIN

    def unheard(self, name: str) -> list[str]:
        """What it was told in turns that did not come to their end."""
        return [words_of(message.body) for message in self.state(name).unheard.values()]

    async def say(
        self, name: str, text: str, cwd: str, *, messages: Sequence[str] = (), notices: Sequence[str] = ()
    ) -> Turn:
        """One turn, after those before it. A dead agent is brought back first; one that died unheard is asked again.

        The text has all these messages of the inbox and notices; they are named here for the log.
        """
        said = MessageRecorded(conversation=name, speaker="user", text=text)
        return await self._say(name, said, cwd, _Told(tuple(messages), tuple(notices)))

    async def continue_turn(
        self, name: str, cwd: str, policy: AfterInterruption, since: Since = NOTHING_SINCE
    ) -> Turn | None:
        """Continue an interrupted turn, with all that arrived since; None when none was, or a person is to say how.

        What earlier prompts for this turn delivered is said again: the agent may not have heard it.
        """
        turn = await interrupted_turn(self._ground.log, name)
        if turn is None or (policy is AfterInterruption.ASK and not since.messages):
            return None
        unheard = self.state(name).unheard.items()
        again = [words_of(message.body) for key, message in unheard if key in turn.later_messages]
        notices = [text for key, text in since.notices.items() if key not in turn.notices]
        restate = repeat_request if policy is AfterInterruption.RETRY else continue_turn
        text = restate(turn, [*again, *since.messages.values()], notices)
        # Not the user's words: if this turn is interrupted too, the request is still the user's.
        said = MessageRecorded(conversation=name, speaker="system", text=text)
        return await self._say(name, said, cwd, _Told(tuple(since.messages), tuple(since.notices)))

    async def cancel(self, name: str) -> None:
        """End the turn that is under way. An agent that does not stop when it is asked to is ended with it.

        A turn whose agent is still being started ends before its prompt is sent.
        """
        if self._speaking[name].locked():
            self._cancelled.add(name)
        live, over = self._live.get(name), self._turns.get(name)
        if live is None or over is None:
            return
        with suppress(*Failed):  # its turn ends by that as well
            await live.agent.cancel(live.session)
        await self._desk.withdraw(name, "the turn was cancelled")
        try:
            await asyncio.wait_for(over.wait(), self._ground.deadlines.cancel * slowness())
        except TimeoutError:
            await self._detach(name, "the agent did not stop when its turn was cancelled")

    async def close(self, name: str, phase: Phase, reason: str | None = None) -> None:
        """The conversation is over."""
        must_go(name, self.state(name).state, phase)
        await self._silence(name, reason or "the conversation is over")
        must_go(name, self.state(name).state, phase)
        over = ConversationStateChanged(conversation=name, state=phase, reason=reason)
        state = self.state(name)
        await self._run.append(over, *([AgentCompleted(name=agent_in(state), result=phase)] if state.started else []))

    async def rest(self, name: str | None, reason: str) -> None:
        """Send the agent away; whoever speaks to it next brings it back."""
        if name is not None:
            async with self._speaking[name], self._starting[name]:
                await self._detach(name, reason)

    async def ready(self, name: str, cwd: str) -> Live:
        """An agent that listens: the one that is there, or one brought back by the ladder. One at a time."""
        async with self._starting[name]:
            self._must_be_open(name)
            live = self._live.get(name)
            if live is not None and not live.agent.tree.dead:
                return live
            if live is not None:
                await self._detach(name, f"the agent was found dead: {await live.agent.tree.death()}", died=True)
            live = self._live[name] = await self._ladder.climb(name, cwd)
            return live

    # Turns

    async def _say(self, name: str, said: MessageRecorded, cwd: str, told: _Told) -> Turn:
        said = structs.replace(said, text=with_notice(said.text))
        async with self._speaking[name]:
            self._cancelled.discard(name)
            own = messages_only_for(self._run.state.messages, name)
            words = [words_of(self._run.state.messages[key].body) for key in own]
            said = structs.replace(said, text="\n\n".join([said.text, *words]))
            told = told._replace(messages=(*told.messages, *own))
            await self._ground.turn_begins(name)
            turn = await self._turn(name, said, cwd, told)
            if turn.reason == "unheard" and name not in self._closing | self._cancelled:
                turn = await self._turn(name, said, cwd, told._replace(messages=()))
            await self._ground.turn_ended(name)
        return turn._replace(reason="interrupted") if turn.reason == "unheard" else turn

    async def _turn(self, name: str, said: MessageRecorded, cwd: str, told: _Told) -> Turn:
        live = await self.ready(name, cwd)
        turn = new_sid()
        prompt = await self._with_history(name, said.text) if self.state(name).blank else said.text
        self._must_be_open(name)
        must_go(name, self.state(name).state, Phase.RUNNING)
        heard = live.agent.frames
        live.agent.scribe.begin(turn)
        reports = self.state(name).reports
        no_tools = self._ladder.lacks_tools(name) and self._ground.must_report(self.state(name))
        over = self._turns[name] = asyncio.Event()
        try:
            await self._run.append(
                TurnStarted(conversation=name, turn=turn, messages=list(told.messages), notices=list(told.notices)),
                structs.replace(said, turn=turn),
                *(InboxHandled(message=message) for message in told.messages),
                ConversationStateChanged(conversation=name, state=Phase.RUNNING),
            )
            if name in self._cancelled:
                ended = Ended("cancelled")
            else:
                ended = await self._prompted(name, live, prompt)
            await self._synced()
            await self._run.must_hear()
        except (AgentDied, AgentSilent) as error:
            begun = live.agent.frames > heard
            await self._cut_off(name, live, turn, f"{error}; {_HEARD[begun]}", died=True)
            unheard = not begun and isinstance(error, AgentDied)
            return Turn(turn, "unheard" if unheard else "interrupted", str(error))
        except StorageFailed:
            await seen_through(self._left_open(name, live))
            raise
        except BaseException:  # nobody waits for it any more: it may not look as if it went on
            reason = f"the sitting let go of it; {_HEARD[live.agent.frames > heard]}"
            await seen_through(self._cut_off(name, live, turn, reason))
            raise
        finally:
            del self._turns[name]
            over.set()
        silent = live.agent.scribe.silent and ended.reason in SPOKE and not await self._has_reported(name, reports)
        if no_tools and ended.reason in SPOKE and not await self._has_reported(name, reports):
            silent, ended = False, ended._replace(reason=NO_TOOLS, detail=_WITHOUT_TOOLS)
        await self._end_turn(name, live, turn, ended, silent=silent)
        if ended.reason == NO_TOOLS and self._ladder.lacks_tools(name):
            await self._detach(name, _WITHOUT_TOOLS)  # another one may get them
        return Turn(turn, ended.reason, ended.detail)

    async def _prompted(self, name: str, live: Live, prompt: str) -> Ended:
        _CRASH.before()
        try:
            ended = await live.agent.prompt(live.session, [TextContentBlock(type="text", text=prompt)])
        except AgentRefused as error:
            advice = auth_advice(self.state(name).agent, self._ground.agents, str(error), code=error.code)
            return Ended(REFUSED, detail=f"{error}{advice}")
        _CRASH.after()
        return ended

    async def _synced(self) -> None:
        """What agents wrote is on the disk before a turn counts as over, or as cut off: nobody will look again.

        Their files are in the run's folder; what they commit is in the repository, which may be on another disk.
        """
        info = self._run.state.run
        await have_on_disk(self._ground.folder, *([info.repo] if info is not None and info.repo is not None else []))

    async def _with_history(self, name: str, text: str) -> str:
        return with_notice((await history_of(self._ground.log, name)).before(text))

    async def _has_reported(self, name: str, before: int) -> bool:
        """Whether a report of it came since. Not every agent tells of its calls of our tools."""
        await self._run.take_in()
        return self.state(name).reports > before

    async def _end_turn(self, name: str, live: Live, turn: str, ended: Ended, *, silent: bool) -> None:
        await self._desk.withdraw(name, "the turn ended without an answer")
        spent = live.agent.scribe.uncounted(ended.input_tokens, ended.output_tokens)
        over = TurnEnded(
            conversation=name, turn=turn, stop_reason=ended.reason, message_id=live.agent.scribe.last_message
        )
        empty = TurnWasEmpty(
            conversation=name,
            turn=turn,
            streak=self.state(name).empty + 1,
            stop_reason=ended.reason,
            input_tokens=ended.input_tokens,
            output_tokens=ended.output_tokens,
        )
        waiting = ConversationStateChanged(conversation=name, state=Phase.WAITING)
        left = live.agent.scribe.cut_off()
        await live.agent.scribe.flush(*left, *spent, over, *([empty] if silent else []), waiting)
        live.agent.scribe.turn = None

    async def _cut_off(self, name: str, live: Live, turn: str, reason: str, *, died: bool = False) -> None:
        """The agent is gone in the middle. Nothing of it may be alive before anything is built on that."""
        attached = self._live.pop(name, None) is not None
        alive = await hang_up(live.stack)
        try:
            await self._synced()
        except StorageFailed:
            await self._left_open(name, live)
            raise
        await self._run.append(
            *live.agent.scribe.cut_off(),
            TurnInterrupted(conversation=name, turn=turn, reason=reason),
            *([ConversationDetached(conversation=name, reason=reason)] if attached else []),
            *([self._death(name, reason)] if died else []),
            ConversationStateChanged(conversation=name, state=Phase.WAITING, reason="the turn was interrupted"),
        )
        if alive is not None:
            raise alive

    async def _left_open(self, name: str, live: Live) -> None:
        """As our own death leaves it: what was written in the turn may not be on the disk, and no later sync tells.

        So the log does not call it cut off; whoever buries it knows whether the machine went down since.
        """
        self._live.pop(name, None)
        alive = await hang_up(live.stack)
        await self._run.append(*live.agent.scribe.cut_off())
        if alive is not None:
            raise alive

    async def _bury_turns(self) -> None:
        """Turns that were under way when an earlier sitting died: interrupted, and so are their calls."""
        states = dict(self._run.state.conversations)
        if any(state.turn is not None for state in states.values()):
            await self._synced()
        for name, state in states.items():
            events: list[Event] = []
            if state.turn is not None:
                events += [
                    ToolReturned(conversation=name, call=call, status="interrupted") for call in state.turn.calls
                ]
                heard = await was_heard(self._ground.log, name, state.turn.turn)
                reason = _HEARD[heard] if heard else "whether the agent got the prompt is unknown"
                rebooted = state.boot_id not in (None, boot_id())
                died = "the machine went down" if rebooted else "the sitting died"
                events.append(
                    TurnInterrupted(
                        conversation=name, turn=state.turn.turn, reason=f"{died}; {reason}", rebooted=rebooted
                    )
                )
            if state.pid is not None:
                events.append(ConversationDetached(conversation=name, reason="the sitting died"))
                events.append(self._death(name, "the session died, and its agents with it"))
            if state.state in (Phase.RUNNING, Phase.STARTING):
                events.append(
                    ConversationStateChanged(conversation=name, state=Phase.WAITING, reason="the sitting died")
                )
            if events:
                await self._run.append(*events)

    # The end

    def _death(self, name: str, reason: str) -> AgentGone:
        return AgentGone(name=agent_in(self.state(name)), reason=reason)

    async def _detach(self, name: str, reason: str, *, died: bool = False) -> None:
        """Nothing of its agent is alive then; `Denied` while something is, however often this is tried."""
        live = self._live.pop(name, None)
        if live is None:
            await self._ladder.see_dead(name)
            return
        alive = await hang_up(live.stack)
        detached = ConversationDetached(conversation=name, reason=reason)
        death = [self._death(name, reason)] if died else []
        await self._run.append(*live.agent.scribe.cut_off(), detached, *death)
        if alive is not None:
            raise alive

    async def _silence(self, name: str, reason: str) -> None:
        """No agent speaks in it any more, and a turn that this cut off is written down."""
        self._closing.add(name)
        await self._detach(name, reason)
        async with self._speaking[name], self._starting[name]:
            await self._detach(name, reason)

    def _must_be_open(self, name: str) -> None:
        phase = self.state(name).state
        if phase in OVER:
            raise Denied(f"conversation {name} is {phase}; open a new one")
        if name in self._closing:
            raise Denied(f"conversation {name} is being closed; say it when the run is resumed, or in a new one")


def _identity(state: Conversation) -> ProcessIdentity | None:
    if state.pid is None or state.start_time is None or state.boot_id is None:
        return None
    return ProcessIdentity(state.pid, state.start_time, state.boot_id)
