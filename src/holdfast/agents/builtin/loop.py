"""Runs a turn: ask the model, save its answer, run its calls, save each result, ask again.

Nothing is shown as done before it is saved. So a kill at any point leaves a session that can be loaded: each finished
step is there, and a call that was running is marked as interrupted and not run again automatically.
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

from holdfast.agents.builtin.conversation import (
    ModelConversation,
    interrupted_result,
    message_record,
    render_text,
    tool_result,
    user_request,
)
from holdfast.agents.builtin.file_access import ToolRefused
from holdfast.agents.builtin.mcp_tools import McpToolset
from holdfast.agents.builtin.models import ModelClient, ModelError
from holdfast.agents.builtin.screen import DisplayedCall, Screen, TokenUsage
from holdfast.agents.builtin.secrets import Secrets
from holdfast.agents.builtin.session_file import SessionFile
from holdfast.agents.builtin.tools import PreparedCall, Toolbox, ToolOutcome, cap_text, tool_specs
from holdfast.leaf.text.encodable import make_encodable

StopReason = Literal["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"]
Mode = Literal["ask", "code"]

_KEPT_MESSAGES = (8, 2)  # messages that stay, at the first compaction and at later ones
_COMPACT_AT = 0.85  # of the context window: compact before the provider refuses
_MIN_SUMMARY_CHARS = 2_000
_SUMMARY_PROMPT = (
    "Summarise this conversation between a user and a coding agent, for the agent to go on from. Keep: what the user "
    "asked for, decisions and their reasons, which files were read and changed and how, commands and their outcomes, "
    "what is done and what is left. Leave out pleasantries. Answer with the summary only."
)


@dataclass(frozen=True, slots=True)
class Limits:
    max_steps: int = 100
    max_wait_s: float = 60.0  # a longer rate limit ends the turn
    retries: int = 4
    backoff_s: float = 1.0  # before the first retry; doubled each time


@dataclass(frozen=True, slots=True)
class LoopResult:
    stop_reason: StopReason
    usage: TokenUsage


@dataclass(slots=True)
class BuiltinSession:
    """One conversation and its resources."""

    id: str
    folder: str
    file: SessionFile
    instructions: str
    toolbox: Toolbox
    mcp: McpToolset
    conversation: ModelConversation = field(default_factory=ModelConversation)
    mode: Mode = "ask"
    secrets: Secrets = field(default_factory=Secrets)
    allowed_tools: set[str] = field(default_factory=set)
    title: str | None = None
    cost: float | None = None
    last_input_tokens: int = 0
    call_ids: dict[str, int] = field(default_factory=dict)

    def save(self, *records: dict[str, Any]) -> None:
        """Write records to the disk, then to memory. Secrets are removed from what the model or the user wrote."""
        clean = [self.secrets.redact_data(make_encodable(each)) for each in records]
        self.file.append(*clean)
        for each in clean:
            self.conversation.apply(each)

    def load_records(self, records: list[dict[str, Any]]) -> None:
        """Reload the session from the file's records."""
        self.conversation = ModelConversation.from_records(records)
        self.mode, self.title = "ask", None
        self.allowed_tools = set()
        for each in records:
            match each:
                case {"type": "session" | "mode", "mode": "ask" | "code" as mode}:
                    self.mode = mode
                case {"type": "allowed", "tool": str(tool)}:
                    self.allowed_tools.add(tool)
                case {"type": "title", "title": str(title)}:
                    self.title = title

    def settle(self, reason: str | None = None) -> None:
        """Give every call without a result a result that says so."""
        for call, started in self.conversation.unanswered_calls():
            closing = (
                tool_result(call, reason, "interrupted") if reason else interrupted_result(call, was_started=started)
            )
            self.save(message_record(closing))

    def unique_call_id(self, call_id: str) -> str:
        """Return the call's id on the screen, which is never used twice."""
        self.call_ids[call_id] = self.call_ids.get(call_id, 0) + 1
        times = self.call_ids[call_id]
        return call_id if times == 1 else f"{call_id}-{times}"


