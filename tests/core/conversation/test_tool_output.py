"""A tool's result as text: its content where it has one, else what its raw output says."""

import json
from typing import Any

import pytest

from holdfast.core.conversation.tool_output import text_of_block, text_of_result

EXIT = {"exitCode": 0}


def result(content: Any = None, output: Any = None) -> str:
    return text_of_result(json.dumps(content).encode(), json.dumps(output).encode())


def text(words: str) -> dict[str, Any]:
    return {"type": "content", "content": {"type": "text", "text": words}}


@pytest.mark.parametrize(
    ("content", "output", "shown"),
    [
        ([text("3 passed")], EXIT, "3 passed"),
        ([text("a"), text("b")], None, "a\nb"),
        ([], EXIT, '{"exitCode":0}'),
        ([text("")], {"stdout": "out"}, "out"),
        ([{"type": "terminal", "terminalId": "t"}], {"output": "ran"}, "ran"),
        ([{"type": "terminal", "terminalId": "t", "output": "on screen"}], EXIT, "on screen"),
        ([{"type": "content", "content": {"type": "image", "mimeType": "image/png"}}], None, "[image image/png]"),
        ([{"type": "content", "content": {"type": "resource", "resource": {"text": "whole"}}}], None, "whole"),
        ([{"type": "diff", "path": "a.py", "oldText": "x\n", "newText": "y\n"}], None, "a.py\n@@ -1 +1 @@\n-x\n+y"),
        ([{"type": "diff", "path": "a.py", "oldText": None, "newText": "y"}], None, "a.py\n@@ -0,0 +1 @@\n+y"),
        (None, "plain", "plain"),
        (None, {"stdout": "out\n", "stderr": "err", "exitCode": 0}, "out\n\nerr"),
        (None, {"output": "no", "exit_code": 2}, "no\n(exit code 2)"),
        (None, {"formatted_output": "f", "duration": 3}, "f"),
        (None, {"content": [{"type": "text", "text": "by MCP"}]}, "by MCP"),
        (None, [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "a\nb"),
        (None, {"result": {"content": [{"text": "deep"}]}}, "deep"),
        (None, {"found": 41}, '{"found":41}'),
        (None, None, ""),
        ({"odd": 1}, {"text": "still"}, "still"),
        ([1, None, ["x"], {"type": 5}], "kept", "kept"),
    ],
)
def test_the_text_of_a_result(content: Any, output: Any, shown: str) -> None:
    assert result(content, output) == shown


def test_what_is_no_json_is_shown_as_it_is() -> None:
    assert text_of_result(b"null", b"{torn") == "{torn"


def test_a_block_of_another_kind_is_named() -> None:
    assert text_of_block({"type": "resource_link", "uri": "file:///a"}) == "[resource_link file:///a]"
    assert text_of_block("x") == ""
