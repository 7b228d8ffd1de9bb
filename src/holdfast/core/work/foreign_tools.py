"""The tools whose sessions can become runs."""

from enum import StrEnum


class Tool(StrEnum):
    TILTH = "tilth"
    AGENTMUX = "agentmux"
    RESUME_PROTOCOL = "resume-protocol"
    CLAUDE_CODE = "claude-code"
    CODEX = "codex"
    KANDEV = "kandev"


TOOL_NAMES: dict[str, str] = {
    Tool.TILTH: "Tilth",
    Tool.AGENTMUX: "AgentMux",
    Tool.RESUME_PROTOCOL: "the Resume Protocol",
    Tool.CLAUDE_CODE: "Claude Code",
    Tool.CODEX: "Codex",
    Tool.KANDEV: "Kandev",
}


def tool_name(tool: str) -> str:
    """Return the name of a tool for people; of an unknown one, as it is."""
    return TOOL_NAMES.get(tool, tool)
