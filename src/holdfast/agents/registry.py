"""The agents we know how to start. Users add their own in their config; nothing is installed behind their back."""

import os
import shutil
from collections.abc import Mapping, Sequence

import msgspec

from holdfast.agents import terminal_uis as tuis
from holdfast.agents.environment import secrets_in
from holdfast.agents.launch import LOCAL, Runtime
from holdfast.core.conversation.terminal_ui import Tui
from holdfast.leaf.errors import BadInput
from holdfast.leaf.process.own_program import own_program


class Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to start an agent. `secrets` are variables of the user's environment that it gets; it gets no other."""

    command: tuple[str, ...]
    title: str = ""
    install: str = ""
    environment: Mapping[str, str] = {}
    secrets: tuple[str, ...] = ()
    login: str | None = None
    runtime: Runtime = LOCAL
    reads: bool = True  # whether it can read files through us; one that takes a missing file for an error writes none
    tui: Tui | None = None  # its own terminal UI, when it has one that we know
    reports_cost: bool | None = None  # whether it says what a turn cost; None when that was not seen
    tools_wait: float = 30.0  # seconds within which it asks for the tools that it is handed; a busy machine gets longer
    by_the_minute: bool = False  # its sessions are named by the minute: in that of its birth, one cannot be loaded

    def __post_init__(self) -> None:
        if not self.command:
            raise ValueError("an agent's command has at least the name of its program")

    @property
    def program(self) -> str:
        """What has to be installed for it."""
        return self.tui.command[0] if self.runtime.kind == "tmux" and self.tui is not None else self.command[0]

    def found(self) -> bool:
        """True when its program is here, or not looked for here: it is in the image."""
        return self.runtime.kind == "container" or shutil.which(self.program) is not None


# Agents that call their model through a cloud take the credentials of that cloud.
_BEDROCK = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_BEARER_TOKEN_BEDROCK")
_VERTEX = ("GOOGLE_APPLICATION_CREDENTIALS",)
_AZURE = ("AZURE_OPENAI_API_KEY", "AZURE_API_KEY")
# Agents that call any provider take the key of each, under the name that the provider documents.
_PROVIDERS = (
    "ANTHROPIC_API_KEY",
    "OPENAI_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "GOOGLE_GENERATIVE_AI_API_KEY",
    "OPENROUTER_API_KEY",
    "GROQ_API_KEY",
    "MISTRAL_API_KEY",
    "DEEPSEEK_API_KEY",
    "XAI_API_KEY",
    *_AZURE,
    *_BEDROCK,
    *_VERTEX,
)


