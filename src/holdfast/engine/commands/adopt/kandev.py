"""Kandev: `~/.kandev/sessions/<id>.jsonl`, the history that it recorded of one conversation."""

import os
from collections.abc import Iterator
from typing import Any

from holdfast.core.decide.attribution import WORKER
from holdfast.core.work.foreign_tools import Tool
from holdfast.engine.commands.adopt.base import Entry, EntryKind, ForeignSession, Liveness
from holdfast.engine.commands.adopt.conversation import ConversationFacts, conversation_session
from holdfast.engine.commands.adopt.lines import JsonLines, head_of, text_of

_TYPES = ("user_message", "agent_message", "tool_call", "tool_result")
_TEXT_FIELDS = ("content", "text", "message")
_TOOL_FIELDS = ("tool_name", "toolName", "tool", "name")
_TIME_FIELDS = ("timestamp", "ts", "created_at")
_FAILED_STATUSES = ("failed", "error")
_CALL_FIELDS = ("tool_call_id", "toolCallId", "call_id", "id")


def sessions_folder() -> str:
    return os.path.join(os.path.expanduser("~"), ".kandev", "sessions")


def is_session(path: str) -> bool:
    return any(line.get("type") in _TYPES and not {"sid", "payload"} & line.keys() for line in head_of(path))


def read(path: str) -> ForeignSession:
    lines = JsonLines(path)
    for _ in lines:
        pass  # to count the damaged ones
    facts = ConversationFacts(
        tool=Tool.KANDEV,
        path=path,
        session_id=os.path.splitext(os.path.basename(path))[0],
        native_agent=None,  # the history has no session of the agent; Kandev's database has it
        finding=lines.finding(),
    )
    session = conversation_session(facts, lambda: _history(path))
    session.liveness = Liveness(files=(os.path.abspath(path),))
    session.findings.append("Kandev records no branch in its history; the work is taken from the repository's checkout")
    return session


def _first(item: dict[str, Any], names: tuple[str, ...]) -> Any:
    return next((item[name] for name in names if item.get(name) not in (None, "")), None)


def _history(path: str) -> Iterator[Entry]:
    source = os.path.basename(path)
    last_call = ""
    for position, item in JsonLines(path):
        kind = item.get("type")
        if kind not in _TYPES:
            continue
        base = Entry(WORKER, EntryKind.USER, source, position, text_of(_first(item, _TIME_FIELDS)) or None)
        tool = text_of(_first(item, _TOOL_FIELDS))
        match kind:
            case "user_message" | "agent_message":
                speaker = EntryKind.USER if kind == "user_message" else EntryKind.AGENT
                yield base._replace(kind=speaker, text=text_of(_first(item, _TEXT_FIELDS)))
            case "tool_call":
                last_call = text_of(_first(item, _CALL_FIELDS)) or f"kandev-{position}"
                data = _first(item, ("tool_args", "input", "args", "arguments", *_TEXT_FIELDS))
                yield base._replace(kind=EntryKind.CALL, tool=tool, call=last_call, data=data)
            case _:
                call = text_of(_first(item, _CALL_FIELDS)) or last_call
                data = _first(item, ("result", "output", "tool_result", *_TEXT_FIELDS))
                is_failed = item.get("tool_status") in _FAILED_STATUSES
                yield base._replace(kind=EntryKind.RESULT, tool=tool, call=call, data=data, failed=is_failed)
