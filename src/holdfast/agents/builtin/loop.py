"""A turn: ask the model, save its answer, run its calls, save each result, ask again.

Nothing is shown as done before it is saved. So a kill at any point leaves a session that can be loaded, in which each
finished step is there, and a call that was running is marked as interrupted and never run again by itself.
"""

import asyncio
import secrets as randomness
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
)
from pydantic_ai.models import StreamedResponse

from holdfast.agents.builtin.conversation import Conversation, interrupted, record, rendered, result, user
from holdfast.agents.builtin.file_access import Refused
from holdfast.agents.builtin.mcp_tools import McpTools
from holdfast.agents.builtin.models import Model, ModelTrouble
from holdfast.agents.builtin.screen import Screen, Shown, Spent
from holdfast.agents.builtin.secrets import Secrets
from holdfast.agents.builtin.session_file import SessionFile
from holdfast.agents.builtin.tools import Outcome, Prepared, Toolbox, capped, offers
from holdfast.leaf.text.encodable import encodable

Stop = Literal["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"]
Mode = Literal["ask", "code"]

_KEPT = (8, 2)  # messages that stay, at the first compaction and at the next
_FULL = 0.85  # of the context window: compact before the provider refuses
_SMALLEST_SUMMARY = 2_000  # characters
_SUMMARISE = (
    "Summarise this conversation between a user and a coding agent, for the agent to go on from. Keep: what the user "
    "asked for, decisions and their reasons, which files were read and changed and how, commands and their outcomes, "
    "what is done and what is left. Leave out pleasantries. Answer with the summary only."
)


@dataclass(frozen=True, slots=True)
class Limits:
    max_steps: int = 100
    max_wait: float = 60.0  # seconds: a longer limit ends the turn
    retries: int = 4
    backoff: float = 1.0  # seconds before the first repetition; doubled each time


@dataclass(frozen=True, slots=True)
class Ended:
    stop: Stop
    spent: Spent


@dataclass(slots=True)
class Session:
    """One conversation and all that belongs to it."""

    id: str
    folder: str
    file: SessionFile
    instructions: str
    toolbox: Toolbox
    mcp: McpTools
    conversation: Conversation = field(default_factory=Conversation)
    mode: Mode = "ask"
    secrets: Secrets = field(default_factory=Secrets)
    allowed: set[str] = field(default_factory=set)
    title: str | None = None
    cost: float | None = None
    last_input: int = 0
    call_ids: dict[str, int] = field(default_factory=dict)

    def save(self, *records: dict[str, Any]) -> None:
        """On the disk first, then in memory; without any key that the model or the user has put into words."""
        clean = [self.secrets.redacted(encodable(each)) for each in records]
        self.file.append(*clean)
        for each in clean:
            self.conversation.take(each)

    def recall(self, records: list[dict[str, Any]]) -> None:
        """Know what the file holds, and nothing else."""
        self.conversation = Conversation.of(records)
        self.mode, self.title = "ask", None
        self.allowed = set()
        for each in records:
            match each:
                case {"type": "session" | "mode", "mode": "ask" | "code" as mode}:
                    self.mode = mode
                case {"type": "allowed", "tool": str(tool)}:
                    self.allowed.add(tool)
                case {"type": "title", "title": str(title)}:
                    self.title = title

    def settle(self, reason: str | None = None) -> None:
        """Give every call without a result one that says so."""
        for call, started in self.conversation.unanswered():
            closing = result(call, reason, "interrupted") if reason else interrupted(call, started=started)
            self.save(record(closing))

    def screen_id(self, call: str) -> str:
        """The call's id on the screen, which is never used twice."""
        self.call_ids[call] = self.call_ids.get(call, 0) + 1
        times = self.call_ids[call]
        return call if times == 1 else f"{call}-{times}"


