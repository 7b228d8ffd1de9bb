"""The result of a tool call as text: from the content that the agent showed, else from its raw output."""

from collections.abc import Iterator
from typing import Any

import msgspec

from holdfast.core.log.codec import DECODE_ERRORS

_MAX_DIFF_LINES = 600  # of a file; longer files get no diff
_STREAM_KEYS = ("stdout", "stderr")
_TEXT_KEYS = ("output", "formatted_output", "aggregated_output", "text", "content", "result", "message", "error")
_EXIT_CODE_KEYS = ("exitCode", "exit_code", "exitStatus")
_MAX_DEPTH = 5  # levels of a raw output that are searched for text


def text_of_result(content: bytes, output: bytes) -> str:
    """The text of a result; both arguments are JSON. Empty when there is no text."""
    shown = "\n".join(_content_texts(_decode(content)))
    if shown:
        return shown
    raw = _decode(output)
    found = _text_in(raw)
    if found:
        return found + _exit_code(raw)
    return "" if raw in (None, "", [], {}) else msgspec.json.encode(raw).decode()


def text_of_block(block: object) -> str:
    """The text of a content block; for other kinds, a label such as `[image image/png]`."""
    if not isinstance(block, dict):
        return ""
    if block.get("type") == "text":
        return str(block.get("text") or "")
    resource = block.get("resource")
    if isinstance(resource, dict) and isinstance(resource.get("text"), str):
        return str(resource["text"])
    label = block.get("uri") or block.get("name") or block.get("mimeType") or ""
    return f"[{block.get('type', 'something')} {label}]".replace(" ]", "]")


def _content_texts(parts: object) -> Iterator[str]:
    """The parts of a tool call's content that have text: blocks, diffs, and terminal output."""
    for part in parts if isinstance(parts, list) else []:
        match part:
            case str():
                yield part
            case {"type": "diff"}:
                yield _diff(str(part.get("path")), str(part.get("oldText") or ""), str(part.get("newText") or ""))
            case {"type": "terminal"}:
                if isinstance(part.get("output"), str) and part["output"]:
                    yield part["output"]
            case {"type": "content", "content": inner}:
                if text := text_of_block(inner):
                    yield text
            case {"type": str()}:
                if text := text_of_block(part):
                    yield text


def _diff(path: str, old: str, new: str) -> str:
    before, after = old.splitlines(), new.splitlines()
    if max(len(before), len(after)) > _MAX_DIFF_LINES:
        return f"{path}: {len(before)} lines became {len(after)}"
    from difflib import unified_diff  # noqa: PLC0415 - slow to import, and few calls edit

    changed = [line for line in unified_diff(before, after, lineterm="", n=1) if not line.startswith(("---", "+++"))]
    return "\n".join([path, *changed])


def _text_in(value: Any, depth: int = 0) -> str:
    """The text inside a raw output, under the keys that agents use for it."""
    if isinstance(value, str):
        return value
    if depth >= _MAX_DEPTH:
        return ""
    if isinstance(value, list):
        return "\n".join(text for item in value if (text := _text_in(item, depth + 1)))
    if not isinstance(value, dict):
        return ""
    streams = "\n".join(text for name in _STREAM_KEYS if (text := _text_in(value.get(name), depth + 1)))
    return streams or next((text for name in _TEXT_KEYS if (text := _text_in(value.get(name), depth + 1))), "")


def _exit_code(raw: Any) -> str:
    """A note with the exit code of a failed command."""
    codes = [raw.get(name) for name in _EXIT_CODE_KEYS] if isinstance(raw, dict) else []
    failed = next((code for code in codes if isinstance(code, int) and code), None)
    return f"\n(exit code {failed})" if failed is not None else ""


def _decode(raw: bytes) -> Any:
    try:
        return msgspec.json.decode(raw)
    except DECODE_ERRORS:
        return raw.decode(errors="replace")
