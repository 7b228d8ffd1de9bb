"""Records an agent's updates as events. Streamed text is shown at once as hints, and buffered before it is stored.

Text is stored when another update comes, when there is enough of it, or after a delay; so the log is hardly longer than
the text, and a crash of ours loses at most a few seconds of it.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from holdfast.agents.acp.bounded_json import bounded_json
from holdfast.core.conversation.tool_output import text_of_block
from holdfast.core.events import Event
from holdfast.core.events.budget import UsageRecorded
from holdfast.core.events.conversation import (
    AgentMisbehaved,
    AgentPlanned,
    CommandsListed,
    MessageRecorded,
    ModeChanged,
    ToolCalled,
    ToolDetailed,
    ToolReturned,
)
from holdfast.core.redaction.redaction import SHAPES_ONLY_REDACTOR
from holdfast.core.text.cut import cut

MAX_CLOSING_CHARS = 2_000  # enough to see that it is longer than a message about a limit
MAX_BUFFER_CHARS = 8_192  # of text before it is stored
FLUSH_DELAY_S = 5.0  # how long text is buffered

_SPEAKERS = {"agent_message_chunk": "agent", "agent_thought_chunk": "thought", "user_message_chunk": "user"}
_FINAL_STATUSES = frozenset({"completed", "failed"})
COMMANDS_UPDATE = "available_commands_update"
_IGNORED_UPDATES = frozenset({"session_info_update", "config_option_update"})
_KNOWN_UPDATES = _IGNORED_UPDATES | {"tool_call", "tool_call_update", "plan", "current_mode_update", "usage_update"}
_KNOWN_UPDATES |= {COMMANDS_UPDATE}
_MAX_COMMANDS = 300  # of an agent
_MAX_COMMAND_CHARS = 100  # of a name
_MAX_ABOUT_CHARS = 300  # of a description
_MAX_PLANS_AT_ONCE = 50  # of a turn; later ones wait for the next flush, and only the newest is stored
_MAX_REMEMBERED_CALLS = 1_000  # finished calls, to recognize late updates
_MAX_PLAUSIBLE_AMOUNT = 10**15  # of tokens or dollars
_MAX_REPORTED_ODDITIES = 20  # of one kind; the rest is only counted

StoreEvents = Callable[..., Awaitable[None]]
ShowHint = Callable[[str, str], None]
Clock = Callable[[], float]


class EventRecorder:
    """Records what one agent does in one conversation."""

    def __init__(
        self,
        conversation_id: str,
        store: StoreEvents,
        hint: ShowHint,
        clock: Clock = time.monotonic,
        flush_delay_s: float = FLUSH_DELAY_S,
        task_id: str | None = None,
    ) -> None:
        """`store` makes events durable; `hint` shows text as it arrives."""
        self._conversation_id = conversation_id
        self._task_id = task_id
        self._store = store
        self._hint = hint
        self._clock = clock
        self._flush_delay_s = flush_delay_s
        self.redactor = SHAPES_ONLY_REDACTOR  # finds where a message can be split without splitting a secret
        self._timer: asyncio.TimerHandle | None = None
        self._late_flush: asyncio.Future[None] | None = None
        self._speaker: str | None = None
        self._message_id: str | None = None  # the agent's id of the buffered message
        self._text: list[str] = []
        self._length = 0
        self._since = 0.0
        self._calls: dict[str, dict[str, Any]] = {}
        self._inputs: dict[str, object] = {}  # the inputs of calls, as last recorded
        self._finished_calls: dict[str, None] = {}
        self._plan: bytes | None = None
        self._plans = 0  # of this turn
        self._later_plan: AgentPlanned | None = None  # the newest, when an agent changes its plan all the time
        self._commands: Mapping[str, str] = {}
        self._dollars = 0.0
        self._has_prior_cost = False
        self._has_reported_cost = False  # it reported a cost, also zero
        self._tokens = 0
        self._oddities: dict[str, int] = {}
        self.turn_id: str | None = None
        self.is_silent = True  # no message and no tool call in this turn
        self.closing_text = ""  # the beginning of what the agent said since its last tool call in this turn
        self.last_message_id: str | None = None  # of the agent's message that ends this turn so far, if it gives ids
        self.terminal_output: Callable[[str], str | None] = lambda _: None  # takes a terminal's id
        self.estimate: Callable[[int, int], float | None] = lambda *_: None  # the cost of tokens by a table of prices
        self.on_text_taken: Callable[[str, str], None] = lambda *_: None  # the speaker, and text about to be stored

    def set_prior_cost(self, dollars: float) -> None:
        """Set what the session had reported as spent before this agent process reopened it."""
        self._dollars, self._has_prior_cost, self._has_reported_cost = dollars, True, dollars > 0

    def set_known_commands(self, commands: Mapping[str, str]) -> None:
        """Set what is in the log already: a restarted agent lists the same commands again."""
        self._commands = commands

    def begin_turn(self, turn_id: str) -> None:
        self.turn_id, self.is_silent, self.closing_text, self.last_message_id = turn_id, True, "", None
        self._plans = 0

    async def update(self, update: dict[str, Any]) -> None:
        if self._late_flush is not None and self._late_flush.done():
            self._late_flush.result()  # raise what a late flush could not store
        kind = str(update.get("sessionUpdate"))
        if kind in _SPEAKERS:
            await self._add_text(
                _SPEAKERS[kind], text_of_block(update.get("content")), _optional_text(update.get("messageId"))
            )
            return
        if kind not in _KNOWN_UPDATES:
            await self.record_oddity("an unknown update", str(update)[:200])
            return
        events = self._translate(kind, update)
        if events:
            await self.flush(*events, ended=kind != COMMANDS_UPDATE)  # which may come in the middle of a sentence

    async def record_allowed_call(self, call: dict[str, Any]) -> None:
        """Record a call that was allowed, before it runs. Some agents report it only when it is finished."""
        call_id = str(call.get("toolCallId"))
        if call_id not in self._finished_calls:
            await self.flush(*self._tool_call_events({**call, "status": "in_progress"}))

    @property
    def buffered_text(self) -> tuple[str, str] | None:
        """The speaker and the text of the open message that is not stored yet."""
        return (self._speaker, "".join(self._text)) if self._speaker is not None and self._text else None

    def look_up_call(self, call_id: str) -> dict[str, Any]:
        """Return everything that the agent sent about an unfinished call."""
        return self._calls.get(call_id, {})

    async def flush(self, *after: Event, ended: bool = True) -> None:
        """Store the buffered text and these events together. `ended` when the message is complete."""
        events = [*self._take_gathered(ended=ended), *self._take_later_plan(), *after]
        if events:
            await self._store(*events)

    async def record_oddity(self, kind: str, detail: str) -> None:
        """Record an invalid message. The first few of a kind are recorded, later ones only counted."""
        count = self._oddities[kind] = self._oddities.get(kind, 0) + 1
        if count <= _MAX_REPORTED_ODDITIES:
            await self.flush(AgentMisbehaved(conversation=self._conversation_id, what=kind, detail=detail))

    def final_events(self) -> list[Event]:
        """Return the events that remain when the agent is dead: buffered text, unfinished calls, counted oddities."""
        events: list[Event] = [*self._take_gathered(ended=True), *self._take_later_plan()]
        events += [
            ToolReturned(conversation=self._conversation_id, call=call, status="interrupted") for call in self._calls
        ]
        events += [
            AgentMisbehaved(conversation=self._conversation_id, what=what, times=count - _MAX_REPORTED_ODDITIES)
            for what, count in self._oddities.items()
            if count > _MAX_REPORTED_ODDITIES
        ]
        self._calls.clear()
        self._inputs.clear()
        self._oddities.clear()
        return events

    async def _add_text(self, speaker: str, text: str, message_id: str | None) -> None:
        if speaker == "user":
            return  # our own prompt, repeated
        if speaker != self._speaker or message_id != self._message_id:
            await self.flush()
            self._speaker, self._message_id = speaker, message_id
            self.closing_text = ""
        if speaker == "agent":
            self.last_message_id = message_id
            self.is_silent = self.is_silent and not text.strip()
            if len(self.closing_text) < MAX_CLOSING_CHARS:
                self.closing_text += text[:MAX_CLOSING_CHARS]
        self._start_timer()
        self._text.append(text)
        self._length += len(text)
        self._hint(speaker, text)
        if self._length >= MAX_BUFFER_CHARS or self._clock() - self._since >= self._flush_delay_s:
            await self.flush(ended=False)

    def _start_timer(self) -> None:
        if self._timer is None:
            self._since = self._clock()
            self._timer = asyncio.get_running_loop().call_later(self._flush_delay_s, self._flush_late)

    def _flush_late(self) -> None:
        """Store text that has waited long enough, although the message may continue."""
        self._timer = None
        self._late_flush = asyncio.ensure_future(self.flush(ended=False))
        self._late_flush.add_done_callback(
            lambda late: late.cancelled() or late.exception()
        )  # the next update raises it

    def _take_gathered(self, *, ended: bool) -> list[Event]:
        speaker, message, text = self._speaker, self._message_id, "".join(self._text)
        kept = len(text) if ended else self.redactor.safe_length(text)
        text, rest = text[:kept], text[kept:]
        self._text[:] = [rest] if rest else []
        self._length = len(rest)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if ended:
            self._speaker = self._message_id = None
        if speaker is None or not text:
            return []
        self.on_text_taken(speaker, text)
        return [
            MessageRecorded(
                conversation=self._conversation_id,
                speaker=speaker,
                text=text,
                turn=self.turn_id,
                more=not ended,
                message_id=message,
            )
        ]

    def _translate(self, kind: str, update: dict[str, Any]) -> list[Event]:
        match kind:
            case "tool_call":
                return self._tool_call_events(update)
            case "tool_call_update":
                return self._tool_update_events(update)
            case "plan":
                return self._plan_events(update.get("entries"))
            case "current_mode_update":
                return [ModeChanged(conversation=self._conversation_id, mode=str(update.get("currentModeId")))]
            case "usage_update":
                return self._usage_events(update)
            case "available_commands_update":
                return self._command_events(update.get("availableCommands"))
            case _:
                return []

    def _tool_call_events(self, update: dict[str, Any]) -> list[Event]:
        self.closing_text, self.last_message_id = "", None
        call = str(update.get("toolCallId"))
        known = self._calls.get(call)
        if known is not None:
            return self._tool_update_events(update)
        self.is_silent = False
        self._calls[call] = update
        self._inputs[call] = update.get("rawInput")
        self._finished_calls.pop(call, None)
        called = ToolCalled(
            conversation=self._conversation_id,
            call=call,
            tool=_title(update),
            turn=self.turn_id,
            input=bounded_json(update.get("rawInput")),
            kind=_optional_text(update.get("kind")),
            locations=bounded_json(update.get("locations")),
        )
        return [called, *self._tool_result_events(call, update)]

    def _tool_update_events(self, update: dict[str, Any]) -> list[Event]:
        """Merge updates of a call; only its input and its result are recorded."""
        call = str(update.get("toolCallId"))
        if call in self._finished_calls:
            return []  # its result is recorded
        if call not in self._calls:
            return self._tool_call_events(update)
        merged = self._calls[call]
        merged.update({name: value for name, value in update.items() if value is not None})
        return [*self._tool_detail_events(call, merged), *self._tool_result_events(call, merged)]

    def _tool_detail_events(self, call_id: str, update: dict[str, Any]) -> list[Event]:
        """Record the input of a call that was announced without it; at most twice, if the input grows bit by bit."""
        recorded_input, raw_input = self._inputs.get(call_id), update.get("rawInput")
        if raw_input == recorded_input or (recorded_input and update.get("status") not in _FINAL_STATUSES):
            return []
        self._inputs[call_id] = raw_input
        return [
            ToolDetailed(
                conversation=self._conversation_id,
                call=call_id,
                tool=_title(update),
                turn=self.turn_id,
                input=bounded_json(raw_input),
                kind=_optional_text(update.get("kind")),
                locations=bounded_json(update.get("locations")),
            )
        ]

    def _tool_result_events(self, call_id: str, update: dict[str, Any]) -> list[Event]:
        status = str(update.get("status"))
        if status not in _FINAL_STATUSES:
            return []
        self._calls.pop(call_id, None)
        self._inputs.pop(call_id, None)
        self._finished_calls[call_id] = None
        if len(self._finished_calls) > _MAX_REMEMBERED_CALLS:
            del self._finished_calls[next(iter(self._finished_calls))]
        return [
            ToolReturned(
                conversation=self._conversation_id,
                call=call_id,
                status=status,
                output=bounded_json(update.get("rawOutput")),
                content=bounded_json(self._with_terminal_output(update.get("content"))),
            )
        ]

    def _with_terminal_output(self, content: object) -> object:
        """Add a terminal's output beside its id, which means nothing after the session."""
        if not isinstance(content, list):
            return content
        return [self._terminal_content(part) if isinstance(part, dict) else part for part in content]

    def _terminal_content(self, part: dict[str, Any]) -> dict[str, Any]:
        output = self.terminal_output(str(part.get("terminalId"))) if part.get("type") == "terminal" else None
        return part if output is None else {**part, "output": output}

    def _plan_events(self, entries: object) -> list[Event]:
        encoded = msgspec.json.encode(entries)
        if encoded == self._plan:
            return []
        self._plan = encoded
        self._plans += 1
        planned = AgentPlanned(conversation=self._conversation_id, entries=bounded_json(entries))
        if self._plans <= _MAX_PLANS_AT_ONCE:
            return [planned]
        self._later_plan = planned
        self._start_timer()
        return []

    def _take_later_plan(self) -> list[Event]:
        planned, self._later_plan = self._later_plan, None
        return [planned] if planned is not None else []

    def _command_events(self, listed: object) -> list[Event]:
        """Record the agent's own commands when they change."""
        offered = [command for command in listed if isinstance(command, dict)] if isinstance(listed, list) else []
        pairs = (_command(command) for command in offered[:_MAX_COMMANDS])
        commands = {name: about for name, about in pairs if name}
        if commands == self._commands:
            return []
        self._commands = commands
        return [CommandsListed(conversation=self._conversation_id, commands=commands)]

    def _usage_events(self, update: dict[str, Any]) -> list[Event]:
        """Record what was spent since the last update. The agent reports total dollars, and tokens in its context.

        A reopened session continues its total, or starts again from zero. The agent read at least the tokens in its
        context in this turn: so a token cap need not wait for the turn's own figures.
        """
        dollars, tokens = _dollars(update.get("cost")), update.get("used")
        if dollars is not None and self._has_prior_cost:
            self._has_prior_cost = False
            self._dollars = self._dollars if dollars >= self._dollars else 0.0
        read = tokens if type(tokens) is int and tokens < _MAX_PLAUSIBLE_AMOUNT and self.turn_id is not None else 0
        new_dollars, new_tokens = max(0.0, (dollars or 0.0) - self._dollars), max(0, read - self._tokens)
        self._dollars, self._tokens = self._dollars + new_dollars, self._tokens + new_tokens
        has_cost = dollars is not None
        if not new_dollars and not new_tokens and (self._has_reported_cost or not has_cost):
            return []
        self._has_reported_cost = self._has_reported_cost or has_cost
        return [self._usage_event(dollars=new_dollars, input_tokens=new_tokens, has_cost=has_cost)]

    def uncounted_usage(self, input_tokens: int, output_tokens: int) -> list[Event]:
        """Record the tokens of a finished turn, without those that were recorded during the turn."""
        rest, self._tokens = max(0, input_tokens - self._tokens), 0
        if not rest and not output_tokens:
            return []
        return [self._usage_event(input_tokens=rest, output_tokens=output_tokens)]

    def _usage_event(
        self, *, dollars: float = 0.0, input_tokens: int = 0, output_tokens: int = 0, has_cost: bool = False
    ) -> UsageRecorded:
        has_tokens = bool(input_tokens or output_tokens)
        return UsageRecorded(
            dollars=dollars,
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            conversation=self._conversation_id,
            task=self._task_id,
            priced=has_cost,
            estimate=self.estimate(input_tokens, output_tokens) if has_tokens and not self._has_reported_cost else None,
        )


def _dollars(cost: object) -> float | None:
    amount = cost.get("amount") if isinstance(cost, dict) and cost.get("currency") == "USD" else None
    return float(amount) if isinstance(amount, int | float) and abs(amount) < _MAX_PLAUSIBLE_AMOUNT else None


def _command(command: dict[str, Any]) -> tuple[str, str]:
    """Return the name of a command, without the slash that some agents write, and what it does and takes."""
    words = str(command.get("name") or "").removeprefix("/").split()
    name = words[0] if len(words) == 1 and words[0].isprintable() and len(words[0]) <= _MAX_COMMAND_CHARS else ""
    details = command.get("input")
    hint = details.get("hint") if isinstance(details, dict) else None
    about = " ".join(str(command.get("description") or "").split())
    return name, cut(f"{about} ({hint})" if hint else about, _MAX_ABOUT_CHARS)


def _title(call: dict[str, Any]) -> str:
    return str(call.get("title") or call.get("kind") or "tool")


def _optional_text(value: object) -> str | None:
    return str(value) if value is not None else None
