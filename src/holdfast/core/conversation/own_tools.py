"""Holdfast's own MCP tools: which tool call is one of them. They never need permission.

An agent can write anything into a title. So the name of the tool decides where the agent's program gives one; where it
gives none, the title has to be exactly one of the names that programs make up for the tool, and the input has to be an
input of that tool: a call of anything else has other arguments. In doubt the call is not ours, and is asked about.
"""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.core.conversation.tool_call import ToolCall
from holdfast.core.messages.signals import ROLES, Signal

SERVER = "holdfast"

_TOOLS: Mapping[str, type[Signal]] = {kind.tool: kind for kinds in ROLES.values() for kind in kinds}
_NAMES = (  # as programs call a tool of an MCP server
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
_TITLES: Mapping[str, str] = {name.format(server=SERVER, tool=tool): tool for name in _NAMES for tool in _TOOLS}
_HARMLESS_KINDS = frozenset({"other", "think", "read", "search"})
_CODEX_CALL = frozenset({"server", "tool", "arguments"})
_CODEX_APPROVAL = frozenset({"serverName", "description", "schema"})
_CODEX_TITLE = "MCP tool call approval"
_LEFT_OUT = re.compile(r"\[Payload omitted due to length with parameters: ([\w, ]+)\]")  # Gemini, of a long input


def own_tool(call: ToolCall) -> str | None:
    """The tool of ours that this is a call of."""
    if call.name is not None:
        return _TITLES.get(call.name) if call.name.startswith("mcp__") and call.server in (None, SERVER) else None
    if call.title == _CODEX_TITLE:
        return _approved_by_codex(call)
    tool = _TITLES.get(call.title)
    return tool if tool is not None and _is_input_of(tool, call) else None


def _is_input_of(tool: str, call: ToolCall) -> bool:
    given = call.input
    if isinstance(given, Mapping) and given.keys() == _CODEX_CALL and "arguments" not in _fields(tool):
        return (given["server"], given["tool"]) == (SERVER, tool)
    if given is None:
        listed = _LEFT_OUT.fullmatch(call.note)
        return listed is not None and call.kind in _HARMLESS_KINDS and _fit(tool, listed[1].split(", "))
    return isinstance(given, Mapping) and call.kind in _HARMLESS_KINDS and _fit(tool, given)


def _fit(tool: str, names: Any) -> bool:
    """All that the tool needs is there, and nothing that it does not know."""
    return _needed(tool) <= set(names) <= _fields(tool)


def _approved_by_codex(call: ToolCall) -> str | None:
    """Codex asks so when it cannot tell which of several calls it is about; the server is the one that is named."""
    given = call.input
    is_ours = isinstance(given, Mapping) and given.keys() == _CODEX_APPROVAL and given["serverName"] == SERVER
    return SERVER if is_ours else None


def _fields(tool: str) -> set[str]:
    return {field.name for field in msgspec.structs.fields(_TOOLS[tool])}


def _needed(tool: str) -> set[str]:
    return {field.name for field in msgspec.structs.fields(_TOOLS[tool]) if field.required}
