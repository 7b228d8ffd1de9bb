"""OpenAI responses: `POST /v1/responses`. Every event is named, and numbered."""

import time
from collections.abc import Iterator
from typing import Any

from tests.support.model_server.openai_chat import refused
from tests.support.model_server.script import Answer, Fault
from tests.support.model_server.seen import Call, Result, Said, Seen, flat, is_side, parsed
from tests.support.model_server.wire import Refused, arguments, cut, event

_FAULTS: dict[str, tuple[int, str, str | None, str | None, str]] = {
    "rate_limit": (429, "tokens", None, "rate_limit_exceeded", "Rate limit reached for requests. Please try again."),
    "quota": (429, "insufficient_quota", None, "insufficient_quota", "You exceeded your current quota."),
    "server_error": (500, "server_error", None, "server_error", "The server had an error while processing it."),
    "overloaded": (503, "server_error", None, "server_is_overloaded", "Our servers are currently overloaded."),
    "context_length": (
        400,
        "invalid_request_error",
        "input",
        "context_length_exceeded",
        "Your input exceeds the context window of this model. Please adjust your input and try again.",
    ),
    "auth": (401, "invalid_request_error", None, "invalid_api_key", "Incorrect API key provided: sk-…."),
    "rejected": (400, "invalid_request_error", None, None, "Invalid request."),
}


class OpenAIResponses:
    name = "openai-responses"

    def read(self, body: Any, headers: dict[str, str], model: str, *, streamed: bool) -> Seen:
        system = [flat(body.get("instructions"))] if body.get("instructions") else []
        messages: list[Said] = []
        given = body.get("input") or []
        for item in [{"role": "user", "content": given}] if isinstance(given, str) else given:
            kind = item.get("type", "message")
            if kind == "message" and item["role"] in ("system", "developer"):
                system.append(flat(item.get("content")))
            elif kind == "message":
                messages.append(Said(item["role"], flat(item.get("content"))))
            elif kind in ("function_call", "custom_tool_call"):
                given_input = parsed(item.get("arguments", item.get("input")))
                messages.append(Said("assistant", calls=[Call(item["call_id"], item["name"], given_input)]))
            elif kind in ("function_call_output", "custom_tool_call_output"):
                messages.append(Said("tool", results=[Result(item["call_id"], flat(item.get("output")))]))
        tools = [tool.get("name") or tool["type"] for tool in body.get("tools") or []]
        joined = "\n".join(system)
        last = next((said.text for said in reversed(messages) if said.role == "user"), "")
        side = is_side(joined, last, tools, body)
        return Seen(self.name, model, streamed, joined, messages, tools, headers, body, side)

    def whole(self, seen: Seen, answer: Answer, number: int) -> Any:
        return _response(seen, answer, number, "completed", _items(answer, number))

    def pieces(self, seen: Seen, answer: Answer, number: int) -> Iterator[bytes]:
        order = iter(range(1_000_000))

        def named(kind: str, /, **data: Any) -> bytes:
            return event(kind, {"type": kind, **data, "sequence_number": next(order)})

        begun = _response(seen, answer, number, "in_progress", [])
        yield named("response.created", response=begun)
        yield named("response.in_progress", response=begun)
        items = _items(answer, number)
        for index, item in enumerate(items):
            place = {"output_index": index, "item_id": item["id"]}
            yield named("response.output_item.added", output_index=index, item=_unfinished(item))
            if item["type"] == "reasoning":
                yield from _reasoning(named, place, answer)
            elif item["type"] == "message":
                yield from _message(named, place, item["content"][0], answer.piece)
            else:
                for part in cut(item["arguments"], answer.piece):
                    yield named("response.function_call_arguments.delta", **place, delta=part)
                yield named(
                    "response.function_call_arguments.done", **place, name=item["name"], arguments=item["arguments"]
                )
            yield named("response.output_item.done", output_index=index, item=item)
        end = "incomplete" if answer.stop == "length" else "completed"
        yield named(f"response.{end}", response=_response(seen, answer, number, end, items))

    def refusal(self, fault: Fault, number: int) -> Refused:
        return refused(_FAULTS, fault, number)

    def refusal_in_stream(self, fault: Fault, number: int) -> bytes:
        error = self.refusal(fault, number).body["error"]
        failed = {
            "id": f"resp_{number}",
            "object": "response",
            "created_at": int(time.time()),
            "status": "failed",
            "background": False,
            "error": {"code": error["code"] or "server_error", "message": error["message"]},
            "incomplete_details": None,
            "instructions": None,
            "model": "scripted",
            "output": [],
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "usage": None,
            "metadata": {},
        }
        return event("response.failed", {"type": "response.failed", "sequence_number": 3, "response": failed})


