"""Recognise calls of Holdfast's own MCP tools, which never need permission.

An agent can write anything into a title. So the tool name decides, where the agent's program gives one. Otherwise the
title must be exactly a name that programs use for the tool, and the input must fit that tool: other calls have other
arguments. In doubt, the call is not ours and needs permission.
"""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.core.conversation.tool_call import ToolCall
from holdfast.core.messages.signals import ROLES, Signal

SERVER = "holdfast"

_TOOLS: Mapping[str, type[Signal]] = {kind.tool: kind for kinds in ROLES.values() for kind in kinds}
_NAME_FORMATS = (  # names of an MCP server's tool in different programs
    "mcp__{server}__{tool}",  # Claude Code, Qwen Code, Kimi, our own agent
    "mcp.{server}.{tool}",  # Codex
    "{server}.{tool}",
    "{server}/{tool}",  # Copilot
    "{server}-{tool}",
    "{server}_{tool}",  # OpenCode
    "mcp_{server}_{tool}",  # Gemini
    "{tool} ({server} MCP Server)",
    "{server}: {tool}",  # the playbook agent
)
_TITLES: Mapping[str, str] = {name.format(server=SERVER, tool=tool): tool for name in _NAME_FORMATS for tool in _TOOLS}
_HARMLESS_KINDS = frozenset({"other", "think", "read", "search"})
_CODEX_CALL = frozenset({"server", "tool", "arguments"})
_CODEX_APPROVAL = frozenset({"serverName", "description", "schema"})
_CODEX_TITLE = "MCP tool call approval"
_OMITTED_INPUT = re.compile(r"\[Payload omitted due to length with parameters: ([\w, ]+)\]")  # Gemini, of a long input


def own_tool(call: ToolCall) -> str | None:
    """The Holdfast tool that this call uses; None for any other call."""
    if call.name is not None:
        return _TITLES.get(call.name) if call.name.startswith("mcp__") and call.server in (None, SERVER) else None
    if call.title == _CODEX_TITLE:
        return _codex_approval(call)
    tool = _TITLES.get(call.title)
    return tool if tool is not None and _is_input_of(tool, call) else None


def is_report(call: ToolCall) -> bool:
    """Whether the call only reports to Holdfast. Not for permissions: some agents leave the server out of the title."""
    return own_tool(call) is not None or (call.title in _TOOLS and _is_input_of(call.title, call))


def _is_input_of(tool: str, call: ToolCall) -> bool:
    given = call.input
    if isinstance(given, Mapping) and given.keys() == _CODEX_CALL and "arguments" not in _fields(tool):
        return (given["server"], given["tool"]) == (SERVER, tool)
    if given is None:
        listed = _OMITTED_INPUT.fullmatch(call.note)
        return listed is not None and call.kind in _HARMLESS_KINDS and _has_fields_of(tool, listed[1].split(", "))
    return isinstance(given, Mapping) and call.kind in _HARMLESS_KINDS and _has_fields_of(tool, given)


def _has_fields_of(tool: str, names: Any) -> bool:
    """Whether the names include all required fields of the tool and no unknown ones."""
    return _required_fields(tool) <= set(names) <= _fields(tool)


def _codex_approval(call: ToolCall) -> str | None:
    """Codex sends this when it does not know which of several calls it asks about; only the server is named."""
    given = call.input
    is_ours = isinstance(given, Mapping) and given.keys() == _CODEX_APPROVAL and given["serverName"] == SERVER
    return SERVER if is_ours else None


def _fields(tool: str) -> set[str]:
    return {field.name for field in msgspec.structs.fields(_TOOLS[tool])}


def _required_fields(tool: str) -> set[str]:
    return {field.name for field in msgspec.structs.fields(_TOOLS[tool]) if field.required}
