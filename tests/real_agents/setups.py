"""Each real agent on a private home, pointed at the scripted model, with telemetry and updates off."""

import json
import os
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from holdfast.agents.registry import BUILT_IN, AgentDefinition
from holdfast.core.conversation.states import RecoveryStrategy
from tests.support.model_server.script import ToolUse

KEY = "sk-scripted"
MODEL = "scripted"

# Whatever of this a program does not know does not hurt it.
_QUIET = {
    "CI": "1",
    "DO_NOT_TRACK": "1",
    "DISABLE_TELEMETRY": "1",
    "NO_UPDATE_NOTIFIER": "1",
    "NO_COLOR": "1",
    "OTEL_SDK_DISABLED": "true",
}


class Setup(NamedTuple):
    """How an agent is pointed at a model, and how that model makes it write a file and run a command."""

    environment: Callable[[str, str], Mapping[str, str]]  # of its home and the model's address
    edit: Callable[[str, str], ToolUse]  # of a path and a text
    shell: Callable[[str], ToolUse]
    files: Callable[[str], Mapping[str, Any]] = lambda address: {}  # below its home, of the model's address
    arguments: tuple[str, ...] = ()
    rung: RecoveryStrategy = RecoveryStrategy.RESUME  # by which it comes back

    def entry(self, name: str, home: str, address: str) -> AgentDefinition:
        """The registry's own, with that home."""
        for path, content in self.files(address).items():
            place = os.path.join(home, path)
            os.makedirs(os.path.dirname(place), exist_ok=True)
            with open(place, "w", encoding="utf-8") as file:
                file.write(content if isinstance(content, str) else json.dumps(content))
        known = BUILT_IN[name]
        return msgspec.structs.replace(
            known,
            command=(*known.command, *self.arguments),
            environment={**known.environment, **_QUIET, **_folders(home), **self.environment(home, address)},
        )


def _folders(home: str) -> dict[str, str]:
    places = {"XDG_CONFIG_HOME": ".config", "XDG_DATA_HOME": ".local/share", "XDG_STATE_HOME": ".local/state"}
    return {
        "HOME": home,
        "XDG_CACHE_HOME": os.path.join(home, ".cache"),
        **{name: os.path.join(home, path) for name, path in places.items()},
    }


_CODEX = f"""\
model = "{MODEL}"
model_provider = "here"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false
[analytics]
enabled = false
[features]
plugins = false
[model_providers.here]
name = "here"
base_url = "%s/v1"
env_key = "OPENAI_API_KEY"
wire_api = "responses"
"""

SETUPS: dict[str, Setup] = {
    "claude": Setup(
        environment=lambda home, address: {
            "ANTHROPIC_BASE_URL": address,
            "ANTHROPIC_API_KEY": KEY,
            "ANTHROPIC_MODEL": MODEL,
            "CLAUDE_CONFIG_DIR": os.path.join(home, ".claude"),
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
        },
        edit=lambda path, text: ToolUse("Write", {"file_path": path, "content": text}),
        shell=lambda command: ToolUse("Bash", {"command": command, "description": "work"}),
    ),
    "codex": Setup(
        environment=lambda home, address: {
            "CODEX_HOME": os.path.join(home, ".codex"),
            "OPENAI_API_KEY": KEY,
            "MODEL_PROVIDER": "here",
            "INITIAL_AGENT_MODE": "agent-full-access",  # its sandbox does not start inside of every other
        },
        files=lambda address: {".codex/config.toml": _CODEX % address},
        edit=lambda path, text: ToolUse("exec_command", {"cmd": f"printf %s '{text}' > '{path}'"}),
        shell=lambda command: ToolUse("exec_command", {"cmd": command, "yield_time_ms": 300_000}),
    ),
    "gemini": Setup(
        environment=lambda home, address: {
            "GEMINI_API_KEY": KEY,
            "GOOGLE_GEMINI_BASE_URL": address,
            "GEMINI_TELEMETRY_ENABLED": "false",
        },
        files=lambda address: {
            ".gemini/settings.json": {
                "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
                "general": {"enableAutoUpdate": False, "sessionRetention": {"enabled": False}},
                "privacy": {"usageStatisticsEnabled": False},
                "telemetry": {"enabled": False},
            }
        },
        rung=RecoveryStrategy.LOAD,
        arguments=("-m", "gemini-2.5-flash"),
        edit=lambda path, text: ToolUse("write_file", {"file_path": path, "content": text}),
        shell=lambda command: ToolUse("run_shell_command", {"command": command}),
    ),
    "opencode": Setup(
        environment=lambda home, address: {
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
            "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
        },
        files=lambda address: {
            ".config/opencode/opencode.json": {
                "autoupdate": False,
                "share": "disabled",
                "model": f"here/{MODEL}",
                "small_model": f"here/{MODEL}",
                "provider": {
                    "here": {
                        "npm": "@ai-sdk/openai-compatible",
                        "name": "here",
                        "options": {"baseURL": f"{address}/v1", "apiKey": KEY},
                        "models": {MODEL: {"name": MODEL, "tool_call": True}},
                    }
                },
            }
        },
        edit=lambda path, text: ToolUse("write", {"filePath": path, "content": text}),
        shell=lambda command: ToolUse("bash", {"command": command, "description": "work"}),
    ),
    "copilot": Setup(
        environment=lambda home, address: {
            "COPILOT_PROVIDER_BASE_URL": f"{address}/v1",
            "COPILOT_PROVIDER_TYPE": "openai",
            "COPILOT_PROVIDER_API_KEY": KEY,
            "COPILOT_MODEL": MODEL,
            "COPILOT_OFFLINE": "true",
            "COPILOT_HOME": os.path.join(home, ".copilot"),
        },
        rung=RecoveryStrategy.LOAD,
        edit=lambda path, text: ToolUse("create", {"path": path, "file_text": text}),
        shell=lambda command: ToolUse("bash", {"command": command, "description": "work", "mode": "sync"}),
    ),
    "qwen": Setup(
        environment=lambda home, address: {
            "OPENAI_BASE_URL": f"{address}/v1",
            "OPENAI_API_KEY": KEY,
            "OPENAI_MODEL": MODEL,
        },
        files=lambda address: {
            ".qwen/settings.json": {
                "general": {"enableAutoUpdate": False, "disableAutoUpdate": True},
                "privacy": {"usageStatisticsEnabled": False},
                "telemetry": {"enabled": False},
            }
        },
        arguments=("--auth-type", "openai"),
        edit=lambda path, text: ToolUse("write_file", {"file_path": path, "content": text}),
        shell=lambda command: ToolUse("run_shell_command", {"command": command, "is_background": False}),
    ),
    "kimi": Setup(
        environment=lambda home, address: {
            "KIMI_MODEL_NAME": MODEL,
            "KIMI_MODEL_PROVIDER_TYPE": "openai",
            "KIMI_MODEL_BASE_URL": f"{address}/v1",
            "KIMI_MODEL_API_KEY": KEY,
            "KIMI_BASE_URL": f"{address}/v1",
            "KIMI_API_KEY": KEY,
            "KIMI_DISABLE_TELEMETRY": "1",
            "KIMI_CODE_NO_AUTO_UPDATE": "1",
        },
        edit=lambda path, text: ToolUse("Write", {"path": path, "content": text}),
        shell=lambda command: ToolUse("Bash", {"command": command}),
    ),
}