BUILT_IN: dict[str, Entry] = {
    "claude": Entry(
        command=("claude-agent-acp",),
        title="Claude Code",
        reports_cost=True,
        install="npm install -g @agentclientprotocol/claude-agent-acp @anthropic-ai/claude-code",
        secrets=(
            "ANTHROPIC_API_KEY",
            "ANTHROPIC_AUTH_TOKEN",
            "ANTHROPIC_FOUNDRY_API_KEY",
            "CLAUDE_CODE_OAUTH_TOKEN",
            "CLAUDE_CODE_CLIENT_KEY",
            "CLAUDE_CODE_CLIENT_KEY_PASSPHRASE",
            *_BEDROCK,
            *_VERTEX,
        ),
        tui=tuis.CLAUDE,
    ),
    "codex": Entry(
        command=("codex-acp",),
        title="Codex",
        reports_cost=False,
        install="npm install -g @agentclientprotocol/codex-acp @openai/codex",
        secrets=("OPENAI_API_KEY", "CODEX_API_KEY", *_AZURE, *_BEDROCK),
        tui=tuis.CODEX,
    ),
    "gemini": Entry(
        command=("gemini", "--acp"),
        title="Gemini",
        reports_cost=False,
        install="npm install -g @google/gemini-cli",
        secrets=("GEMINI_API_KEY", "GOOGLE_API_KEY", *_VERTEX),
        reads=False,
        by_the_minute=True,
        tui=tuis.GEMINI,
    ),
    "opencode": Entry(
        command=("opencode", "acp"),
        title="OpenCode",
        install="npm install -g opencode-ai",
        secrets=("OPENCODE_API_KEY", *_PROVIDERS),
        tui=tuis.OPENCODE,
    ),
    "copilot": Entry(
        command=("copilot", "--acp", "--no-auto-update", "--disable-builtin-mcps"),
        title="Copilot",
        install="npm install -g @github/copilot",
        secrets=(
            "GH_TOKEN",
            "GITHUB_TOKEN",
            "COPILOT_GITHUB_TOKEN",
            "COPILOT_PROVIDER_API_KEY",
            "COPILOT_PROVIDER_BEARER_TOKEN",
        ),
        tui=tuis.COPILOT,
    ),
    "qwen": Entry(
        command=("qwen", "--acp"),
        title="Qwen Code",
        reports_cost=False,
        install="npm install -g @qwen-code/qwen-code",
        secrets=(
            "OPENAI_API_KEY",
            "DASHSCOPE_API_KEY",
            "BAILIAN_CODING_PLAN_API_KEY",
            "ANTHROPIC_API_KEY",
            "GEMINI_API_KEY",
            "GOOGLE_API_KEY",
            *_VERTEX,
        ),
        tui=tuis.QWEN,
    ),
    "kimi": Entry(
        command=("kimi", "acp"),
        title="Kimi",
        install="npm install -g @moonshot-ai/kimi-code",
        secrets=("KIMI_API_KEY", "KIMI_MODEL_API_KEY", "MOONSHOT_API_KEY"),
    ),
    "auggie": Entry(
        command=("auggie", "--acp"),
        title="Auggie",
        reports_cost=False,
        install="npm install -g @augmentcode/auggie",
        secrets=("AUGMENT_SESSION_AUTH", "AUGMENT_API_TOKEN"),
    ),
    "cline": Entry(
        command=("cline", "--acp"),
        title="Cline",
        install="npm install -g cline",
        secrets=("CLINE_API_KEY", *_PROVIDERS),
    ),
    "pi": Entry(
        command=("pi-acp",),
        title="Pi",
        install="npm install -g pi-acp @earendil-works/pi-coding-agent",
        secrets=_PROVIDERS,
    ),
    "hermes": Entry(
        command=("hermes-acp",),
        title="Hermes",
        install="pip install 'hermes-agent[acp]'",
        secrets=_PROVIDERS,
    ),
    "goose": Entry(command=("goose", "acp"), title="Goose", install="see the Goose documentation", secrets=_PROVIDERS),
    "builtin": Entry(
        command=own_program("agent", "builtin"),
        title="Holdfast's own, for any model endpoint",
        install="pip install 'holdfast[builtin]'",
        secrets=("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"),
    ),
}


def find_agent(name: str, own: Mapping[str, Entry] | None = None) -> Entry:
    """An agent by its name. `playbook:FILE` is the agent that plays that file; words after a name go to its command."""
    kind, _, rest = name.partition(":")
    if kind == "playbook" and rest:
        return _playbook(os.path.abspath(rest), rest)
    known = {**BUILT_IN, **(own or {})}
    word, *more = name.split() or [""]
    entry = known.get(word)
    if entry is None:
        raise BadInput(
            f"there is no agent {name!r}; there are {', '.join(known)}, playbook:FILE, and those of your config"
        )
    return _with(entry, more) if more else entry


def _with(entry: Entry, words: list[str]) -> Entry:
    tui = entry.tui and msgspec.structs.replace(entry.tui, command=(*entry.tui.command, *words))
    return msgspec.structs.replace(entry, command=(*entry.command, *words), tui=tui)


def _playbook(path: str, name: str) -> Entry:
    command = own_program("agent", "playbook", path)
    return Entry(
        command=command,
        title=f"the playbook {name}",
        tui=Tui(
            command=(*command, "--terminal", "--mcp", "{mcp}"),
            new=("--session", "{session}"),
            resume=("--resume", "{session}"),
            ready="^›",
            interrupt=("C-c",),
        ),
    )


def environment_for(entry: Entry, environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """What an agent gets beside what any program does: its own settings, and the secrets that it names."""
    ours = os.environ if environment is None else environment
    return {**{name: ours[name] for name in entry.secrets if name in ours}, **entry.environment}


def withheld_from(entry: Entry, environment: Mapping[str, str] | None = None) -> list[str]:
    """The names of the secrets in our environment that an agent does not get."""
    ours = os.environ if environment is None else environment
    return [name for name in secrets_in(ours) if name not in entry.secrets and name not in entry.environment]


def missing(entry: Entry) -> str:
    """What to tell when its program is not here."""
    hint = f"; install it with: {entry.install}" if entry.install else ""
    return f"{entry.program} is not installed{hint}"


def listed(own: Mapping[str, Entry] | None = None) -> Sequence[tuple[str, Entry]]:
    return sorted({**BUILT_IN, **(own or {})}.items())
