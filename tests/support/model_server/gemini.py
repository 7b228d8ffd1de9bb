"""Google Gemini: `POST /v1beta/models/NAME:generateContent` and `:streamGenerateContent?alt=sse`. Unnamed events."""

from collections.abc import Iterator
from typing import Any

import msgspec

from tests.support.model_server.script import Answer, Fault
from tests.support.model_server.seen import Call, Result, Said, Seen, flat, is_side
from tests.support.model_server.wire import Refused, cut, retry_header, rfc3339

_FINISH = {"length": "MAX_TOKENS", "refusal": "SAFETY"}

_FAULTS = {
    "rate_limit": (429, "RESOURCE_EXHAUSTED", "Resource has been exhausted (e.g. check quota)."),
    "quota": (429, "RESOURCE_EXHAUSTED", "You exceeded your current quota, please check your plan and billing."),
    "server_error": (500, "INTERNAL", "An internal error has occurred. Please retry."),
    "overloaded": (503, "UNAVAILABLE", "The model is overloaded. Please try again later."),
    "context_length": (
        400,
        "INVALID_ARGUMENT",
        "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
    ),
    "auth": (400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key."),
    "rejected": (400, "INVALID_ARGUMENT", "Request contains an invalid argument."),
}


class Gemini:
    name = "gemini"

    def read(self, body: Any, headers: dict[str, str], model: str, *, streamed: bool) -> Seen:
        messages = [_said(content) for content in body.get("contents", [])]
        tools = [
            declared["name"] for tool in body.get("tools") or [] for declared in tool.get("functionDeclarations") or []
        ]
        system = flat((body.get("systemInstruction") or body.get("system_instruction") or {}).get("parts"))
        last = next((said.text for said in reversed(messages) if said.role == "user" and said.text), "")
        settings = body.get("generationConfig") or {}
        wants_schema = "responseJsonSchema" in settings or "responseSchema" in settings
        side = not tools and (wants_schema or is_side(system, last, tools, settings))
        return Seen(self.name, model, streamed, system, messages, tools, headers, body, side)

    def whole(self, seen: Seen, answer: Answer, number: int) -> Any:
        return _response(seen, answer, number, _parts(answer, number, len(answer.text) or 1), last=True)

    def pieces(self, seen: Seen, answer: Answer, number: int) -> Iterator[bytes]:
        for part in _parts(answer, number, answer.piece):
            yield _event(_response(seen, answer, number, [part], last=False))
        yield _event(_response(seen, answer, number, [{"text": ""}], last=True))

    def refusal(self, fault: Fault, number: int) -> Refused:
        status, name, message = _FAULTS[fault.kind]
        details: list[dict[str, Any]] = []
        headers = retry_header(fault)
        if fault.retry_after is not None:
            details.append(
                {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": f"{fault.retry_after:g}s"}
            )
        if fault.resets_at is not None:
            metadata = {"quotaResetTimeStamp": rfc3339(fault.resets_at)}
            details.append(
                {
                    "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                    "reason": "QUOTA_EXHAUSTED",
                    "domain": "cloudcode-pa.googleapis.com",
                    "metadata": metadata,
                }
            )
        if fault.kind == "auth":
            details.append(
                {
                    "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                    "reason": "API_KEY_INVALID",
                    "domain": "googleapis.com",
                }
            )
        code = fault.status or status
        error = {"code": code, "message": fault.message or message, "status": name, "details": details}
        return Refused(code, {"error": error}, headers)

    def refusal_in_stream(self, fault: Fault, number: int) -> bytes:
        return _event(self.refusal(fault, number).body)


def _event(data: Any) -> bytes:
    return b"data: " + msgspec.json.encode(data) + b"\r\n\r\n"


def _said(content: Any) -> Said:
    text, calls, results = [], [], []
    for part in content.get("parts", []):
        if "functionCall" in part:
            call = part["functionCall"]
            calls.append(Call(call.get("id", ""), call["name"], call.get("args")))
        elif "functionResponse" in part:
            result = part["functionResponse"]
            said = result.get("response") or {}
            words = next((said[key] for key in ("output", "return_value", "error", "result") if key in said), said)
            results.append(Result(result.get("id", ""), flat(words) if isinstance(words, str | list) else str(words)))
        elif part.get("text") and not part.get("thought"):
            text.append(part["text"])
    role = {"model": "assistant"}.get(content.get("role", "user"), "user")
    return Said(role, "\n".join(text), calls, results)


def _parts(answer: Answer, number: int, size: int) -> Iterator[dict[str, Any]]:
    for piece in cut(answer.thinking, size):
        yield {"text": piece, "thought": True}
    for piece in cut(answer.text, size):
        yield {"text": piece}
    for index, tool in enumerate(answer.tools):
        call: dict[str, Any] = {"name": tool.name, "args": tool.input}
        if tool.id is not None:
            call["id"] = tool.id
        yield {"functionCall": call, "thoughtSignature": f"c2ln{number}{index:03}"}


def _response(seen: Seen, answer: Answer, number: int, parts: Any, *, last: bool) -> dict[str, Any]:
    used = answer.usage
    candidate: dict[str, Any] = {"content": {"parts": list(parts), "role": "model"}, "index": 0}
    if last:
        candidate["finishReason"] = _FINISH.get(answer.stop or "", "STOP")
    usage = {
        "promptTokenCount": used.input,
        "candidatesTokenCount": used.output,
        "totalTokenCount": used.input + used.output + used.reasoning,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": used.input}],
    }
    if used.cached:
        usage["cachedContentTokenCount"] = used.cached
    if used.reasoning:
        usage["thoughtsTokenCount"] = used.reasoning
    return {
        "candidates": [candidate],
        "usageMetadata": usage,
        "modelVersion": seen.model,
        "responseId": f"resp-{number}",
    }
