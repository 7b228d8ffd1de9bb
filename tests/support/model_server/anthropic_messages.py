"""Anthropic messages: `POST /v1/messages`. Named events, a block at a time."""

from collections.abc import Iterator
from typing import Any

from tests.support.model_server.script import Answer, Fault
from tests.support.model_server.seen import Call, Result, Said, Seen, flat, is_side
from tests.support.model_server.wire import Refused, arguments, cut, event, retry_header, rfc3339

_STOP = {"length": "max_tokens", "refusal": "refusal"}

_FAULTS = {
    "rate_limit": (429, "rate_limit_error", "This request would exceed your account's rate limit."),
    "quota": (400, "invalid_request_error", "Your credit balance is too low to access the Anthropic API."),
    "server_error": (500, "api_error", "Internal server error"),
    "overloaded": (529, "overloaded_error", "Overloaded"),
    "context_length": (400, "invalid_request_error", "prompt is too long: 208310 tokens > 200000 maximum"),
    "auth": (401, "authentication_error", "invalid x-api-key"),
    "rejected": (400, "invalid_request_error", "messages: invalid"),
}


class AnthropicMessages:
    name = "anthropic"

    def read(self, body: Any, headers: dict[str, str], model: str, *, streamed: bool) -> Seen:
        messages = [_said(message) for message in body.get("messages", [])]
        tools = [tool["name"] for tool in body.get("tools") or []]
        system = flat(body.get("system"))
        last = next((said.text for said in reversed(messages) if said.role == "user" and said.text), "")
        side = is_side(system, last, tools, body)
        return Seen(self.name, model, streamed, system, messages, tools, headers, body, side)

    def whole(self, seen: Seen, answer: Answer, number: int) -> Any:
        return _message(seen, number) | {
            "content": _blocks(answer, number),
            "stop_reason": _stop(answer),
            "usage": _usage(answer),
        }

    def pieces(self, seen: Seen, answer: Answer, number: int) -> Iterator[bytes]:
        def named(kind: str, /, **data: Any) -> bytes:
            return event(kind, {"type": kind, **data})

        yield named("message_start", message=_message(seen, number) | {"usage": _usage(answer) | {"output_tokens": 1}})
        yield named("ping")
        for index, block in enumerate(_blocks(answer, number)):
            kind = block["type"]
            if kind == "thinking":
                yield named("content_block_start", index=index, content_block=block | {"thinking": "", "signature": ""})
                for part in cut(block["thinking"], answer.piece):
                    yield named("content_block_delta", index=index, delta={"type": "thinking_delta", "thinking": part})
                signed = {"type": "signature_delta", "signature": block["signature"]}
                yield named("content_block_delta", index=index, delta=signed)
            elif kind == "text":
                yield named("content_block_start", index=index, content_block=block | {"text": ""})
                for part in cut(block["text"], answer.piece):
                    yield named("content_block_delta", index=index, delta={"type": "text_delta", "text": part})
            else:
                yield named("content_block_start", index=index, content_block=block | {"input": {}})
                for part in ("", *cut(arguments(block["input"]), answer.piece)):
                    delta = {"type": "input_json_delta", "partial_json": part}
                    yield named("content_block_delta", index=index, delta=delta)
            yield named("content_block_stop", index=index)
        end = {"stop_reason": _stop(answer), "stop_sequence": None}
        yield named("message_delta", delta=end, usage=_usage(answer))
        yield named("message_stop")

    def refusal(self, fault: Fault, number: int) -> Refused:
        status, kind, message = _FAULTS[fault.kind]
        headers = {"request-id": f"req_{number}", **retry_header(fault)}
        if fault.resets_at is not None:
            headers |= {
                "anthropic-ratelimit-requests-limit": "50",
                "anthropic-ratelimit-requests-remaining": "0",
                "anthropic-ratelimit-requests-reset": rfc3339(fault.resets_at),
                "anthropic-ratelimit-unified-status": "rejected",
                "anthropic-ratelimit-unified-reset": f"{fault.resets_at:.0f}",
            }
        error = {"type": kind, "message": fault.message or message}
        body = {"type": "error", "error": error, "request_id": f"req_{number}"}
        return Refused(fault.status or status, body, headers)

    def refusal_in_stream(self, fault: Fault, number: int) -> bytes:
        body = self.refusal(fault, number).body
        return event("error", {"type": "error", "error": body["error"]})


def _said(message: Any) -> Said:
    content = message["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    text = "\n".join(block["text"] for block in blocks if block["type"] == "text")
    calls = [Call(block["id"], block["name"], block["input"]) for block in blocks if block["type"] == "tool_use"]
    results = [
        Result(block["tool_use_id"], flat(block.get("content"))) for block in blocks if block["type"] == "tool_result"
    ]
    return Said(message["role"], text, calls, results)


def _blocks(answer: Answer, number: int) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    if answer.thinking:
        blocks.append({"type": "thinking", "thinking": answer.thinking, "signature": f"signed-{number}"})
    if answer.text:
        blocks.append({"type": "text", "text": answer.text})
    blocks += [
        {"type": "tool_use", "id": tool.id or f"toolu_{number}_{index}", "name": tool.name, "input": tool.input}
        for index, tool in enumerate(answer.tools)
    ]
    return blocks


def _message(seen: Seen, number: int) -> dict[str, Any]:
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": seen.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
    }


def _usage(answer: Answer) -> dict[str, Any]:
    used = answer.usage
    return {
        "input_tokens": used.input - used.cached,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": used.cached,
        "output_tokens": used.output,
        "service_tier": "standard",
    }


def _stop(answer: Answer) -> str:
    if answer.stop in _STOP:
        return _STOP[answer.stop]
    return "tool_use" if answer.tools else "end_turn"
