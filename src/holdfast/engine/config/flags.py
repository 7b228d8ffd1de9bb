"""The settings that a command was given as flags."""

import os
from collections.abc import Mapping
from typing import Any


def with_absolute_paths(flags: Mapping[str, Any]) -> dict[str, Any]:
    """Make the paths of playbooks and workflow files absolute, so that they mean the same from any folder."""
    return {name: _absolute_value(name, value) if isinstance(value, str) else value for name, value in flags.items()}


def _absolute_value(flag: str, text: str) -> str:
    kind, colon, file = text.partition(":")
    if flag == "workflow" and text.endswith((".yaml", ".yml")):
        return os.path.abspath(text)
    return f"{kind}:{os.path.abspath(file)}" if kind == "playbook" and colon else text
