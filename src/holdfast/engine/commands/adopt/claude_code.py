"""Claude Code: `projects/<folder>/<session>.jsonl`, a tree of messages.

Forks and rewinds are branches of the tree; the path to the newest message is the session as it is.
"""

import os
from collections.abc import Iterator
from typing import Any

from holdfast.core.decide.attribution import WORKER
from holdfast.core.work.foreign_tools import Tool
from holdfast.engine.commands.adopt.base import Entry, EntryKind, ForeignSession, Liveness, Spent
from holdfast.engine.commands.adopt.conversation import ConversationFacts, conversation_session
from holdfast.engine.commands.adopt.lines import JsonLines, head_of, number, rows, table, text_of, text_or_none

NATIVE_AGENT = "claude"
_SPOKEN = ("user", "assistant")
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


def is_session(path: str) -> bool:
    lines = head_of(path)
    return any("sessionId" in line and "type" in line for line in lines) and not any("sid" in line for line in lines)


class _Tree:
    """The messages of a file by their ids, as the bytes where they start: the texts are not kept."""

    def __init__(self, path: str) -> None:
        self.lines = JsonLines(path)
        self.parents: dict[str, tuple[str, int]] = {}
        self.newest: str | None = None
        self.meta: dict[str, Any] = {}
        self.usage: dict[str, tuple[int, int]] = {}
        self.goal: str | None = None
        for position, item in self.lines:
            self._add(position, item)

    def _add(self, position: int, item: dict[str, Any]) -> None:
        name = item.get("uuid")
        if not isinstance(name, str):
            return
        parent = item.get("parentUuid") or item.get("logicalParentUuid")
        self.parents[name] = (parent if isinstance(parent, str) else "", position)
        if item.get("isSidechain") is True or item.get("type") not in _SPOKEN:
            return
        self.newest = name
        for key in ("cwd", "gitBranch", "sessionId", "version"):
            if isinstance(item.get(key), str):
                self.meta[key] = item[key]
        message = table(item.get("message"))
        if self.goal is None and item.get("type") == "user" and not item.get("isMeta"):
            self.goal = next((text for text in _texts(message.get("content")) if is_spoken(text)), None)
        usage = table(message.get("usage"))
        if usage:
            key = text_of(message.get("id")) or name
            self.usage[key] = (number(usage.get("input_tokens")), number(usage.get("output_tokens")))

    def positions(self) -> set[int]:
        """Where the messages of the path to the newest one start."""
        found: set[int] = set()
        name = self.newest
        while name and name in self.parents:
            name, position = self.parents[name]
            if position in found:
                break
            found.add(position)
        return found


def is_spoken(text: str) -> bool:
    return bool(text.strip()) and not text.lstrip().startswith(_WRAPPERS)


def _texts(content: Any) -> list[str]:
    if isinstance(content, str):
        return [content]
    return [text_of(table(block).get("text")) for block in rows(content) if table(block).get("type") == "text"]


def read(path: str) -> ForeignSession:
    tree = _Tree(path)
    on_path = tree.positions()
    session_id = text_of(tree.meta.get("sessionId")) or os.path.splitext(os.path.basename(path))[0]
    del tree.parents  # not needed any more: the positions are enough
    cwd = text_or_none(tree.meta.get("cwd"))
    facts = ConversationFacts(
        tool=Tool.CLAUDE_CODE,
        path=path,
        session_id=session_id,
        goal=tree.goal,
        native_agent=NATIVE_AGENT,
        finding=tree.lines.finding(),
    )
    session = conversation_session(facts, lambda: _history(path, on_path))
    session.version = text_or_none(tree.meta.get("version"))
    session.cwd = session.repo = cwd
    branch = text_or_none(tree.meta.get("gitBranch"))
    session.branch = branch if branch != "HEAD" else None
    session.spent = Spent(
        input_tokens=sum(used for used, _ in tree.usage.values()),
        output_tokens=sum(used for _, used in tree.usage.values()),
    )
    session.liveness = Liveness(
        files=(os.path.abspath(path),), words=(session_id,), folders=(cwd,) if cwd else (), program=NATIVE_AGENT
    )
    return session


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
