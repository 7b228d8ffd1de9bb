"""What a tool call will do, read from everything that its agent told about it.

An agent describes a call in several messages. The first often has only a title, which may be the model's own
description of the call; the input comes in later updates or with the permission request. Some agents stream the input
as text only. Here all of it becomes one value, so that a person, a rule and a hook judge what will really run.
"""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from holdfast.core.events.conversation import FileDiff

_COMMAND_KEYS = ("command", "cmd")
_ARGUMENT_KEYS = ("args", "arguments")
_PATH_KEYS = ("path", "file_path", "filePath", "filepath", "fileName", "notebook_path", "absolute_path")
_SHELLS = frozenset({"sh", "bash", "zsh", "dash"})
_SHELL_FLAGS = frozenset({"-c", "-lc", "-ic", "-cl"})
_SHELL_CALL_WORDS = 3  # a shell, -c, a script


class ToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """One call of a tool. `title` is what the agent calls it; `name` is the tool's name by the agent's own program.

    `server` is the MCP server that has the tool, where the program tells. `note` is text that came with the request.
    """

    id: str
    title: str
    kind: str = "other"
    paths: tuple[str, ...] = ()
    command: str | None = None
    diffs: tuple[FileDiff, ...] = ()
    input: Any = None
    note: str = ""
    name: str | None = None
    server: str | None = None


def read_tool_call(requested: Mapping[str, Any], known: Mapping[str, Any] | None = None) -> ToolCall:
    """The call that an agent asks about. `known` is what its earlier updates told of it."""
    known = known or {}
    told = {**known, **{name: value for name, value in requested.items() if value not in (None, [], {})}}
    content = [one for one in (requested.get("content"), known.get("content")) if isinstance(one, list)]
    texts = [_text_of(one) for one in content]
    given = _merged_input(requested.get("rawInput"), known.get("rawInput"), texts)
    diffs = next((found for one in content if (found := tuple(_diffs_in(one)))), ())
    kind = told.get("kind")
    metas = [meta for one in (requested, known) if isinstance(meta := one.get("_meta"), Mapping)]
    return ToolCall(
        id=str(told.get("toolCallId") or ""),
        title=str(told.get("title") or kind or "a tool"),
        kind=str(kind or "other"),
        paths=tuple(dict.fromkeys([*_located(told.get("locations")), *(one.path for one in diffs), *_paths_in(given)])),
        command=command_of(given),
        diffs=diffs,
        input=given,
        note="" if given is not None else next((text for text in texts if text), ""),
        name=next((name for meta in metas if (name := _name_in(meta)) is not None), None),
        server=next((server for meta in metas if (server := _server_in(meta)) is not None), None),
    )


def command_of(given: object) -> str | None:
    """The command line in a tool's input; the script itself where a shell is called with one."""
    if not isinstance(given, Mapping):
        return None
    found = next((given[key] for key in _COMMAND_KEYS if given.get(key)), None)
    if isinstance(found, str):
        arguments = next((given[key] for key in _ARGUMENT_KEYS if _is_words(given.get(key))), None)
        return _joined([found, *arguments]) if arguments else found
    return _joined(found) if _is_words(found) else None


def _joined(words: Any) -> str:
    shell = str(words[0]).rpartition("/")
    is_shell = shell[2] in _SHELLS and shell[0] in ("", "/bin", "/usr/bin", "/usr/local/bin")
    if is_shell and len(words) == _SHELL_CALL_WORDS and words[1] in _SHELL_FLAGS:
        return str(words[2])
    return shlex.join(words)


def _is_words(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str) and all(isinstance(one, str) for one in value)


def _merged_input(requested: object, known: object, texts: Sequence[str]) -> Any:
    """What the call is made with. A request that repeats only a part of it, or nothing, does not hide the rest."""
    if isinstance(requested, Mapping) and isinstance(known, Mapping):
        return {**known, **requested} or _written_out(texts)
    found = next((one for one in (requested, known) if one not in (None, {}, [], "")), None)
    return found if found is not None else _written_out(texts)


def _written_out(texts: Sequence[str]) -> Any:
    """The input of an agent that streams it as text: an object of JSON, and nothing beside it."""
    for text in texts:
        if text.lstrip().startswith("{"):
            try:
                found = msgspec.json.decode(text)
            except (msgspec.DecodeError, RecursionError):
                continue
            if isinstance(found, dict) and found:
                return found
    return None


def _text_of(content: Sequence[object]) -> str:
    blocks = (one.get("content") for one in content if isinstance(one, Mapping) and one.get("type") == "content")
    texts = (block.get("text") for block in blocks if isinstance(block, Mapping) and block.get("type") == "text")
    return "\n".join(text for text in texts if isinstance(text, str))


def _diffs_in(content: Sequence[object]) -> Iterator[FileDiff]:
    for one in content:
        if isinstance(one, Mapping) and one.get("type") == "diff":
            path, old, new = one.get("path"), one.get("oldText"), one.get("newText")
            yield FileDiff(path=str(path), old=old if isinstance(old, str) else None, new=str(new or ""))


def _located(locations: object) -> Iterator[str]:
    for one in locations if isinstance(locations, list) else ():
        if isinstance(one, Mapping) and isinstance(one.get("path"), str):
            yield one["path"]


def _paths_in(given: object) -> Iterator[str]:
    for key in _PATH_KEYS if isinstance(given, Mapping) else ():
        if isinstance(path := given.get(key), str) and path:  # type: ignore[attr-defined]  # a mapping, by now
            yield path


def _name_in(meta: Mapping[str, Any]) -> str | None:
    """Where the adapters of Claude Code and of Qwen Code name the tool."""
    own = meta.get("claudeCode")
    places = (own.get("toolName") if isinstance(own, Mapping) else None, meta.get("toolName"))
    return next((name for name in places if isinstance(name, str)), None)


def _server_in(meta: Mapping[str, Any]) -> str | None:
    own = meta.get("claudeCode")
    server = own.get("mcpServer") if isinstance(own, Mapping) else None
    name = server.get("name") if isinstance(server, Mapping) else None
    return name if isinstance(name, str) else None
