"""Claude Code: `projects/<folder>/<session>.jsonl`, a tree of messages.

Forks and rewinds are branches of the tree; the path to the newest message is the session as it is.
"""

import os
from collections.abc import Iterator
from typing import Any, NamedTuple

from holdfast.core.decide.attribution import WORKER
from holdfast.core.work.foreign_tools import Tool
from holdfast.engine.commands.adopt.base import Entry, EntryKind, ForeignSession, Liveness, Spent
from holdfast.engine.commands.adopt.conversation import ConversationFacts, conversation_session
from holdfast.engine.commands.adopt.lines import (
    JsonLines,
    head_of,
    number,
    plausible_amount,
    rows,
    table,
    text_of,
    text_or_none,
)

NATIVE_AGENT = "claude"
_COST = "cost-state"  # what the session has cost so far, written when Claude Code ends
_SPOKEN = ("user", "assistant")
_OPEN = {"tool_use": True, "end_turn": False, "stop_sequence": False}  # by the reason why an answer ended
_WRAPPERS = (
    "<command-name>",
    "<command-message>",
    "<local-command-",
    "<system-reminder>",
    "Caveat: The messages below",
)


def projects_folder() -> str:
    home = os.environ.get("CLAUDE_CONFIG_DIR") or os.path.join(os.path.expanduser("~"), ".claude")
    return os.path.join(home, "projects")


def folder_of(cwd: str) -> str:
    """The name of the folder with the sessions of a working directory."""
    return "".join(char if char.isascii() and char.isalnum() else "-" for char in cwd)


def is_session(path: str) -> bool:
    """A session of its own; not one of a subagent, which only has side chains."""
    lines = [line for line in head_of(path) if "sessionId" in line and "type" in line and "sid" not in line]
    spoken = [line for line in lines if line["type"] in _SPOKEN]
    return bool(lines) and not (spoken and all(line.get("isSidechain") is True for line in spoken))


class _Place(NamedTuple):
    """Where a line is, and what it follows. `message` is the model's answer that an assistant's line is a part of."""

    parent: str
    position: int
    message: str = ""


class _Tree:
    """The messages of a file by their ids, as the bytes where they start: the texts are not kept."""

    def __init__(self, path: str) -> None:
        self.lines = JsonLines(path)
        self.places: dict[str, _Place] = {}
        self.order: list[str] = []  # what was said, in the order of the file; without subagents
        self.results: dict[str, list[str]] = {}  # lines with results of tools, by the line that they follow
        self.newest: str | None = None
        self.is_open: bool | None = None  # whether the newest line says that the turn continues, if it says so
        self.meta: dict[str, Any] = {}
        self.began_in: str | None = None
        self.dollars: float | None = None
        self.usage: dict[str, tuple[int, int]] = {}
        self.gaps = 0
        for position, item in self.lines:
            self._add(position, item)

    def _add(self, position: int, item: dict[str, Any]) -> None:
        name, kind = item.get("uuid"), item.get("type")
        if kind == _COST:
            self.dollars = plausible_amount(item.get("totalCostUSD")) or self.dollars
        if not isinstance(name, str):
            return
        parent = text_or_none(item.get("parentUuid") or item.get("logicalParentUuid")) or ""
        message = table(item.get("message"))
        answer = text_of(message.get("id")) if kind == "assistant" else ""
        self.places[name] = _Place(parent, position, answer)
        if kind not in _SPOKEN:
            return
        if usage := table(message.get("usage")):
            self.usage[answer or name] = (number(usage.get("input_tokens")), number(usage.get("output_tokens")))
        if item.get("isSidechain") is True:
            return
        self.newest = name
        self.order.append(name)
        self.is_open = _OPEN.get(text_of(message.get("stop_reason"))) if kind == "assistant" else None
        self.began_in = self.began_in or text_or_none(item.get("cwd"))
        for key in ("cwd", "gitBranch", "sessionId", "version"):
            if isinstance(item.get(key), str):
                self.meta[key] = item[key]
        if any(table(block).get("type") == "tool_result" for block in rows(message.get("content"))):
            self.results.setdefault(parent, []).append(name)

    def positions(self) -> set[int]:
        """Where the messages of the path to the newest one start."""
        path = self._path()
        on_path = set(path)
        for name in self.order:  # calls at once: each has a line of its own, and the results follow their calls
            place = self.places[name]
            above = self.places.get(place.parent)
            if place.parent in on_path and above is not None and place.message and place.message == above.message:
                on_path.add(name)
        for name in [name for name in on_path if self.places[name].message]:
            on_path.update(self.results.get(name, ()))
        return {self.places[name].position for name in on_path}

    def _path(self) -> list[str]:
        """From the newest message to the first one. A damaged line is no end: the message before it follows."""
        path: list[str] = []
        seen: set[str] = set()
        before = len(self.order)
        name = self.newest
        while name and name not in seen:
            seen.add(name)
            path.append(name)
            parent = self.places[name].parent
            if parent and parent not in self.places:
                self.gaps += 1
                position = self.places[name].position
                while before and self.places[self.order[before - 1]].position >= position:
                    before -= 1
                parent = self.order[before - 1] if before else ""
            name = parent
        return path


