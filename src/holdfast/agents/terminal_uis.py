"""The terminal UIs of agents that we know, with their own flags: for a new session, for one that there is, for tools.

Where a program does not take a session's id from us, its own is found by the file that it holds open.
"""

from holdfast.core.conversation.terminal_ui import Question, Tui

_TRUST = r"(?is)do you trust (the files in )?this folder.*[❯›●]\s*1\.\s"  # with its first answer chosen
_INPUT = r"^\s*[│┃|]?\s*[❯>›](\s|$)"

CLAUDE = Tui(
    command=("claude", "--mcp-config", "{mcp}", "--allowedTools", "mcp__holdfast", "--add-dir", "{prompts}"),
    new=("--session-id", "{session}"),
    resume=("--resume", "{session}"),
    ready=_INPUT,
    questions=(
        Question(when=r"❯ (\d\. )?No, exit\s+(\d\. )?Yes", yes=("Down", "Enter"), no=("Enter",)),
        Question(when=r"❯ (\d\. )?Yes, (proceed|I trust)"),
    ),
)

CODEX = Tui(
    command=(
        "codex",
        *("-c", "mcp_servers.holdfast.command={mcp_command}"),
        *("-c", "mcp_servers.holdfast.args={mcp_arguments}"),
    ),
    resume=("resume", "{session}"),
    found=r"rollout-.*-([0-9a-f]{8}-[0-9a-f-]{27})\.jsonl$",
    ready=r"^\s*›(?! \d\. )",
    questions=(Question(when=r"›\s1\.\s(Trust and continue|Yes, (continue|allow Codex to work in this folder))"),),
)

GEMINI = Tui(
    command=("gemini", "--include-directories", "{prompts}"),
    new=("--session-id", "{session}"),
    resume=("--resume", "{session}"),
    environment={"GEMINI_CLI_SYSTEM_SETTINGS_PATH": "{mcp}"},
    ready=_INPUT,
    questions=(Question(when=_TRUST),),
)

OPENCODE = Tui(
    command=("opencode",), environment={"OPENCODE_CONFIG": "{mcp}"}, mcp="opencode", ready=r"(?i)ask anything"
)

COPILOT = Tui(
    command=(
        *("copilot", "--no-auto-update", "--disable-builtin-mcps"),
        *("--additional-mcp-config", "@{mcp}", "--allow-tool=holdfast", "--add-dir", "{prompts}"),
    ),
    new=("--session-id={session}",),
    resume=("--resume={session}",),
    ready=_INPUT,
    questions=(Question(when=_TRUST),),
)

QWEN = Tui(
    command=("qwen", "--mcp-config", "{mcp}", "--include-directories", "{prompts}"),
    new=("--session-id", "{session}"),
    resume=("--resume", "{session}"),
    ready=_INPUT,
    questions=(Question(when=_TRUST),),
)
