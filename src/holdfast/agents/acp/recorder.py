"""What an agent tells, as events. Streamed text is gathered before it is stored, and shown at once as hints.

Text is written when something else comes, when there is enough of it, or when it has waited long enough; so the log is
hardly longer than what was said, and a crash of ours loses a few seconds of talk at the most.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from holdfast.core.conversation.tool_output import text_of_block
from holdfast.core.events import Event
from holdfast.core.events.base import NOTHING
from holdfast.core.events.budget import UsageRecorded
from holdfast.core.events.conversation import (
    AgentMisbehaved,
    AgentPlanned,
    MessageRecorded,
    ModeChanged,
    ToolCalled,
    ToolDetailed,
    ToolReturned,
)
from holdfast.core.redaction.redaction import SHAPES

ENOUGH = 8_192  # characters of text that are written together
PATIENCE = 5.0  # seconds that text waits for more

_SPEAKERS = {"agent_message_chunk": "agent", "agent_thought_chunk": "thought", "user_message_chunk": "user"}
_OVER = frozenset({"completed", "failed"})
_QUIET = frozenset({"available_commands_update", "session_info_update", "config_option_update"})
_KNOWN = _QUIET | {"tool_call", "tool_call_update", "plan", "current_mode_update", "usage_update"}
_REMEMBERED = 1_000  # calls that are over, by which a late word of one is known
_ABSURD = 10**15  # tokens or dollars that nobody has spent
_NAMED_ODD = 20  # different oddities of one kind that are told of one by one

Store = Callable[..., Awaitable[None]]
Hint = Callable[[str, str], None]
Clock = Callable[[], float]


class Scribe:
    """Writes down what one agent does in one conversation."""

    def __init__(
        self,
        conversation: str,
        store: Store,
        hint: Hint,
        clock: Clock = time.monotonic,
        patience: float = PATIENCE,
        task: str | None = None,
    ) -> None:
        """`store` makes events durable; `hint` shows text as it comes. `task` is what the agent works on."""
        self._conversation = conversation
        self._task = task
        self._store = store
        self._hint = hint
        self._clock = clock
        self._patience = patience
        self.redactor = SHAPES  # where an unfinished message may be cut; `store` removes secrets from each part alone
        self._timer: asyncio.TimerHandle | None = None
        self._late: asyncio.Future[None] | None = None
        self._speaker: str | None = None
        self._message: str | None = None  # the agent's id of the one that is being gathered
        self._text: list[str] = []
        self._length = 0
        self._since = 0.0
        self._calls: dict[str, dict[str, Any]] = {}
        self._inputs: dict[str, object] = {}  # of calls, as they were last written
        self._over: dict[str, None] = {}
        self._plan: bytes | None = None
        self._dollars = 0.0
        self._carried = False
        self._priced = False  # it told a cost, be it zero
        self._tokens = 0
        self._odd: dict[str, int] = {}
        self.turn: str | None = None
        self.silent = True  # nothing came in this turn that is a word or a deed
        self.last_message: str | None = None  # the agent's own id of its last one, of an agent that gives ids
        self.terminal_output: Callable[[str], str | None] = lambda _: None  # of a terminal of ours, by its id

    def carry_on(self, dollars: float) -> None:
        """The session had spent so much by its own account, before this agent came for it."""
        self._dollars, self._carried, self._priced = dollars, True, dollars > 0

    def begin(self, turn: str) -> None:
        self.turn, self.silent = turn, True

    async def update(self, update: dict[str, Any]) -> None:
        if self._late is not None and self._late.done():
            self._late.result()  # what could not be written is told to whoever listens
        kind = str(update.get("sessionUpdate"))
        if kind in _SPEAKERS:
            await self._say(_SPEAKERS[kind], text_of_block(update.get("content")), _word(update.get("messageId")))
            return
        if kind not in _KNOWN:
            await self.odd("an unknown update", str(update)[:200])
            return
        events = self._translated(kind, update)
        if events:
            await self.flush(*events)

    async def begun(self, call: dict[str, Any]) -> None:
        """A call that was allowed, and is about to run. Some agents tell of it only when it is over."""
        name = str(call.get("toolCallId"))
        if name not in self._over:
            await self.flush(*self._called({**call, "status": "in_progress"}))

    def told(self, call: str) -> dict[str, Any]:
        """All that the agent told of a call that is not over."""
        return self._calls.get(call, {})

    async def flush(self, *after: Event, ended: bool = True) -> None:
        """Write what was gathered, and then these events, together. `ended` when the message is over with that."""
        events = [*self._gathered(ended=ended), *after]
        if events:
            await self._store(*events)

    async def odd(self, what: str, detail: str) -> None:
        """Something that is no message. The first few of a kind are told of, then only their number."""
        count = self._odd[what] = self._odd.get(what, 0) + 1
        if count <= _NAMED_ODD:
            await self.flush(AgentMisbehaved(conversation=self._conversation, what=what, detail=detail))

    def cut_off(self) -> list[Event]:
        """What is left when the agent is dead: its last words, calls that never came back, and oddities uncounted."""
        events: list[Event] = self._gathered(ended=True)
        events += [
            ToolReturned(conversation=self._conversation, call=call, status="interrupted") for call in self._calls
        ]
        events += [
            AgentMisbehaved(conversation=self._conversation, what=what, times=count - _NAMED_ODD)
            for what, count in self._odd.items()
            if count > _NAMED_ODD
        ]
        self._calls.clear()
        self._inputs.clear()
        self._odd.clear()
        return events

    async def _say(self, speaker: str, text: str, message: str | None) -> None:
        if speaker == "user":
            return  # our own words, said back to us
        if speaker != self._speaker or message != self._message:
            await self.flush()
            self._speaker, self._message = speaker, message
        if speaker == "agent":
            self.last_message = message or self.last_message
            self.silent = self.silent and not text.strip()
        if self._timer is None:
            self._since = self._clock()
            self._timer = asyncio.get_running_loop().call_later(self._patience, self._write_late)
        self._text.append(text)
        self._length += len(text)
        self._hint(speaker, text)
        if self._length >= ENOUGH or self._clock() - self._since >= self._patience:
            await self.flush(ended=False)

    def _write_late(self) -> None:
        """Nothing came after the last word for a while: it is written, though the message may go on."""
        self._timer = None
        self._late = asyncio.ensure_future(self.flush(ended=False))
        self._late.add_done_callback(lambda late: late.cancelled() or late.exception())  # told by the next update

    def _gathered(self, *, ended: bool) -> list[Event]:
        speaker, message, text = self._speaker, self._message, "".join(self._text)
        kept = len(text) if ended else self.redactor.cut(text)
        text, rest = text[:kept], text[kept:]
        self._text[:] = [rest] if rest else []
        self._length = len(rest)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if ended:
            self._speaker = self._message = None
        if speaker is None or not text:
            return []
        return [
            MessageRecorded(
                conversation=self._conversation,
                speaker=speaker,
                text=text,
                turn=self.turn,
                more=not ended,
                message_id=message,
            )
        ]

    def _translated(self, kind: str, update: dict[str, Any]) -> list[Event]:
        match kind:
            case "tool_call":
                return self._called(update)
            case "tool_call_update":
                return self._changed(update)
            case "plan":
                return self._planned(update.get("entries"))
            case "current_mode_update":
                return [ModeChanged(conversation=self._conversation, mode=str(update.get("currentModeId")))]
            case "usage_update":
                return self._used(update)
            case _:
                return []

    def _called(self, update: dict[str, Any]) -> list[Event]:
        call = str(update.get("toolCallId"))
        known = self._calls.get(call)
        if known is not None:
            return self._changed(update)
        self.silent = False
        self._calls[call] = update
        self._inputs[call] = update.get("rawInput")
        self._over.pop(call, None)
        called = ToolCalled(
            conversation=self._conversation,
            call=call,
            tool=_title(update),
            turn=self.turn,
            input=_raw(update.get("rawInput")),
            kind=_word(update.get("kind")),
            locations=_raw(update.get("locations")),
        )
        return [called, *self._returned(call, update)]

    def _changed(self, update: dict[str, Any]) -> list[Event]:
        """Only how a call ends is written; what it shows on the way is gathered."""
        call = str(update.get("toolCallId"))
        if call in self._over:
            return []  # it has returned, and that is written
        if call not in self._calls:
            return self._called(update)
        merged = self._calls[call]
        merged.update({name: value for name, value in update.items() if value is not None})
        return [*self._detailed(call, merged), *self._returned(call, merged)]

    def _detailed(self, call: str, update: dict[str, Any]) -> list[Event]:
        """The input of a call that was announced without it. One that grows bit by bit is written twice at the most."""
        written, told = self._inputs.get(call), update.get("rawInput")
        if told == written or (written and update.get("status") not in _OVER):
            return []
        self._inputs[call] = told
        return [
            ToolDetailed(
                conversation=self._conversation,
                call=call,
                tool=_title(update),
                turn=self.turn,
                input=_raw(told),
                kind=_word(update.get("kind")),
                locations=_raw(update.get("locations")),
            )
        ]

    def _returned(self, call: str, update: dict[str, Any]) -> list[Event]:
        status = str(update.get("status"))
        if status not in _OVER:
            return []
        self._calls.pop(call, None)
        self._inputs.pop(call, None)
        self._over[call] = None
        if len(self._over) > _REMEMBERED:
            del self._over[next(iter(self._over))]
        return [
            ToolReturned(
                conversation=self._conversation,
                call=call,
                status=status,
                output=_raw(update.get("rawOutput")),
                content=_raw(self._with_output(update.get("content"))),
            )
        ]

    def _with_output(self, content: object) -> object:
        """A terminal is shown by its id, which says nothing later: what it put out is written beside it."""
        if not isinstance(content, list):
            return content
        return [self._terminal_shown(part) if isinstance(part, dict) else part for part in content]

    def _terminal_shown(self, part: dict[str, Any]) -> dict[str, Any]:
        output = self.terminal_output(str(part.get("terminalId"))) if part.get("type") == "terminal" else None
        return part if output is None else {**part, "output": output}

    def _planned(self, entries: object) -> list[Event]:
        encoded = msgspec.json.encode(entries)
        if encoded == self._plan:
            return []
        self._plan = encoded
        return [AgentPlanned(conversation=self._conversation, entries=msgspec.Raw(encoded))]

    def _used(self, update: dict[str, Any]) -> list[Event]:
        """What was spent, by the agent's account: of dollars it tells the sum, of tokens how many it has in mind.

        An agent that came back goes on with its sum, or begins it anew. As for tokens, it read those in this turn, at
        the least: so a cap on them need not wait for the turn's own figures.
        """
        dollars, tokens = _dollars(update.get("cost")), update.get("used")
        if dollars is not None and self._carried:
            self._carried = False
            self._dollars = self._dollars if dollars >= self._dollars else 0.0
        read = tokens if type(tokens) is int and tokens < _ABSURD and self.turn is not None else 0
        since = (max(0.0, (dollars or 0.0) - self._dollars), max(0, read - self._tokens))
        self._dollars, self._tokens = self._dollars + since[0], self._tokens + since[1]
        priced = dollars is not None
        if not any(since) and (self._priced or not priced):
            return []
        self._priced = self._priced or priced
        return [self._spent(dollars=since[0], input_tokens=since[1], priced=priced)]

    def uncounted(self, input_tokens: int, output_tokens: int) -> list[Event]:
        """The tokens of a turn that is over, but for those that were counted while it went on."""
        rest, self._tokens = max(0, input_tokens - self._tokens), 0
        if not rest and not output_tokens:
            return []
        return [self._spent(input_tokens=rest, output_tokens=output_tokens)]

    def _spent(
        self, *, dollars: float = 0.0, input_tokens: int = 0, output_tokens: int = 0, priced: bool = False
    ) -> UsageRecorded:
        return UsageRecorded(
            dollars=dollars,
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            conversation=self._conversation,
            task=self._task,
            priced=priced,
        )


def _dollars(cost: object) -> float | None:
    amount = cost.get("amount") if isinstance(cost, dict) and cost.get("currency") == "USD" else None
    return float(amount) if isinstance(amount, int | float) and abs(amount) < _ABSURD else None


def _title(call: dict[str, Any]) -> str:
    return str(call.get("title") or call.get("kind") or "tool")


def _raw(value: object) -> msgspec.Raw:
    return NOTHING if value is None else msgspec.Raw(msgspec.json.encode(value))


def _word(value: object) -> str | None:
    return str(value) if value is not None else None
