"""Conversations as HTML: one piece per event, in the order of the log."""

import json
from collections.abc import Iterator
from difflib import unified_diff
from typing import Any

import msgspec

from holdfast.app.html.escape import cut_piece, escape_text, fold_text
from holdfast.app.text.events import describe_event
from holdfast.core.conversation.call_text import call_lines
from holdfast.core.events import Event
from holdfast.core.events.base import JSON_NULL
from holdfast.core.events.conversation import (
    FAMILY,
    MessageRecorded,
    PermissionAnswered,
    PermissionRequested,
    ToolCalled,
    ToolReturned,
    TurnEnded,
    TurnStarted,
)

CONVERSATION_EVENTS = tuple(
    kind for kind in FAMILY if kind is not PermissionAnswered
)  # it does not name its conversation

_MAX_DIFF_LINES = 600  # larger files are shown without a diff
_SPEAKER_NAMES = {"user": "Holdfast", "agent": "agent", "thought": "thought", "system": "system"}


class Transcript:
    """Creates the pieces. Keeps only the names of tool calls that have not returned."""

    def __init__(self) -> None:
        self._tools: dict[tuple[str, str], str] = {}

    def html_for(self, event: Event, ts: str | None) -> str | None:
        match event:
            case MessageRecorded():
                kind = event.speaker if event.speaker in _SPEAKER_NAMES else "system"
                return _event_html(
                    f"message {kind}", ts, f"<b>{escape_text(_SPEAKER_NAMES[kind])}</b>{fold_text(event.text)}"
                )
            case ToolCalled():
                self._tools[event.conversation, event.call] = event.tool
                input_text = _display_text(event.input)
                details = (
                    f"<details><summary>input</summary><pre>{escape_text(cut_piece(input_text))}</pre></details>"
                    if input_text
                    else ""
                )
                return _event_html("call", ts, f"<b>→</b><code>{escape_text(event.tool)}</code>{details}")
            case ToolReturned():
                tool = self._tools.pop((event.conversation, event.call), "a tool")
                return _event_html(f"result {_css_class(event.status)}", ts, _result_html(event, tool))
            case PermissionRequested():
                return _event_html(
                    "note", ts, f"{escape_text(describe_event(event) or '')}{_request_html(call_lines(event))}"
                )
            case TurnStarted():
                return f"<hr><p class=turn>turn {escape_text(event.turn)}</p>"
            case TurnEnded() if event.stop_reason in (None, "end_turn"):
                return None
            case _:
                line = describe_event(event)
                return _event_html("note", ts, escape_text(line)) if line else None


def _event_html(kind: str, ts: str | None, body: str) -> str:
    return f'<div class="e {kind}"><time>{escape_text((ts or "")[11:19])}</time>{body}</div>'


def _request_html(lines: list[str]) -> str:
    return f"<details><summary>the request</summary><pre>{escape_text(cut_piece(chr(10).join(lines)))}</pre></details>"


def _css_class(status: str) -> str:
    return status if status in ("completed", "failed", "interrupted") else "other"


def _result_html(event: ToolReturned, tool: str) -> str:
    shown = [*_content_html(event.content)]
    output = _display_text(event.output)
    if output and not shown:
        shown.append(f"<pre>{escape_text(cut_piece(output))}</pre>")
    head = f"<code>{escape_text(tool)}</code> {escape_text(event.status)}"
    if not shown:
        return f"<b>←</b>{head}"
    is_open = " open" if any("class=diff" in part for part in shown) else ""
    return f"<b>←</b><details{is_open}><summary>{head}</summary>{''.join(shown)}</details>"


def _content_html(content: msgspec.Raw) -> Iterator[str]:
    found = _decode(content)
    for part in found if isinstance(found, list) else []:
        if not isinstance(part, dict):
            continue
        if part.get("type") == "diff":
            yield _diff_html(str(part.get("path")), str(part.get("oldText") or ""), str(part.get("newText") or ""))
        elif part.get("type") == "terminal" and part.get("output"):
            yield f"<pre>{escape_text(cut_piece(str(part['output'])))}</pre>"
        elif isinstance(inner := part.get("content"), dict) and inner.get("type") == "text":
            yield f"<pre>{escape_text(cut_piece(str(inner.get('text'))))}</pre>"
        else:
            yield f"<pre>{escape_text(cut_piece(json.dumps(part, ensure_ascii=False)))}</pre>"


def _diff_html(path: str, old: str, new: str) -> str:
    before, after = old.splitlines(), new.splitlines()
    if max(len(before), len(after)) > _MAX_DIFF_LINES:
        return f"<p>{escape_text(path)}, {len(after):,} lines</p><pre>{escape_text(cut_piece(new))}</pre>"
    lines = [line for line in unified_diff(before, after, lineterm="") if not line.startswith(("---", "+++"))]
    kinds = {"+": "add", "-": "del", "@": "at"}
    body = "".join(f'<span class="{kinds.get(line[:1], "same")}">{escape_text(line)}\n</span>' for line in lines)
    return f"<p>{escape_text(path)}</p><pre class=diff>{body}</pre>"


def _display_text(raw: msgspec.Raw) -> str:
    """Return text unchanged, and other values as JSON."""
    found = _decode(raw)
    if found is None or isinstance(found, str):
        return found or ""
    return json.dumps(found, ensure_ascii=False, indent=1)


def _decode(raw: msgspec.Raw) -> Any:
    try:
        return msgspec.json.decode(raw) if raw != JSON_NULL else None
    except (msgspec.MsgspecError, RecursionError):
        return bytes(raw).decode(errors="replace")
