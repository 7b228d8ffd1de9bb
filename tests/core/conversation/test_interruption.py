"""Calls of Holdfast's own tools are known by their titles, and nothing else is taken for one."""

import pytest

from holdfast.core.conversation.interruption import reporting_tool


@pytest.mark.parametrize(
    ("title", "tool"),
    [
        ("submit_case", "submit_case"),
        ("mcp__holdfast__submit_case", "submit_case"),
        ("holdfast.request_research", "request_research"),
        ("holdfast/submit_plan", "submit_plan"),
        ("Tool: holdfast/submit_plan", "submit_plan"),
        ("submit_verdict (holdfast MCP Server)", "submit_verdict"),
        ("holdfast-report_blocker", "report_blocker"),
        ("grep -r submit_case src", None),
        ("Edit submit_case.py", None),
        ("mcp__other__submit_case", None),
        ("resubmit_case", None),
        ("submit_cases", None),
        ("Read a.py", None),
        ("", None),
    ],
)
def test_titles_of_reporting_tools(title: str, tool: str | None) -> None:
    assert reporting_tool(title) == tool