class TurnLoop:
    def __init__(
        self, session: BuiltinSession, model: ModelClient, screen: Screen, limits: Limits, secrets: Secrets
    ) -> None:
        self._session = session
        self._model = model
        self._screen = screen
        self._limits = limits
        self._secrets = secrets

    async def run_turn(self, request: ModelRequest) -> LoopResult:
        """Run a turn; returns also when it is cancelled.

        Raises `ModelError` when the model cannot continue; everything is saved by then. However it ends, no call is
        left without a result, unless the disk fails: then the next turn adds it.
        """
        session, spent = self._session, TokenUsage()
        session.settle()
        start = len(session.conversation.messages)
        session.save(message_record(request))
        try:
            return LoopResult(await self._run_steps(spent, start), spent)
        except asyncio.CancelledError:
            session.settle("[cancelled by the user; it may or may not have had its effect]")
            return LoopResult("cancelled", spent)
        except Exception:
            with suppress(Exception):  # the disk may have failed first
                session.settle()
            raise

    async def _run_steps(self, usage: TokenUsage, first_message: int) -> StopReason:
        for _ in range(self._limits.max_steps):
            response = await self._ask_model(usage)
            if response.finish_reason == "content_filter":
                self._session.save({"type": "withdrawn", "from": first_message})
                return "refusal"
            if not response.tool_calls:
                return "max_tokens" if response.finish_reason == "length" else "end_turn"
            for call in response.tool_calls:
                await self._run_call(call)
        return "max_turn_requests"

    # --- the model ----------------------------------------------------------------------------------

    async def _ask_model(self, usage: TokenUsage) -> ModelResponse:
        attempt = compacted = 0
        kept = _KEPT_MESSAGES[0] if self._is_nearly_full() else None
        while True:
            try:
                if kept is not None:
                    await self._compact(kept, usage)
                    kept = None
                return await self._ask_once(usage)
            except ModelError as trouble:
                if trouble.kind == "context" and compacted < len(_KEPT_MESSAGES):
                    kept = _KEPT_MESSAGES[compacted]
                    compacted += 1
                    continue
                wait = self._retry_delay(trouble, attempt)
                if wait is None:
                    raise
                attempt += 1
                await self._show_note(f"{trouble}. Asking again in {wait:.1f} s.")
                await asyncio.sleep(wait)

    def _is_nearly_full(self) -> bool:
        conversation = self._session.conversation
        full = self._session.last_input_tokens > _COMPACT_AT * self._model.context_window
        return full and conversation.compaction_point(_KEPT_MESSAGES[0]) > conversation.hidden_until()

    def _retry_delay(self, error: ModelError, attempt: int) -> float | None:
        """Return the seconds until the call may be repeated; None if that would not help or is too far away."""
        if attempt >= self._limits.retries or error.kind not in ("rate_limit", "passing"):
            return None
        wait = self._limits.backoff_s * 2**attempt
        if error.resets_at is not None:
            wait = max(error.resets_at - time.time(), 0) + min(self._limits.backoff_s, 1.0) * 0.1
        return wait if wait <= self._limits.max_wait_s else None

    async def _ask_once(self, usage: TokenUsage) -> ModelResponse:
        message = randomness.token_hex(6)
        messages = _with_instructions(self._session.conversation.visible_messages(), self._session.instructions)
        async with self._model.stream_answer(messages, [*tool_specs(), *self._session.mcp.specs]) as stream:
            try:
                async for event in stream:
                    await self._show_event(event, message)
            except asyncio.CancelledError:
                self._save_partial(stream)
                raise
            response = stream.get()
        if response.parts:
            self._session.save(message_record(response))
        await self._count_usage(response, usage)
        return response

    async def _show_event(self, event: object, message_id: str) -> None:
        match event:
            case (
                PartStartEvent(part=TextPart(content=piece)) | PartDeltaEvent(delta=TextPartDelta(content_delta=piece))
            ):
                if piece:
                    await self._screen.show_text(self._secrets.redact(piece), message_id)
            case (
                PartStartEvent(part=ThinkingPart(content=thought))
                | PartDeltaEvent(delta=ThinkingPartDelta(content_delta=thought))
            ):
                if thought:
                    await self._screen.show_thought(self._secrets.redact(thought), message_id)

    def _save_partial(self, stream: StreamedResponse) -> None:
        """Keep text that was shown; drop half a call."""
        text_parts = [part for part in stream.get().parts if isinstance(part, TextPart) and part.content]
        if text_parts:
            self._session.save(
                message_record(ModelResponse(parts=text_parts, model_name=stream.model_name, state="interrupted"))
            )

    async def _count_usage(self, response: ModelResponse, usage: TokenUsage) -> None:
        used = response.usage
        usage.requests += 1
        usage.input += used.input_tokens
        usage.output += used.output_tokens
        usage.thought += used.output_reasoning_tokens
        usage.cached_read += used.cache_read_tokens
        usage.cached_write += used.cache_write_tokens
        cost = self._model.cost(response)
        if cost is not None:
            usage.cost = (usage.cost or 0.0) + cost
            self._session.cost = (self._session.cost or 0.0) + cost
        self._session.last_input_tokens = used.input_tokens
        total = TokenUsage(cost=self._session.cost)
        await self._screen.show_usage(used.input_tokens + used.output_tokens, self._model.context_window, total)

    async def _show_note(self, text: str) -> None:
        await self._screen.show_thought(self._secrets.redact(f"[{text}]\n"), randomness.token_hex(6))

    # --- a conversation that has become too long ----------------------------------------------------

    async def _compact(self, kept_messages: int, usage: TokenUsage) -> None:
        conversation = self._session.conversation
        first, at = conversation.hidden_until(), conversation.compaction_point(kept_messages)
        if at <= first:
            raise ModelError(
                "rejected", f"the conversation is too long for {self._model.name}, and cannot be shortened"
            )
        older = conversation.messages[first:at]
        earlier = f"An earlier summary:\n{conversation.last_summary}\n\n" if conversation.last_summary else ""
        summary = await self._summarize(earlier, older, usage)
        if at == len(conversation.messages):  # then the summary contains the request: repeat its text
            summary += f"\n\nThe user's last message, in full:\n{conversation.last_user_text()}"
        self._session.save({"type": "compacted", "before": at, "summary": self._secrets.redact(summary)})
        self._session.last_input_tokens = 0
        await self._show_note(f"The conversation was too long: {len(older)} older messages were replaced by a summary.")

    async def _summarize(self, earlier_summary: str, older: list[ModelMessage], usage: TokenUsage) -> str:
        """Return a summary of as much as the model can read."""
        budget = min(self._model.context_window * 2, 400_000)
        while True:
            text = render_text(older, budget)
            try:
                return await self._ask_summary(f"{earlier_summary}{text}", usage)
            except ModelError as trouble:
                budget = min(budget, len(text)) // 2
                if trouble.kind != "context" or budget < _MIN_SUMMARY_CHARS:
                    raise

    async def _ask_summary(self, text: str, usage: TokenUsage) -> str:
        messages = _with_instructions(
            [user_request(f"{_SUMMARY_PROMPT}\n\n<conversation>\n{text}\n</conversation>")], _SUMMARY_PROMPT
        )
        async with self._model.stream_answer(messages, []) as stream:
            async for _ in stream:
                pass
            response = stream.get()
        usage.requests += 1
        usage.input += response.usage.input_tokens
        usage.output += response.usage.output_tokens
        if not response.text:
            raise ModelError("rejected", f"{self._model.name} gave no summary of the conversation")
        return response.text

    # --- tools --------------------------------------------------------------------------------------

    async def _run_call(self, call: ToolCallPart) -> None:
        on_screen = self._session.unique_call_id(call.tool_call_id)
        try:
            prepared = self._prepare(call)
        except ToolRefused as refusal:
            await self._screen.show_call(DisplayedCall(on_screen, call.tool_name, "other", call.args), "pending")
            await self._finish(call, on_screen, ToolOutcome(str(refusal), failed=True))
            return
        shown = DisplayedCall(
            on_screen, prepared.title, prepared.kind, _call_arguments(call), prepared.path, prepared.line, prepared.diff
        )
        await self._screen.show_call(shown, "pending")
        if prepared.needs_permission and not await self._is_permitted(call, shown):
            await self._finish(call, on_screen, ToolOutcome("the user did not allow this call", failed=True), "denied")
            return
        self._session.save({"type": "started", "call": call.tool_call_id})
        await self._screen.show_progress(on_screen, "in_progress")
        await self._finish(call, on_screen, await self._perform(prepared))

    def _prepare(self, call: ToolCallPart) -> PreparedCall:
        arguments = _call_arguments(call)
        if not isinstance(arguments, dict):
            raise ToolRefused(f"the arguments of {call.tool_name} are not a JSON object")
        if self._session.mcp.has_tool(call.tool_name):
            return self._session.mcp.prepare(call.tool_name, arguments)
        return self._session.toolbox.prepare(call.tool_name, arguments, call.tool_call_id)

    async def _is_permitted(self, call: ToolCallPart, displayed: DisplayedCall) -> bool:
        if self._session.mode == "code" or call.tool_name in self._session.allowed_tools:
            return True
        verdict = await self._screen.ask_permission(displayed)
        if verdict == "cancelled":
            raise asyncio.CancelledError
        if verdict == "always":
            self._session.save({"type": "allowed", "tool": call.tool_name})
            self._session.allowed_tools.add(call.tool_name)
        return verdict != "no"

    async def _perform(self, prepared: PreparedCall) -> ToolOutcome:
        try:
            return await prepared.perform()
        except ToolRefused as refusal:
            return ToolOutcome(str(refusal), failed=True)
        except Exception as error:  # noqa: BLE001 - a supervisor: the failure is recorded as the call's result
            return ToolOutcome(f"the tool failed: {error!r}", failed=True)

    async def _finish(self, call: ToolCallPart, screen_id: str, outcome: ToolOutcome, kind: str | None = None) -> None:
        text = self._secrets.redact(cap_text(outcome.text))
        self._session.save(message_record(tool_result(call, text, kind or ("failed" if outcome.failed else "success"))))
        await self._screen.show_progress(screen_id, "failed" if outcome.failed else "completed", text)
        if outcome.plan is not None:
            await self._screen.show_plan(outcome.plan)


def _call_arguments(call: ToolCallPart) -> object:
    try:
        return call.args_as_dict(raise_if_invalid=True)
    except (ValueError, AssertionError):
        return call.args


def _with_instructions(messages: list[ModelMessage], instructions: str) -> list[ModelMessage]:
    last = messages[-1]
    assert isinstance(last, ModelRequest), "the model is asked, so somebody spoke last"
    return [*messages[:-1], replace(last, instructions=instructions)]
