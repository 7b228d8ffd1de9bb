"""An agent's own slash commands, as it lists them."""

from collections.abc import Collection

_COMPACT_NAMES = ("compact", "compress", "summarize")  # what agents call it, in order of preference


def compact_command(commands: Collection[str]) -> str | None:
    """The agent's command that shortens its memory of the conversation; None without one."""
    return next((name for name in _COMPACT_NAMES if name in commands), None)


def command_name(text: str) -> str | None:
    """The name in a message that is a command: `/name` and perhaps more. None for any other text, such as a path."""
    first = text.split(maxsplit=1)[0] if text.strip() else ""
    name = first.removeprefix("/")
    return name if first.startswith("/") and name and "/" not in name else None