def is_spoken(text: str) -> bool:
    return bool(text.strip()) and not text.lstrip().startswith(_WRAPPERS)


def _texts(content: Any) -> list[str]:
    if isinstance(content, str):
        return [content]
    return [text_of(table(block).get("text")) for block in rows(content) if table(block).get("type") == "text"]


def read(path: str) -> ForeignSession:
    tree = _Tree(path)
    on_path = tree.positions()
    finding = tree.lines.finding()
    if tree.gaps and not tree.lines.skipped:
        finding = f"{os.path.basename(path)}: messages that others follow are missing ({tree.gaps})"
    session_id = text_of(tree.meta.get("sessionId")) or os.path.splitext(os.path.basename(path))[0]
    tree.places.clear()  # not needed any more: the positions are enough
    tree.order.clear()
    tree.results.clear()
    cwd = _project(tree)
    facts = ConversationFacts(
        tool=Tool.CLAUDE_CODE,
        path=path,
        session_id=session_id,
        native_agent=NATIVE_AGENT,
        finding=finding,
        interrupted=tree.is_open,
    )
    session = conversation_session(facts, lambda: _history(path, on_path))
    session.version = text_or_none(tree.meta.get("version"))
    session.cwd = session.repo = cwd
    branch = text_or_none(tree.meta.get("gitBranch"))
    session.branch = branch if branch != "HEAD" else None
    session.spent = Spent(
        input_tokens=sum(used for used, _ in tree.usage.values()),
        output_tokens=sum(used for _, used in tree.usage.values()),
        dollars=tree.dollars,
    )
    session.liveness = Liveness(
        files=(os.path.abspath(path),), words=(session_id,), folders=(cwd,) if cwd else (), program=NATIVE_AGENT
    )
    return session


def _project(tree: _Tree) -> str | None:
    """Where the session began: its shell may be elsewhere by now. Where it is now, when that folder is gone."""
    places = (tree.began_in, text_or_none(tree.meta.get("cwd")))
    return next((place for place in places if place is not None and os.path.isdir(place)), tree.began_in)


def _history(path: str, on_path: set[int]) -> Iterator[Entry]:
    source = os.path.basename(path)
    for position, item in JsonLines(path):
        if position in on_path and item.get("type") in _SPOKEN and not item.get("isMeta"):
            at = item.get("timestamp")
            base = Entry(WORKER, EntryKind.USER, source, position, at if isinstance(at, str) else None)
            yield from _entries(base, str(item["type"]), table(item.get("message")).get("content"))


def _entries(base: Entry, kind: str, content: Any) -> Iterator[Entry]:
    speaker = EntryKind.USER if kind == "user" else EntryKind.AGENT
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else rows(content)
    for block in map(table, blocks):
        match block.get("type"):
            case "text" if is_spoken(text_of(block.get("text"))):
                yield base._replace(kind=speaker, text=text_of(block.get("text")))
            case "thinking" if block.get("thinking"):
                yield base._replace(kind=EntryKind.THOUGHT, text=text_of(block.get("thinking")))
            case "tool_use":
                yield base._replace(
                    kind=EntryKind.CALL,
                    tool=text_of(block.get("name")),
                    call=text_of(block.get("id")),
                    data=block.get("input"),
                )
            case "tool_result":
                yield base._replace(
                    kind=EntryKind.RESULT,
                    call=text_of(block.get("tool_use_id")),
                    data=_result(block.get("content")),
                    failed=block.get("is_error") is True,
                )


def _result(content: Any) -> Any:
    texts = _texts(content)
    return "\n".join(texts) if texts else content
