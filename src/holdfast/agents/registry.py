"""The agents that Holdfast can start. Users add their own in their config; Holdfast never installs an agent."""

import os
import shutil
from collections.abc import Mapping, Sequence

import msgspec

from holdfast.agents import terminal_uis as tuis
from holdfast.agents.environment import secrets_in
from holdfast.agents.launch import LOCAL, Runtime
from holdfast.agents.limits import wording
from holdfast.agents.limits.wording import Wording
from holdfast.core.conversation.terminal_ui import TerminalUi
from holdfast.leaf.errors import BadInput
from holdfast.leaf.process.own_program import holdfast_command

MODEL_VARIABLE = "HOLDFAST_MODEL"  # the model of the built-in agent, as PROVIDER:NAME


class AgentDefinition(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to start an agent. `secrets` are the only secret variables of the user's environment that it gets."""

    command: tuple[str, ...]
    title: str = ""
    install: str = ""
    environment: Mapping[str, str] = {}
    secrets: tuple[str, ...] = ()
    login: str | None = None
    login_files: tuple[str, ...] = ()  # one of them exists once a user has logged in; variables are expanded
    login_command: str = ""  # how a user logs in
    node: tuple[int, ...] = ()  # the lowest version of Node.js that runs it, if it needs one
    needs: tuple[str, ...] = ()  # other programs that it starts
    model_variable: str = ""  # the variable that chooses its model, if it must know before it starts
    runtime: Runtime = LOCAL
    reads: bool = True  # False for an agent that cannot create files when a read through us reports a missing file
    tui: TerminalUi | None = None  # its own terminal UI, if we know one
    reports_cost: bool | None = None  # whether it reports the cost of a turn; None when unknown
    tools_wait: float = 30.0  # seconds until it asks for its MCP tools; longer on a busy machine
    provider: str | None = None  # whose limits it meets, if it is always the same
    wording: Wording = Wording()  # how it says in a message that a limit is reached
    by_the_minute: bool = False  # it names sessions by the minute, and cannot load one in the minute of its creation

    def __post_init__(self) -> None:
        if not self.command:
            raise ValueError("an agent's command must not be empty")

    @property
    def program(self) -> str:
        """Return the program that must be installed."""
        return self.tui.command[0] if self.runtime.kind == "tmux" and self.tui is not None else self.command[0]

    def is_installed(self) -> bool:
        """True when its program is on PATH, or the agent runs in a container, whose image has it."""
        return self.runtime.kind == "container" or shutil.which(self.program) is not None


# Agents that call their model through a cloud get that cloud's credentials.
_BEDROCK_VARIABLES = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_BEARER_TOKEN_BEDROCK")
_VERTEX_VARIABLES = ("GOOGLE_APPLICATION_CREDENTIALS",)
_AZURE_VARIABLES = ("AZURE_OPENAI_API_KEY", "AZURE_API_KEY")
# Agents that call any provider get the key of each, under the name that the provider documents.
_PROVIDER_VARIABLES = (
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
    *_AZURE_VARIABLES,
    *_BEDROCK_VARIABLES,
    *_VERTEX_VARIABLES,
)


BUILT_IN: dict[str, AgentDefinition] = {
    "claude": AgentDefinition(
        command=("claude-agent-acp",),
        title="Claude Code",
        reports_cost=True,
        provider="Anthropic",
        wording=wording.CLAUDE,
        install="npm install -g @agentclientprotocol/claude-agent-acp @anthropic-ai/claude-code",
        node=(22,),
        login_files=("${CLAUDE_CONFIG_DIR:-~/.claude}/.credentials.json",),
        login_command="claude, then /login",
        secrets=(
            "ANTHROPIC_API_KEY",
            "ANTHROPIC_AUTH_TOKEN",
            "ANTHROPIC_FOUNDRY_API_KEY",
            "CLAUDE_CODE_OAUTH_TOKEN",
            "CLAUDE_CODE_CLIENT_KEY",
            "CLAUDE_CODE_CLIENT_KEY_PASSPHRASE",
            *_BEDROCK_VARIABLES,
            *_VERTEX_VARIABLES,
        ),
        tui=tuis.CLAUDE,
    ),
    "codex": AgentDefinition(
        command=("codex-acp",),
        title="Codex",
        reports_cost=False,
        provider="OpenAI",
        wording=wording.CODEX,
        install="npm install -g @agentclientprotocol/codex-acp @openai/codex",
        login_files=("${CODEX_HOME:-~/.codex}/auth.json",),
        login_command="codex login",
        secrets=("OPENAI_API_KEY", "CODEX_API_KEY", *_AZURE_VARIABLES, *_BEDROCK_VARIABLES),
        tui=tuis.CODEX,
    ),
    "gemini": AgentDefinition(
        command=("gemini", "--acp"),
        title="Gemini",
        reports_cost=False,
        provider="Google",
        wording=wording.GEMINI,
        install="npm install -g @google/gemini-cli",
        node=(20,),
        login_files=("~/.gemini/oauth_creds.json",),
        login_command="gemini, then choose a login",
        secrets=("GEMINI_API_KEY", "GOOGLE_API_KEY", *_VERTEX_VARIABLES),
        reads=False,
        by_the_minute=True,
        tui=tuis.GEMINI,
    ),
    "opencode": AgentDefinition(
        command=("opencode", "acp"),
        title="OpenCode",
        wording=wording.OPENCODE,
        install="npm install -g opencode-ai",
        login_files=("${XDG_DATA_HOME:-~/.local/share}/opencode/auth.json",),
        login_command="opencode auth login",
        secrets=("OPENCODE_API_KEY", *_PROVIDER_VARIABLES),
        tui=tuis.OPENCODE,
    ),
    "copilot": AgentDefinition(
        command=("copilot", "--acp", "--no-auto-update", "--disable-builtin-mcps"),
        title="Copilot",
        provider="GitHub",
        wording=wording.COPILOT,
        install="npm install -g @github/copilot",
        login_files=("${COPILOT_HOME:-~/.copilot}/config.json",),
        login_command="copilot, then /login",
        secrets=(
            "GH_TOKEN",
            "GITHUB_TOKEN",
            "COPILOT_GITHUB_TOKEN",
            "COPILOT_PROVIDER_API_KEY",
            "COPILOT_PROVIDER_BEARER_TOKEN",
        ),
        tui=tuis.COPILOT,
    ),
    "qwen": AgentDefinition(
        command=("qwen", "--acp"),
        title="Qwen Code",
        reports_cost=False,
        provider="Alibaba Cloud",
        wording=wording.QWEN,
        install="npm install -g @qwen-code/qwen-code",
        node=(22,),
        login_files=("~/.qwen/oauth_creds.json",),
        login_command="qwen, then /auth",
        secrets=(
            "OPENAI_API_KEY",
            "DASHSCOPE_API_KEY",
            "BAILIAN_CODING_PLAN_API_KEY",
            "ANTHROPIC_API_KEY",
            "GEMINI_API_KEY",
            "GOOGLE_API_KEY",
            *_VERTEX_VARIABLES,
        ),
        tui=tuis.QWEN,
    ),
    "kimi": AgentDefinition(
        command=("kimi", "acp"),
        title="Kimi",
        provider="Moonshot AI",
        wording=wording.KIMI,
        install="npm install -g @moonshot-ai/kimi-code",
        node=(22, 19),
        login_files=("~/.kimi-code/credentials", "~/.kimi/credentials"),
        login_command="kimi login",
        secrets=("KIMI_API_KEY", "KIMI_MODEL_API_KEY", "MOONSHOT_API_KEY"),
    ),
    "auggie": AgentDefinition(
        command=("auggie", "--acp"),
        title="Auggie",
        reports_cost=False,
        install="npm install -g @augmentcode/auggie",
        node=(20,),
        login_files=("~/.augment/session.json",),
        login_command="auggie login",
        secrets=("AUGMENT_SESSION_AUTH", "AUGMENT_API_TOKEN"),
    ),
    "cline": AgentDefinition(
        command=("cline", "--acp"),
        title="Cline",
        install="npm install -g cline",
        login_files=("~/.cline/data/settings/providers.json", "~/.cline/data/secrets.json"),
        login_command="cline auth",
        secrets=("CLINE_API_KEY", *_PROVIDER_VARIABLES),
    ),
    "pi": AgentDefinition(
        command=("pi-acp",),
        title="Pi",
        install="npm install -g pi-acp @earendil-works/pi-coding-agent",
        node=(22, 19),
        needs=("pi",),
        login_files=(
            "${PI_CODING_AGENT_DIR:-~/.pi/agent}/auth.json",
            "${PI_CODING_AGENT_DIR:-~/.pi/agent}/models.json",
        ),
        login_command="pi, then /login",
        secrets=_PROVIDER_VARIABLES,
    ),
    "hermes": AgentDefinition(
        command=("hermes-acp",),
        title="Hermes",
        install="pip install 'hermes-agent[acp]'",
        login_files=("${HERMES_HOME:-~/.hermes}/auth.json", "${HERMES_HOME:-~/.hermes}/config.yaml"),
        login_command="hermes setup",
        secrets=_PROVIDER_VARIABLES,
    ),
    "goose": AgentDefinition(
        command=("goose", "acp"),
        title="Goose",
        install="see the Goose documentation",
        secrets=_PROVIDER_VARIABLES,
        login_files=("${XDG_CONFIG_HOME:-~/.config}/goose/config.yaml",),
        login_command="goose configure",
    ),
    "builtin": AgentDefinition(
        command=holdfast_command("agent", "builtin"),
        title="Holdfast's own, for any model endpoint",
        install="pip install 'holdfast[builtin]'",
        model_variable=MODEL_VARIABLE,
        secrets=("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"),
    ),
}


def find_agent(name: str, user_agents: Mapping[str, AgentDefinition] | None = None) -> AgentDefinition:
    """Return an agent by name. `playbook:FILE` plays that file; words after a name are added to its command."""
    kind, _, rest = name.partition(":")
    if kind == "playbook" and rest:
        return _playbook_agent(os.path.abspath(rest), rest)
    known = {**BUILT_IN, **(user_agents or {})}
    agent_name, *arguments = name.split() or [""]
    entry = known.get(agent_name)
    if entry is None:
        raise BadInput(
            f"there is no agent {name!r}; known agents: {', '.join(known)}, playbook:FILE, and those in your config"
        )
    return _with_arguments(entry, arguments) if arguments else entry


def _with_arguments(entry: AgentDefinition, arguments: list[str]) -> AgentDefinition:
    tui = entry.tui and msgspec.structs.replace(entry.tui, command=(*entry.tui.command, *arguments))
    return msgspec.structs.replace(entry, command=(*entry.command, *arguments), tui=tui)


def _playbook_agent(path: str, name: str) -> AgentDefinition:
    command = holdfast_command("agent", "playbook", path)
    return AgentDefinition(
        command=command,
        title=f"the playbook {name}",
        tui=TerminalUi(
            command=(*command, "--terminal", "--mcp", "{mcp}"),
            new=("--session", "{session}"),
            resume=("--resume", "{session}"),
            ready="^›",
            interrupt=("C-c",),
        ),
    )


def environment_for(entry: AgentDefinition, environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return what is added to an agent's plain environment: its own settings and the secrets that it names."""
    ours = os.environ if environment is None else environment
    return {**{name: ours[name] for name in entry.secrets if name in ours}, **entry.environment}


def withheld_secrets(entry: AgentDefinition, environment: Mapping[str, str] | None = None) -> list[str]:
    """Return the names of the secrets in our environment that an agent does not get."""
    ours = os.environ if environment is None else environment
    return [name for name in secrets_in(ours) if name not in entry.secrets and name not in entry.environment]


def install_advice(entry: AgentDefinition) -> str:
    """Return the message for an agent whose program is not installed."""
    hint = f"; install it with: {entry.install}" if entry.install else ""
    return f"{entry.program} is not installed{hint}"


def known_agents(user_agents: Mapping[str, AgentDefinition] | None = None) -> Sequence[tuple[str, AgentDefinition]]:
    return sorted({**BUILT_IN, **(user_agents or {})}.items())