class Loop:
    def __init__(self, session: Session, model: Model, screen: Screen, limits: Limits, secrets: Secrets) -> None:
        self._session = session
        self._model = model
        self._screen = screen
        self._limits = limits
        self._secrets = secrets

    async def turn(self, request: ModelRequest) -> Ended:
        """Returns also when it is cancelled. Raises ModelTrouble when the model cannot go on; all is saved by then.

        However it ends, no call is left without a result, unless the disk fails: then the next turn sees to it.
        """
        session, spent = self._session, Spent()
        session.settle()
        begun = len(session.conversation.messages)
        session.save(record(request))
        try:
            return Ended(await self._steps(spent, begun), spent)
        except asyncio.CancelledError:
            session.settle("[cancelled by the user; it may or may not have had its effect]")
            return Ended("cancelled", spent)
        except Exception:
            with suppress(Exception):  # the disk may be what failed first
                session.settle()
            raise

    async def _steps(self, spent: Spent, begun: int) -> Stop:
        for _ in range(self._limits.max_steps):
            response = await self._answer(spent)
            if response.finish_reason == "content_filter":
                self._session.save({"type": "withdrawn", "from": begun})
                return "refusal"
            if not response.tool_calls:
                return "max_tokens" if response.finish_reason == "length" else "end_turn"
            for call in response.tool_calls:
                await self._call(call)
        return "max_turn_requests"

    # --- the model ----------------------------------------------------------------------------------

    async def _answer(self, spent: Spent) -> ModelResponse:
        attempt = compacted = 0
        kept = _KEPT[0] if self._nearly_full() else None
        while True:
            try:
                if kept is not None:
                    await self._compact(kept, spent)
                    kept = None
                return await self._once(spent)
            except ModelTrouble as trouble:
                if trouble.why == "context" and compacted < len(_KEPT):
                    kept = _KEPT[compacted]
                    compacted += 1
                    continue
                wait = self._wait(trouble, attempt)
                if wait is None:
                    raise
                attempt += 1
                await self._note(f"{trouble}. Asking again in {wait:.1f} s.")
                await asyncio.sleep(wait)

    def _nearly_full(self) -> bool:
        conversation = self._session.conversation
        full = self._session.last_input > _FULL * self._model.context_window
        return full and conversation.cut(_KEPT[0]) > conversation.hidden_until()

    def _wait(self, trouble: ModelTrouble, attempt: int) -> float | None:
        """Seconds until the same call may be made again; None when that is no use, or too far away."""
        if attempt >= self._limits.retries or trouble.why not in ("rate_limit", "passing"):
            return None
        wait = self._limits.backoff * 2**attempt
        if trouble.resets is not None:
            wait = max(trouble.resets - time.time(), 0) + min(self._limits.backoff, 1.0) * 0.1
        return wait if wait <= self._limits.max_wait else None

    async def _once(self, spent: Spent) -> ModelResponse:
        message = randomness.token_hex(6)
        asked = _instructed(self._session.conversation.visible(), self._session.instructions)
        async with self._model.answer(asked, [*offers(), *self._session.mcp.offers]) as stream:
            try:
                async for event in stream:
                    await self._show(event, message)
            except asyncio.CancelledError:
                self._keep_partial(stream)
                raise
            response = stream.get()
        if response.parts:
            self._session.save(record(response))
        await self._count(response, spent)
        return response

    async def _show(self, event: object, message: str) -> None:
        match event:
            case (
                PartStartEvent(part=TextPart(content=piece)) | PartDeltaEvent(delta=TextPartDelta(content_delta=piece))
            ):
                if piece:
                    await self._screen.text(self._secrets.redact(piece), message)
            case (
                PartStartEvent(part=ThinkingPart(content=thought))
                | PartDeltaEvent(delta=ThinkingPartDelta(content_delta=thought))
            ):
                if thought:
                    await self._screen.thought(self._secrets.redact(thought), message)

    def _keep_partial(self, stream: StreamedResponse) -> None:
        """Words that were shown belong to the conversation; half a call does not."""
        words = [part for part in stream.get().parts if isinstance(part, TextPart) and part.content]
        if words:
            self._session.save(record(ModelResponse(parts=words, model_name=stream.model_name, state="interrupted")))

    async def _count(self, response: ModelResponse, spent: Spent) -> None:
        used = response.usage
        spent.requests += 1
        spent.input += used.input_tokens
        spent.output += used.output_tokens
        spent.thought += used.output_reasoning_tokens
        spent.cached_read += used.cache_read_tokens
        spent.cached_write += used.cache_write_tokens
        cost = self._model.cost(response)
        if cost is not None:
            spent.cost = (spent.cost or 0.0) + cost
            self._session.cost = (self._session.cost or 0.0) + cost
        self._session.last_input = used.input_tokens
        total = Spent(cost=self._session.cost)
        await self._screen.usage(used.input_tokens + used.output_tokens, self._model.context_window, total)

    async def _note(self, text: str) -> None:
        await self._screen.thought(self._secrets.redact(f"[{text}]\n"), randomness.token_hex(6))

    # --- a conversation that has become too long ----------------------------------------------------

    async def _compact(self, kept: int, spent: Spent) -> None:
        conversation = self._session.conversation
        first, at = conversation.hidden_until(), conversation.cut(kept)
        if at <= first:
            raise ModelTrouble(
                "rejected", f"the conversation is too long for {self._model.name}, and cannot be shortened"
            )
        older = conversation.messages[first:at]
        earlier = f"An earlier summary:\n{conversation.last_summary}\n\n" if conversation.last_summary else ""
        summary = await self._shortened(earlier, older, spent)
        if at == len(conversation.messages):  # then the question itself went into the summary: keep its words
            summary += f"\n\nThe user's last message, in full:\n{conversation.last_user_text()}"
        self._session.save({"type": "compacted", "before": at, "summary": self._secrets.redact(summary)})
        self._session.last_input = 0
        await self._note(f"The conversation was too long: {len(older)} older messages were replaced by a summary.")

    async def _shortened(self, earlier: str, older: list[ModelMessage], spent: Spent) -> str:
        """A summary of as much as the model can read."""
        budget = min(self._model.context_window * 2, 400_000)
        while True:
            text = rendered(older, budget)
            try:
                return await self._summary(f"{earlier}{text}", spent)
            except ModelTrouble as trouble:
                budget = min(budget, len(text)) // 2
                if trouble.why != "context" or budget < _SMALLEST_SUMMARY:
                    raise

    async def _summary(self, text: str, spent: Spent) -> str:
        asked = _instructed([user(f"{_SUMMARISE}\n\n<conversation>\n{text}\n</conversation>")], _SUMMARISE)
        async with self._model.answer(asked, []) as stream:
            async for _ in stream:
                pass
            response = stream.get()
        spent.requests += 1
        spent.input += response.usage.input_tokens
        spent.output += response.usage.output_tokens
        if not response.text:
            raise ModelTrouble("rejected", f"{self._model.name} gave no summary of the conversation")
        return response.text

    # --- tools --------------------------------------------------------------------------------------

    async def _call(self, call: ToolCallPart) -> None:
        on_screen = self._session.screen_id(call.tool_call_id)
        try:
            prepared = self._prepared(call)
        except Refused as refusal:
            await self._screen.call(Shown(on_screen, call.tool_name, "other", call.args), "pending")
            await self._finish(call, on_screen, Outcome(str(refusal), failed=True))
            return
        shown = Shown(
            on_screen, prepared.title, prepared.kind, _arguments(call), prepared.path, prepared.line, prepared.diff
        )
        await self._screen.call(shown, "pending")
        if prepared.asks and not await self._permitted(call, shown):
            await self._finish(call, on_screen, Outcome("the user did not allow this call", failed=True), "denied")
            return
        self._session.save({"type": "started", "call": call.tool_call_id})
        await self._screen.progress(on_screen, "in_progress")
        await self._finish(call, on_screen, await self._performed(prepared))

    def _prepared(self, call: ToolCallPart) -> Prepared:
        arguments = _arguments(call)
        if not isinstance(arguments, dict):
            raise Refused(f"the arguments of {call.tool_name} are not a JSON object")
        if self._session.mcp.knows(call.tool_name):
            return self._session.mcp.prepare(call.tool_name, arguments)
        return self._session.toolbox.prepare(call.tool_name, arguments, call.tool_call_id)

    async def _permitted(self, call: ToolCallPart, shown: Shown) -> bool:
        if self._session.mode == "code" or call.tool_name in self._session.allowed:
            return True
        verdict = await self._screen.ask(shown)
        if verdict == "cancelled":
            raise asyncio.CancelledError
        if verdict == "always":
            self._session.save({"type": "allowed", "tool": call.tool_name})
            self._session.allowed.add(call.tool_name)
        return verdict != "no"

    async def _performed(self, prepared: Prepared) -> Outcome:
        try:
            return await prepared.perform()
        except Refused as refusal:
            return Outcome(str(refusal), failed=True)
        except Exception as error:  # noqa: BLE001 - a supervisor: the failure is recorded as the call's result
            return Outcome(f"the tool failed: {error!r}", failed=True)

    async def _finish(self, call: ToolCallPart, on_screen: str, outcome: Outcome, kind: str | None = None) -> None:
        text = self._secrets.redact(capped(outcome.text))
        self._session.save(record(result(call, text, kind or ("failed" if outcome.failed else "success"))))
        await self._screen.progress(on_screen, "failed" if outcome.failed else "completed", text)
        if outcome.plan is not None:
            await self._screen.plan(outcome.plan)


def _arguments(call: ToolCallPart) -> object:
    try:
        return call.args_as_dict(raise_if_invalid=True)
    except (ValueError, AssertionError):
        return call.args


def _instructed(messages: list[ModelMessage], instructions: str) -> list[ModelMessage]:
    last = messages[-1]
    assert isinstance(last, ModelRequest), "the model is asked, so somebody spoke last"
    return [*messages[:-1], replace(last, instructions=instructions)]
