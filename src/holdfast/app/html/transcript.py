"""What was said and done in conversations, as HTML: one piece an event, in the order of the log."""

import json
from collections.abc import Iterator
from difflib import unified_diff
from typing import Any

import msgspec

from holdfast.app.html.escape import cut, folded, words
from holdfast.app.text.events import told
from holdfast.core.conversation.call_text import lines_of
from holdfast.core.events import Event
from holdfast.core.events.base import NOTHING
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

TALK = tuple(kind for kind in FAMILY if kind is not PermissionAnswered)  # that one does not say whose it is

_LINES = 600  # of a file, up to which its changes are worked out
_NAMES = {"user": "Holdfast", "agent": "agent", "thought": "thought", "system": "system"}


class Transcript:
    """Makes the pieces. Remembers only the names of the calls that have not come back."""

    def __init__(self) -> None:
        self._tools: dict[tuple[str, str], str] = {}

    def piece(self, event: Event, ts: str | None) -> str | None:
        match event:
            case MessageRecorded():
                kind = event.speaker if event.speaker in _NAMES else "system"
                return _piece(f"said {kind}", ts, f"<b>{words(_NAMES[kind])}</b>{folded(event.text)}")
            case ToolCalled():
                self._tools[event.conversation, event.call] = event.tool
                asked = _shown(event.input)
                more = f"<details><summary>input</summary><pre>{words(cut(asked))}</pre></details>" if asked else ""
                return _piece("call", ts, f"<b>→</b><code>{words(event.tool)}</code>{more}")
            case ToolReturned():
                tool = self._tools.pop((event.conversation, event.call), "a tool")
                return _piece(f"result {_class(event.status)}", ts, _result(event, tool))
            case PermissionRequested():
                return _piece("note", ts, f"{words(told(event) or '')}{_listed(lines_of(event))}")
            case TurnStarted():
                return f"<hr><p class=turn>turn {words(event.turn)}</p>"
            case TurnEnded() if event.stop_reason in (None, "end_turn"):
                return None
            case _:
                line = told(event)
                return _piece("note", ts, words(line)) if line else None


def _piece(kind: str, ts: str | None, body: str) -> str:
    return f'<div class="e {kind}"><time>{words((ts or "")[11:19])}</time>{body}</div>'


def _listed(lines: list[str]) -> str:
    return f"<details><summary>what it asks for</summary><pre>{words(cut(chr(10).join(lines)))}</pre></details>"


def _class(status: str) -> str:
    return status if status in ("completed", "failed", "interrupted") else "other"


def _result(event: ToolReturned, tool: str) -> str:
    shown = [*_contents(event.content)]
    output = _shown(event.output)
    if output and not shown:
        shown.append(f"<pre>{words(cut(output))}</pre>")
    head = f"<code>{words(tool)}</code> {words(event.status)}"
    if not shown:
        return f"<b>←</b>{head}"
    is_open = " open" if any("class=diff" in one for one in shown) else ""
    return f"<b>←</b><details{is_open}><summary>{head}</summary>{''.join(shown)}</details>"


def _contents(content: msgspec.Raw) -> Iterator[str]:
    found = _decoded(content)
    for part in found if isinstance(found, list) else []:
        if not isinstance(part, dict):
            continue
        if part.get("type") == "diff":
            yield _diff(str(part.get("path")), str(part.get("oldText") or ""), str(part.get("newText") or ""))
        elif part.get("type") == "terminal" and part.get("output"):
            yield f"<pre>{words(cut(str(part['output'])))}</pre>"
        elif isinstance(inner := part.get("content"), dict) and inner.get("type") == "text":
            yield f"<pre>{words(cut(str(inner.get('text'))))}</pre>"
        else:
            yield f"<pre>{words(cut(json.dumps(part, ensure_ascii=False)))}</pre>"


def _diff(path: str, old: str, new: str) -> str:
    before, after = old.splitlines(), new.splitlines()
    if max(len(before), len(after)) > _LINES:
        return f"<p>{words(path)}, {len(after):,} lines</p><pre>{words(cut(new))}</pre>"
    lines = [line for line in unified_diff(before, after, lineterm="") if not line.startswith(("---", "+++"))]
    kinds = {"+": "add", "-": "del", "@": "at"}
    body = "".join(f'<span class="{kinds.get(line[:1], "same")}">{words(line)}\n</span>' for line in lines)
    return f"<p>{words(path)}</p><pre class=diff>{body}</pre>"


def _shown(raw: msgspec.Raw) -> str:
    """A value as people read it: text as it is, the rest as JSON."""
    found = _decoded(raw)
    if found is None or isinstance(found, str):
        return found or ""
    return json.dumps(found, ensure_ascii=False, indent=1)


def _decoded(raw: msgspec.Raw) -> Any:
    try:
        return msgspec.json.decode(raw) if raw != NOTHING else None
    except (msgspec.MsgspecError, RecursionError):
        return bytes(raw).decode(errors="replace")
