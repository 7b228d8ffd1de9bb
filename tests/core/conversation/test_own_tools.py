"""Which tool calls are of Holdfast's own tools, by what each agent tells; and which only say that they are."""

from typing import Any

import pytest

from holdfast.core.conversation.own_tools import own_tool
from holdfast.core.conversation.tool_call import read_tool_call

CASE = {"summary": "done", "criteria": []}
NAME = "mcp__holdfast__submit_case"


def text(words: str) -> list[dict[str, Any]]:
    return [{"type": "content", "content": {"type": "text", "text": words}}]


@pytest.mark.parametrize(
    ("asked", "known"),
    [
        pytest.param(
            {
                "title": NAME,
                "kind": "other",
                "rawInput": {"wrong": 1},  # the name decides; the tool itself says what is wrong with its input
                "_meta": {"claudeCode": {"toolName": NAME, "mcpServer": {"name": "holdfast", "source": "sdk"}}},
            },
            {},
            id="claude",
        ),
        pytest.param(
            {"kind": "execute", "status": "pending"},
            {
                "title": "mcp.holdfast.submit_case",
                "kind": "execute",
                "rawInput": {"server": "holdfast", "tool": "submit_case", "arguments": CASE},
            },
            id="codex",
        ),
        pytest.param(
            {
                "title": "MCP tool call approval",
                "kind": "execute",
                "rawInput": {"serverName": "holdfast", "description": "Allow it?", "schema": None},
            },
            {},
            id="codex-several-calls-at-once",
        ),
        pytest.param(
            {"title": "holdfast_submit_case", "kind": "other", "rawInput": {}},
            {"title": "holdfast_submit_case", "rawInput": CASE},
            id="opencode",
        ),
        pytest.param({"title": "holdfast/submit_case", "kind": "other", "rawInput": CASE}, {}, id="copilot"),
        pytest.param({"title": "{}", "kind": "other", "rawInput": CASE, "_meta": {"toolName": NAME}}, {}, id="qwen"),
        pytest.param(
            {
                "title": "submit_case (holdfast MCP Server)",
                "kind": "other",
                "content": text('{"summary":"done","criteria":[]}'),
            },
            {},
            id="gemini",
        ),
        pytest.param(
            {
                "title": "submit_case (holdfast MCP Server)",
                "kind": "other",
                "content": text("[Payload omitted due to length with parameters: summary, criteria]"),
            },
            {},
            id="gemini-long",
        ),
        pytest.param(
            {"title": NAME, "content": text(f"Requesting approval to Approve {NAME}")},
            {"title": NAME, "kind": "other", "content": text('{"summary":"done","criteria":[]}')},
            id="kimi",
        ),
        pytest.param({"title": NAME, "kind": "other", "rawInput": CASE}, {}, id="builtin"),
    ],
)
def test_own_tool_of_each_agent(asked: dict[str, Any], known: dict[str, Any]) -> None:
    assert own_tool(read_tool_call(asked, known)) is not None


@pytest.mark.parametrize(
    ("asked", "known"),
    [
        pytest.param({"title": NAME, "kind": "execute", "rawInput": {"command": "rm -rf ."}}, {}, id="a shell"),
        pytest.param({"title": NAME, "kind": "other", "rawInput": {**CASE, "command": "rm"}}, {}, id="more input"),
        pytest.param({"title": NAME, "kind": "execute", "rawInput": CASE}, {}, id="a kind that executes"),
        pytest.param({"title": NAME, "kind": "other"}, {}, id="no input"),
        pytest.param({"title": NAME, "kind": "other", "rawInput": {"summary": "x"}}, {}, id="half of its input"),
        pytest.param(
            {"title": NAME, "kind": "other", "rawInput": CASE, "_meta": {"toolName": "run_shell_command"}},
            {},
            id="another name",
        ),
        pytest.param(
            {
                "title": NAME,
                "rawInput": CASE,
                "_meta": {"claudeCode": {"toolName": NAME, "mcpServer": {"name": "other"}}},
            },
            {},
            id="another server",
        ),
        pytest.param({"title": "mcp__holdfast__rm", "kind": "other", "rawInput": CASE}, {}, id="no tool of ours"),
        pytest.param({"title": f"{NAME} ", "kind": "other", "rawInput": CASE}, {}, id="nearly its name"),
        pytest.param({"title": f"run {NAME}", "kind": "other", "rawInput": CASE}, {}, id="its name in words"),
        pytest.param(
            {"title": NAME},
            {"title": "Bash", "kind": "execute", "content": text('{"command":"rm -rf ."}')},
            id="a title that changed",
        ),
        pytest.param(
            {
                "title": "submit_case (holdfast MCP Server)",
                "kind": "other",
                "content": text('{"command":"submit_case (holdfast MCP Server)","summary":"x","criteria":[]}'),
            },
            {},
            id="gemini shows a parameter as the title",
        ),
        pytest.param(
            {
                "title": "submit_case (holdfast MCP Server)",
                "kind": "other",
                "content": text("[Payload omitted due to length with parameters: a, b, c, d, e, ...]"),
            },
            {},
            id="gemini leaves names out",
        ),
        pytest.param(
            {
                "title": "mcp.holdfast.submit_case",
                "kind": "execute",
                "rawInput": {"server": "other", "tool": "submit_case", "arguments": {}},
            },
            {},
            id="codex, another server",
        ),
        pytest.param(
            {
                "title": "MCP tool call approval",
                "kind": "execute",
                "rawInput": {"serverName": "other", "description": "holdfast", "schema": None},
            },
            {},
            id="codex asks for another server",
        ),
    ],
)
def test_what_only_looks_like_an_own_tool_is_asked_about(asked: dict[str, Any], known: dict[str, Any]) -> None:
    assert own_tool(read_tool_call(asked, known)) is None