def _items(answer: Answer, number: int) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    if answer.thinking:
        summary = [{"type": "summary_text", "text": answer.thinking}]
        items.append(
            {"id": f"rs_{number}", "type": "reasoning", "summary": summary, "encrypted_content": f"sealed-{number}"}
        )
    if answer.text or not answer.tools:
        part: dict[str, Any] = {"type": "output_text", "text": answer.text, "annotations": [], "logprobs": []}
        if answer.stop == "refusal":
            part = {"type": "refusal", "refusal": answer.text or "I can't help with that."}
        items.append(
            {"id": f"msg_{number}", "type": "message", "status": "completed", "role": "assistant", "content": [part]}
        )
    items += [
        {
            "id": f"fc_{number}_{index}",
            "type": "function_call",
            "status": "completed",
            "arguments": arguments(tool.input),
            "call_id": tool.id or f"call_{number}_{index}",
            "name": tool.name,
        }
        for index, tool in enumerate(answer.tools)
    ]
    return items


def _unfinished(item: dict[str, Any]) -> dict[str, Any]:
    if item["type"] == "message":
        return item | {"status": "in_progress", "content": []}
    if item["type"] == "function_call":
        return item | {"status": "in_progress", "arguments": ""}
    return item | {"summary": []}


def _message(named: Any, place: dict[str, Any], part: dict[str, Any], size: int) -> Iterator[bytes]:
    kind = part["type"]
    words = "refusal" if kind == "refusal" else "text"
    extra: dict[str, Any] = {"logprobs": []} if words == "text" else {}
    yield named("response.content_part.added", **place, content_index=0, part=part | {words: ""})
    for piece in cut(part[words], size):
        yield named(f"response.{kind}.delta", **place, content_index=0, delta=piece, **extra)
    yield named(f"response.{kind}.done", **place, content_index=0, **{words: part[words]}, **extra)
    yield named("response.content_part.done", **place, content_index=0, part=part)


def _reasoning(named: Any, place: dict[str, Any], answer: Answer) -> Iterator[bytes]:
    part = {"type": "summary_text", "text": answer.thinking}
    yield named("response.reasoning_summary_part.added", **place, summary_index=0, part=part | {"text": ""})
    for piece in cut(answer.thinking, answer.piece):
        yield named("response.reasoning_summary_text.delta", **place, summary_index=0, delta=piece)
    yield named("response.reasoning_summary_text.done", **place, summary_index=0, text=answer.thinking)
    yield named("response.reasoning_summary_part.done", **place, summary_index=0, part=part)


def _response(seen: Seen, answer: Answer, number: int, status: str, output: list[dict[str, Any]]) -> dict[str, Any]:
    used = answer.usage
    usage = {
        "input_tokens": used.input,
        "input_tokens_details": {"cached_tokens": used.cached},
        "output_tokens": used.output,
        "output_tokens_details": {"reasoning_tokens": used.reasoning},
        "total_tokens": used.input + used.output,
    }
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": int(time.time()),
        "status": status,
        "background": False,
        "error": None,
        "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
        "instructions": None,
        "max_output_tokens": None,
        "metadata": {},
        "model": seen.model,
        "output": output,
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "reasoning": {"effort": None, "summary": None},
        "store": False,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": None if status == "in_progress" else usage,
        "user": None,
    }
