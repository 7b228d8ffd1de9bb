"""What a tool call will do, from everything that its agent reported about it.

An agent describes a call in several messages. The first often has only a title, which may be the model's own
description; the input comes in later updates or with the permission request. Some agents stream the input only as text.
This module combines all of it, so that people, rules and hooks judge what will really run.
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
    """One tool call. `title` is the agent's description; `name` is the tool's name in the agent's program.

    `server` is the MCP server of the tool, if the program says so. `note` is text that came with the request.
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
    """The call that an agent asks about. `known` is the content of its earlier updates."""
    known = known or {}
    merged = {**known, **{name: value for name, value in requested.items() if value not in (None, [], {})}}
    contents = [content for content in (requested.get("content"), known.get("content")) if isinstance(content, list)]
    texts = [_text_of(content) for content in contents]
    call_input = _merged_input(requested.get("rawInput"), known.get("rawInput"), texts)
    diffs = next((found for content in contents if (found := tuple(_diffs_in(content)))), ())
    kind = merged.get("kind")
    metas = [meta for update in (requested, known) if isinstance(meta := update.get("_meta"), Mapping)]
    paths = (*_location_paths(merged.get("locations")), *(diff.path for diff in diffs), *_paths_in(call_input))
    return ToolCall(
        id=str(merged.get("toolCallId") or ""),
        title=str(merged.get("title") or kind or "a tool"),
        kind=str(kind or "other"),
        paths=tuple(dict.fromkeys(paths)),
        command=command_of(call_input),
        diffs=diffs,
        input=call_input,
        note="" if call_input is not None else next((text for text in texts if text), ""),
        name=next((name for meta in metas if (name := _name_in(meta)) is not None), None),
        server=next((server for meta in metas if (server := _server_in(meta)) is not None), None),
    )


def command_of(tool_input: object) -> str | None:
    """The command line in a tool's input; for `sh -c SCRIPT`, the script itself."""
    if not isinstance(tool_input, Mapping):
        return None
    found = next((tool_input[key] for key in _COMMAND_KEYS if tool_input.get(key)), None)
    if isinstance(found, str):
        arguments = next((tool_input[key] for key in _ARGUMENT_KEYS if _is_word_list(tool_input.get(key))), None)
        return _join_command([found, *arguments]) if arguments else found
    return _join_command(found) if _is_word_list(found) else None


def _join_command(words: Any) -> str:
    shell = str(words[0]).rpartition("/")
    is_shell = shell[2] in _SHELLS and shell[0] in ("", "/bin", "/usr/bin", "/usr/local/bin")
    if is_shell and len(words) == _SHELL_CALL_WORDS and words[1] in _SHELL_FLAGS:
        return str(words[2])
    return shlex.join(words)


def _is_word_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str) and all(isinstance(word, str) for word in value)


def _merged_input(requested: object, known: object, texts: Sequence[str]) -> Any:
    """The input of the call. A request that repeats only part of it does not hide the rest."""
    if isinstance(requested, Mapping) and isinstance(known, Mapping):
        return {**known, **requested} or _input_from_text(texts)
    found = next((value for value in (requested, known) if value not in (None, {}, [], "")), None)
    return found if found is not None else _input_from_text(texts)


def _input_from_text(texts: Sequence[str]) -> Any:
    """The input of an agent that streams it as text: a JSON object and nothing else."""
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
    blocks = (part.get("content") for part in content if isinstance(part, Mapping) and part.get("type") == "content")
    texts = (block.get("text") for block in blocks if isinstance(block, Mapping) and block.get("type") == "text")
    return "\n".join(text for text in texts if isinstance(text, str))


def _diffs_in(content: Sequence[object]) -> Iterator[FileDiff]:
    for part in content:
        if isinstance(part, Mapping) and part.get("type") == "diff":
            path, old, new = part.get("path"), part.get("oldText"), part.get("newText")
            yield FileDiff(path=str(path), old=old if isinstance(old, str) else None, new=str(new or ""))


def _location_paths(locations: object) -> Iterator[str]:
    for location in locations if isinstance(locations, list) else ():
        if isinstance(location, Mapping) and isinstance(location.get("path"), str):
            yield location["path"]


def _paths_in(tool_input: object) -> Iterator[str]:
    for key in _PATH_KEYS if isinstance(tool_input, Mapping) else ():
        if isinstance(path := tool_input.get(key), str) and path:  # type: ignore[attr-defined]  # a mapping, by now
            yield path


def _name_in(meta: Mapping[str, Any]) -> str | None:
    """The tool name, where the adapters of Claude Code and Qwen Code put it."""
    own = meta.get("claudeCode")
    places = (own.get("toolName") if isinstance(own, Mapping) else None, meta.get("toolName"))
    return next((name for name in places if isinstance(name, str)), None)


def _server_in(meta: Mapping[str, Any]) -> str | None:
    own = meta.get("claudeCode")
    server = own.get("mcpServer") if isinstance(own, Mapping) else None
    name = server.get("name") if isinstance(server, Mapping) else None
    return name if isinstance(name, str) else None
