"""OpenAI chat completions: `POST /v1/chat/completions`. Unnamed events, `[DONE]` at the end."""

import time
from collections.abc import Iterator
from typing import Any

from tests.support.model_server.script import Answer, Fault
from tests.support.model_server.seen import Call, Result, Said, Seen, flat, is_side, parsed
from tests.support.model_server.wire import Refused, arguments, cut, event, retry_header

DONE = b"data: [DONE]\n\n"

_FINISH = {"length": "length", "refusal": "content_filter"}

_FAULTS: dict[str, tuple[int, str, str | None, str | None, str]] = {
    "rate_limit": (429, "tokens", None, "rate_limit_exceeded", "Rate limit reached for requests. Please try again."),
    "quota": (
        429,
        "insufficient_quota",
        None,
        "insufficient_quota",
        "You exceeded your current quota, please check your plan and billing details.",
    ),
    "server_error": (500, "server_error", None, None, "The server had an error while processing your request."),
    "overloaded": (503, "server_error", None, None, "That model is currently overloaded with other requests."),
    "context_length": (
        400,
        "invalid_request_error",
        "messages",
        "context_length_exceeded",
        "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens.",
    ),
    "auth": (401, "invalid_request_error", None, "invalid_api_key", "Incorrect API key provided: sk-…."),
    "rejected": (400, "invalid_request_error", None, None, "Invalid request."),
}


class OpenAIChat:
    name = "openai-chat"

    def read(self, body: Any, headers: dict[str, str], model: str, *, streamed: bool) -> Seen:
        system: list[str] = []
        messages: list[Said] = []
        for message in body.get("messages", []):
            role, text = message["role"], flat(message.get("content"))
            if role in ("system", "developer"):
                system.append(text)
            elif role == "tool":
                messages.append(Said("tool", results=[Result(message.get("tool_call_id", ""), text)]))
            else:
                calls = [
                    Call(call["id"], call["function"]["name"], parsed(call["function"]["arguments"]))
                    for call in message.get("tool_calls") or []
                ]
                messages.append(Said(role, text, calls))
        tools = [tool["function"]["name"] for tool in body.get("tools") or [] if "function" in tool]
        joined = "\n".join(system)
        last = next((said.text for said in reversed(messages) if said.role == "user"), "")
        side = is_side(joined, last, tools, body)
        return Seen(self.name, model, streamed, joined, messages, tools, headers, body, side)

    def whole(self, seen: Seen, answer: Answer, number: int) -> Any:
        message: dict[str, Any] = {"role": "assistant", "content": answer.text or None, "refusal": None}
        if answer.stop == "refusal":
            message |= {"content": None, "refusal": answer.text or "I can't help with that."}
        if answer.thinking:
            message["reasoning_content"] = answer.thinking
        if answer.tools:
            message["tool_calls"] = [
                {
                    "id": tool.id or f"call_{number}_{index}",
                    "type": "function",
                    "function": {"name": tool.name, "arguments": arguments(tool.input)},
                }
                for index, tool in enumerate(answer.tools)
            ]
        return {
            "id": f"chatcmpl-{number}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": seen.model,
            "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": _finish(answer)}],
            "usage": usage(answer),
            "service_tier": "default",
            "system_fingerprint": None,
        }

    def pieces(self, seen: Seen, answer: Answer, number: int) -> Iterator[bytes]:
        wants_usage = bool((seen.body.get("stream_options") or {}).get("include_usage"))
        created = int(time.time())

        def chunk(choices: list[Any], used: Any = None) -> bytes:
            data = {
                "id": f"chatcmpl-{number}",
                "object": "chat.completion.chunk",
                "created": created,
                "model": seen.model,
                "service_tier": "default",
                "system_fingerprint": None,
                "choices": choices,
            }
            return event(None, data | ({"usage": used} if wants_usage else {}))

        def delta(value: dict[str, Any], finish: str | None = None) -> bytes:
            return chunk([{"index": 0, "delta": value, "logprobs": None, "finish_reason": finish}])

        yield delta({"role": "assistant", "content": "", "refusal": None})
        for part in cut(answer.thinking, answer.piece):
            yield delta({"reasoning_content": part})
        words = "refusal" if answer.stop == "refusal" else "content"
        for part in cut(answer.text, answer.piece):
            yield delta({words: part})
        for index, tool in enumerate(answer.tools):
            head = {"name": tool.name, "arguments": ""}
            identity = tool.id or f"call_{number}_{index}"
            yield delta({"tool_calls": [{"index": index, "id": identity, "type": "function", "function": head}]})
            for part in cut(arguments(tool.input), answer.piece):
                yield delta({"tool_calls": [{"index": index, "function": {"arguments": part}}]})
        yield delta({}, _finish(answer))
        if wants_usage:
            yield chunk([], usage(answer))
        yield DONE

    def refusal(self, fault: Fault, number: int) -> Refused:
        return refused(_FAULTS, fault, number)

    def refusal_in_stream(self, fault: Fault, number: int) -> bytes:
        return event(None, self.refusal(fault, number).body)


def _finish(answer: Answer) -> str:
    if answer.stop in _FINISH:
        return _FINISH[answer.stop]
    return "tool_calls" if answer.tools else "stop"


def usage(answer: Answer) -> dict[str, Any]:
    used = answer.usage
    return {
        "prompt_tokens": used.input,
        "completion_tokens": used.output,
        "total_tokens": used.input + used.output,
        "prompt_tokens_details": {"cached_tokens": used.cached, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": used.reasoning,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }


def refused(faults: dict[str, tuple[int, str, str | None, str | None, str]], fault: Fault, number: int) -> Refused:
    status, kind, param, code, message = faults[fault.kind]
    headers = {"x-request-id": f"req_{number}", **retry_header(fault)}
    if fault.resets_at is not None:
        # As OpenAI says it: how long from now, with a unit.
        left = max(0.0, fault.resets_at - time.time())
        headers |= {"x-ratelimit-reset-requests": _span(left), "x-ratelimit-reset-tokens": _span(left)}
        headers |= {"x-ratelimit-remaining-requests": "0", "x-ratelimit-limit-requests": "60"}
    error = {"message": fault.message or message, "type": kind, "param": param, "code": code}
    return Refused(fault.status or status, {"error": error}, headers)


def _span(seconds: float) -> str:
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(int(minutes), 60)
    parts = (f"{hours}h" if hours else "", f"{minutes}m" if hours or minutes else "", f"{rest:.3f}s")
    return "".join(parts)
