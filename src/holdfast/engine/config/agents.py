"""The agents that the user's config defines."""

import msgspec

from holdfast.agents.launch import Runtime
from holdfast.agents.registry import BUILT_IN, AgentDefinition
from holdfast.core.config.settings import AgentEntry, RuntimeChoice, Settings


def agents_from_settings(settings: Settings) -> dict[str, AgentDefinition]:
    """Return the user's agents. One with the name of a built-in agent overrides that agent's settings."""
    return {name: _registry_entry(entry, BUILT_IN.get(name)) for name, entry in settings.agents.items()}


def runtime_of(choice: RuntimeChoice) -> Runtime:
    return Runtime(**msgspec.structs.asdict(choice))


def _registry_entry(own: AgentEntry, known: AgentDefinition | None) -> AgentDefinition:
    values = {name: getattr(own, name) for name in ("command", "title", "install", "secrets", "login", "tools_wait")}
    changes = {name: value for name, value in values.items() if value is not None}
    if own.runtime is not None:
        changes["runtime"] = runtime_of(own.runtime)
    if own.terminal is not None:
        changes["tui"] = own.terminal
    if known is None:
        return AgentDefinition(**changes, environment=own.environment)
    return msgspec.structs.replace(known, **changes, environment={**known.environment, **own.environment})
