"""The terminal UIs of known agents, with their flags for a new session, an existing session, and MCP tools.

Where a program does not accept a session id from us, its own id is in the name of a file that it holds open.
"""

from holdfast.core.conversation.terminal_ui import StartupQuestion, TerminalUi

_TRUST_QUESTION = r"(?is)do you trust (the files in )?this folder.*[❯›●]\s*1\.\s"  # with the first answer selected
_INPUT_LINE = r"^\s*[│┃|]?\s*[❯>›](\s|$)"

CLAUDE = TerminalUi(
    command=("claude", "--mcp-config", "{mcp}", "--allowedTools", "mcp__holdfast", "--add-dir", "{prompts}"),
    new=("--session-id", "{session}"),
    resume=("--resume", "{session}"),
    ready=_INPUT_LINE,
    questions=(
        StartupQuestion(when=r"❯ (\d\. )?No, exit\s+(\d\. )?Yes", yes=("Down", "Enter"), no=("Enter",)),
        StartupQuestion(when=r"❯ (\d\. )?Yes, (proceed|I trust)"),
    ),
)

CODEX = TerminalUi(
    command=(
        "codex",
        *("-c", "mcp_servers.holdfast.command={mcp_command}"),
        *("-c", "mcp_servers.holdfast.args={mcp_arguments}"),
    ),
    resume=("resume", "{session}"),
    found=r"rollout-.*-([0-9a-f]{8}-[0-9a-f-]{27})\.jsonl$",
    ready=r"^\s*›(?! \d\. )",
    questions=(
        StartupQuestion(when=r"›\s1\.\s(Trust and continue|Yes, (continue|allow Codex to work in this folder))"),
    ),
)

GEMINI = TerminalUi(
    command=("gemini", "--include-directories", "{prompts}"),
    new=("--session-id", "{session}"),
    resume=("--resume", "{session}"),
    environment={"GEMINI_CLI_SYSTEM_SETTINGS_PATH": "{mcp}"},
    ready=_INPUT_LINE,
    questions=(StartupQuestion(when=_TRUST_QUESTION),),
)

OPENCODE = TerminalUi(
    command=("opencode",), environment={"OPENCODE_CONFIG": "{mcp}"}, mcp="opencode", ready=r"(?i)ask anything"
)

COPILOT = TerminalUi(
    command=(
        *("copilot", "--no-auto-update", "--disable-builtin-mcps"),
        *("--additional-mcp-config", "@{mcp}", "--allow-tool=holdfast", "--add-dir", "{prompts}"),
    ),
    new=("--session-id={session}",),
    resume=("--resume={session}",),
    ready=_INPUT_LINE,
    questions=(StartupQuestion(when=_TRUST_QUESTION),),
)

QWEN = TerminalUi(
    command=("qwen", "--mcp-config", "{mcp}", "--include-directories", "{prompts}"),
    new=("--session-id", "{session}"),
    resume=("--resume", "{session}"),
    ready=_INPUT_LINE,
    questions=(StartupQuestion(when=_TRUST_QUESTION),),
)
