"""What a tool call returned, as text: from the content that the agent showed, else from its raw output."""

from collections.abc import Iterator
from difflib import unified_diff
from typing import Any

import msgspec

from holdfast.core.log.codec import UNREADABLE

_DIFF_LINES = 600  # of a file; the changes of a longer one are not worked out
_STREAMS = ("stdout", "stderr")
_TEXTS = ("output", "formatted_output", "aggregated_output", "text", "content", "result", "message", "error")
_CODES = ("exitCode", "exit_code", "exitStatus")
_DEEPEST = 5  # levels of a raw output that are looked through for its text


def text_of_result(content: bytes, output: bytes) -> str:
    """Both as JSON. Empty when neither says anything."""
    shown = "\n".join(_shown(_decoded(content)))
    if shown:
        return shown
    raw = _decoded(output)
    found = _text_in(raw)
    if found:
        return found + _exit_code(raw)
    return "" if raw in (None, "", [], {}) else msgspec.json.encode(raw).decode()


def text_of_block(block: object) -> str:
    """The text of a block of content; of any other kind, what it is."""
    if not isinstance(block, dict):
        return ""
    if block.get("type") == "text":
        return str(block.get("text") or "")
    resource = block.get("resource")
    if isinstance(resource, dict) and isinstance(resource.get("text"), str):
        return str(resource["text"])
    named = block.get("uri") or block.get("name") or block.get("mimeType") or ""
    return f"[{block.get('type', 'something')} {named}]".replace(" ]", "]")


def _shown(parts: object) -> Iterator[str]:
    """Each part of a tool call's content that has text: blocks, diffs, and what a terminal put out."""
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
    if max(len(before), len(after)) > _DIFF_LINES:
        return f"{path}: {len(before)} lines became {len(after)}"
    changed = [line for line in unified_diff(before, after, lineterm="", n=1) if not line.startswith(("---", "+++"))]
    return "\n".join([path, *changed])


def _text_in(value: Any, depth: int = 0) -> str:
    """The text within a raw output, by the names that agents give it."""
    if isinstance(value, str):
        return value
    if depth >= _DEEPEST:
        return ""
    if isinstance(value, list):
        return "\n".join(text for one in value if (text := _text_in(one, depth + 1)))
    if not isinstance(value, dict):
        return ""
    streams = "\n".join(text for name in _STREAMS if (text := _text_in(value.get(name), depth + 1)))
    return streams or next((text for name in _TEXTS if (text := _text_in(value.get(name), depth + 1))), "")


def _exit_code(raw: Any) -> str:
    """That a command failed is as much of its result as its words."""
    codes = [raw.get(name) for name in _CODES] if isinstance(raw, dict) else []
    failed = next((code for code in codes if isinstance(code, int) and code), None)
    return f"\n(exit code {failed})" if failed is not None else ""


def _decoded(raw: bytes) -> Any:
    try:
        return msgspec.json.decode(raw)
    except UNREADABLE:
        return raw.decode(errors="replace")
