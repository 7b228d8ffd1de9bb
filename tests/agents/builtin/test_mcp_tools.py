"""Calls of tools whose server does not answer: what nobody knows is not told as a failure, which is tried again."""

import os
import sys
from pathlib import Path

import pytest

from holdfast.agents.builtin import mcp_tools
from holdfast.agents.builtin.file_access import ToolRefused
from holdfast.agents.builtin.mcp_tools import McpServerCommand, McpToolset


async def test_a_call_that_is_not_answered_in_time_may_have_had_its_effect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_tools, "_CALL_SECONDS", 0.5)
    script = os.path.join(os.path.dirname(__file__), "quick_mcp_server.py")
    tools = McpToolset([McpServerCommand("slow", sys.executable, ["-IS", script], {})], os.fspath(tmp_path), {})
    await tools.start()
    try:
        with pytest.raises(ToolRefused, match=r"did not answer within 0.5 s\. It may or may not have had its effect"):
            await tools.prepare("mcp__slow__wait", {}).perform()
    finally:
        await tools.stop()
    assert (tmp_path / "noted.txt").read_text(encoding="utf-8") == "noted\n"
