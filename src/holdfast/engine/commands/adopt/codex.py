"""Codex: `sessions/YYYY/MM/DD/rollout-<time>-<session>.jsonl`, the items of one conversation in their order."""

import os
import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from holdfast.core.decide.attribution import WORKER
from holdfast.core.work.foreign_tools import Tool
from holdfast.engine.commands.adopt.base import Entry, EntryKind, ForeignSession, Liveness, Spent
from holdfast.engine.commands.adopt.conversation import ConversationFacts, conversation_session
from holdfast.engine.commands.adopt.lines import JsonLines, head_of, number, rows, table, text_of, text_or_none

NATIVE_AGENT = "codex"
_WRAPPERS = (
    "<environment_context>",
    "<user_instructions>",
    "<permissions",
    "<turn_aborted>",
    "<skill",
    "# AGENTS.md instructions",
)
_LINE_TYPES = ("session_meta", "turn_context", "response_item", "event_msg")
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
_CALLS = ("function_call", "custom_tool_call", "local_shell_call")
_OUTPUTS = ("function_call_output", "custom_tool_call_output")


def sessions_folder() -> str:
    home = os.environ.get("CODEX_HOME") or os.path.join(os.path.expanduser("~"), ".codex")
    return os.path.join(home, "sessions")


def is_session(path: str) -> bool:
    """By any of its first lines: the very first one may be damaged."""
    return any(
        line.get("type") in _LINE_TYPES and isinstance(line.get("payload"), dict) and "sid" not in line
        for line in head_of(path, 3)
    )


def works_in(path: str, tops: Sequence[str]) -> bool:
    """Whether a session names one of these folders as its own at its start; or none at all."""
    if not is_session(path):
        return False
    named = [table(line.get("payload")).get("cwd") for line in head_of(path, 3) if line.get("type") == "session_meta"]
    folders = [os.path.realpath(cwd) for cwd in map(text_or_none, named) if cwd is not None]
    return not folders or any(folder == top or folder.startswith(f"{top}/") for folder in folders for top in tops)


class _Overview:
    """One pass: the session's facts, and whether its last turn ended."""

    def __init__(self, path: str) -> None:
        self.meta: dict[str, Any] = {}
        self.cwd: str | None = None
        self.usage: dict[str, Any] = {}
        self.turn_open: bool | None = None  # None when the log has no turns
        self.lines = JsonLines(path)
        for _, item in self.lines:
            self._add(str(item.get("type")), table(item.get("payload")))

    def _add(self, kind: str, payload: dict[str, Any]) -> None:
        match kind:
            case "session_meta":
                self.meta = self.meta or payload
                self.cwd = text_or_none(payload.get("cwd")) or self.cwd
            case "turn_context":
                self.cwd = text_or_none(payload.get("cwd")) or self.cwd
            case "token_usage_record":
                self.usage = table(payload.get("thread_token_usage")) or self.usage
            case "event_msg":
                self._add_event(text_of(payload.get("type")), payload)

    def _add_event(self, kind: str, payload: dict[str, Any]) -> None:
        if kind == "task_started":
            self.turn_open = True
        elif kind in ("task_complete", "turn_aborted"):
            self.turn_open = False
        elif kind == "token_count":
            self.usage = table(table(payload.get("info")).get("total_token_usage")) or self.usage


def _id_in_name(path: str) -> str:
    stem = os.path.splitext(os.path.basename(path))[0]
    found = _ID.search(stem)
    return found[0] if found is not None else stem


def is_spoken(text: str) -> bool:
    return bool(text.strip()) and not text.lstrip().startswith(_WRAPPERS)


def _texts(payload: dict[str, Any]) -> list[str]:
    content = payload.get("content")
    if isinstance(content, str):
        return [content]
    return [text for text in (text_of(table(part).get("text")) for part in rows(content)) if text]


def read(path: str) -> ForeignSession:
    overview = _Overview(path)
    meta = overview.meta
    session_id = text_of(meta.get("session_id") or meta.get("id")) or _id_in_name(path)
    facts = ConversationFacts(
        tool=Tool.CODEX,
        path=path,
        session_id=session_id,
        native_agent=NATIVE_AGENT,
        finding=overview.lines.finding(),
        interrupted=overview.turn_open,
    )
    session = conversation_session(facts, lambda: _history(path))
    session.version = text_or_none(meta.get("cli_version"))
    session.cwd = session.repo = overview.cwd
    session.branch = text_or_none(table(meta.get("git")).get("branch"))
    usage = overview.usage
    session.spent = Spent(
        input_tokens=number(usage.get("input_tokens")), output_tokens=number(usage.get("output_tokens"))
    )
    session.liveness = Liveness(
        files=(os.path.abspath(path),),
        words=(session_id,),
        folders=(overview.cwd,) if overview.cwd else (),
        program=NATIVE_AGENT,
    )
    return session


def _history(path: str) -> Iterator[Entry]:
    source = os.path.basename(path)
    for position, item in JsonLines(path):
        if item.get("type") == "response_item":
            at = item.get("timestamp")
            base = Entry(WORKER, EntryKind.USER, source, position, at if isinstance(at, str) else None)
            yield from _entries(base, table(item.get("payload")))


def _entries(base: Entry, payload: dict[str, Any]) -> Iterator[Entry]:
    kind = payload.get("type")
    if kind == "message" and payload.get("role") in ("user", "assistant"):
        speaker = EntryKind.USER if payload["role"] == "user" else EntryKind.AGENT
        for text in _texts(payload):
            if is_spoken(text):
                yield base._replace(kind=speaker, text=text)
    elif kind == "reasoning":
        for part in rows(payload.get("summary")):
            if thought := text_of(table(part).get("text")):
                yield base._replace(kind=EntryKind.THOUGHT, text=thought)
    elif kind in _CALLS:
        call = text_of(payload.get("call_id") or payload.get("id"))
        tool = text_of(payload.get("name")) or "shell"
        yield base._replace(kind=EntryKind.CALL, tool=tool, call=call, data=_arguments(payload))
    elif kind in _OUTPUTS:
        output = payload.get("output")
        data = output.get("content", output) if isinstance(output, dict) else output
        yield base._replace(kind=EntryKind.RESULT, call=text_of(payload.get("call_id")), data=data)


def _arguments(payload: dict[str, Any]) -> Any:
    given = payload.get("arguments", payload.get("input", payload.get("action")))
    if not isinstance(given, str):
        return given
    try:
        return msgspec.json.decode(given.encode())
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        return given
