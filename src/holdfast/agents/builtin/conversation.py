"""The conversation as the model sees it, always rebuilt from the session's records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pydantic import TypeAdapter
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

_MESSAGE_ADAPTER: TypeAdapter[ModelMessage] = TypeAdapter(ModelMessage)

NOT_STARTED = "[interrupted: the turn was cut off before this call was started; it was not run]"
IN_FLIGHT = (
    "[interrupted: the turn was cut off while this call was running. It may or may not have had its effect, "
    "and it was not run again; look before you repeat it]"
)


class ModelConversation:
    """`messages` holds all messages; the model sees `visible`, without compacted and withdrawn ones."""

    def __init__(self) -> None:
        self.messages: list[ModelMessage] = []
        self._hidden: set[int] = set()
        self._summaries: dict[int, str] = {}  # by the index of the message that the summary precedes
        self._started: set[str] = set()

    @classmethod
    def from_records(cls, records: list[dict[str, Any]]) -> ModelConversation:
        conversation = cls()
        for record in records:
            conversation.apply(record)
        return conversation

    def apply(self, record: dict[str, Any]) -> None:
        match record.get("type"):
            case "message":
                message = _MESSAGE_ADAPTER.validate_python(record["message"])
                self.messages.append(message)
                if isinstance(message, ModelResponse):
                    self._started = set()  # some providers reuse call ids
            case "started":
                self._started.add(record["call"])
            case "compacted":
                before = int(record["before"])
                self._hidden.update(range(before))
                self._summaries = {before: record["summary"]}
            case "withdrawn":
                self._hidden.update(range(int(record["from"]), len(self.messages)))

    def visible_messages(self) -> list[ModelMessage]:
        """Return the messages in the providers' format.

        Everything between two answers is one message that starts with results.
        """
        shown: list[ModelMessage] = []
        for index, message in enumerate(self.messages):
            if index in self._summaries:
                shown.append(user_request(_summary_text(self._summaries[index])))
            if index not in self._hidden:
                shown.append(message)
        if len(self.messages) in self._summaries:
            shown.append(user_request(_summary_text(self._summaries[len(self.messages)])))
        merged: list[ModelMessage] = []
        for message in shown:
            last = merged[-1] if merged else None
            if isinstance(message, ModelRequest) and isinstance(last, ModelRequest):
                merged[-1] = replace(last, parts=[*last.parts, *message.parts])
            else:
                merged.append(message)
        return _with_results(merged)

    def unanswered_calls(self) -> list[tuple[ToolCallPart, bool]]:
        """Return calls of the last answer without a result, and whether each had been started."""
        answered: set[str] = set()
        for index, message in reversed(list(enumerate(self.messages))):
            if index in self._hidden:  # the model will not see the call again, and a result without its call is invalid
                return []
            if isinstance(message, ModelResponse):
                return [
                    (call, call.tool_call_id in self._started)
                    for call in message.tool_calls
                    if call.tool_call_id not in answered
                ]
            answered.update(part.tool_call_id for part in message.parts if isinstance(part, ToolReturnPart))
        return []

    def compaction_point(self, kept_messages: int) -> int:
        """Return where the older part ends if about `kept_messages` are to stay.

        Never between a call and its result.
        """
        at = max(len(self.messages) - kept_messages, self.hidden_until())
        while at < len(self.messages) and not _is_turn_boundary(self.messages[at]):
            at += 1
        return at

    @property
    def last_summary(self) -> str:
        return next(iter(self._summaries.values()), "")

    def last_user_text(self) -> str:
        for message in reversed(self.messages):
            for part in message.parts:
                if isinstance(part, UserPromptPart):
                    return prompt_text(part)
        return ""

    def hidden_until(self) -> int:
        at = 0
        while at in self._hidden:
            at += 1
        return at


def message_record(message: ModelMessage) -> dict[str, Any]:
    return {"type": "message", "message": _MESSAGE_ADAPTER.dump_python(message, mode="json")}


def user_request(text: str) -> ModelRequest:
    return ModelRequest(parts=[UserPromptPart(content=text)])


def tool_result(call: ToolCallPart, text: str, outcome: Any = "success") -> ModelRequest:
    return ModelRequest(
        parts=[ToolReturnPart(tool_name=call.tool_name, content=text, tool_call_id=call.tool_call_id, outcome=outcome)]
    )


def interrupted_result(call: ToolCallPart, *, was_started: bool) -> ModelRequest:
    return tool_result(call, IN_FLIGHT if was_started else NOT_STARTED, "interrupted")


def render_text(messages: list[ModelMessage], max_chars: int) -> str:
    """Return the conversation as text, for a summary; cuts out the middle if it is too long."""
    lines: list[str] = []
    for message in messages:
        for part in message.parts:
            match part:
                case UserPromptPart():
                    lines.append(f"User: {prompt_text(part)}")
                case ToolReturnPart():
                    lines.append(f"Result of {part.tool_name}: {str(part.content)[:2000]}")
                case ToolCallPart():
                    lines.append(f"Assistant called {part.tool_name}: {part.args_as_json_str()[:2000]}")
                case _ if part.part_kind == "text":
                    lines.append(f"Assistant: {part.content}")
    text = "\n\n".join(lines)
    if len(text) <= max_chars:
        return text
    return f"{text[: max_chars // 2]}\n\n[… left out …]\n\n{text[-max_chars // 2 :]}"


def prompt_text(part: UserPromptPart) -> str:
    if isinstance(part.content, str):
        return part.content
    return "\n".join(item if isinstance(item, str) else "[attachment]" for item in part.content)


def _with_results(messages: list[ModelMessage]) -> list[ModelMessage]:
    """Add missing results: providers refuse a whole conversation for one call without its result right after it."""
    complete: list[ModelMessage] = []
    for message in messages:
        last = complete[-1] if complete else None
        calls = last.tool_calls if isinstance(last, ModelResponse) else []
        complete.append(_with_missing_results(calls, message) if isinstance(message, ModelRequest) else message)
    return complete


def _with_missing_results(calls: Sequence[ToolCallPart], request: ModelRequest) -> ModelRequest:
    """Put exactly one result of each call first (a placeholder where a failure left none), then all other content."""
    found = [part for part in request.parts if isinstance(part, ToolReturnPart)]
    results = []
    for call in calls:
        own = next((part for part in found if part.tool_call_id == call.tool_call_id), None)
        if own is not None:
            found.remove(own)
        results.append(own or interrupted_result(call, was_started=True).parts[0])
    return replace(request, parts=[*results, *(part for part in request.parts if not isinstance(part, ToolReturnPart))])


def _is_turn_boundary(message: ModelMessage) -> bool:
    return isinstance(message, ModelResponse) or any(isinstance(part, UserPromptPart) for part in message.parts)


def _summary_text(text: str) -> str:
    return f"[The earlier conversation was too long and was replaced by this summary.]\n\n{text}"
