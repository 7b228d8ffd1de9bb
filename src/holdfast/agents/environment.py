"""The variables of our environment that an agent may have: those that do not hold a secret."""

import os
from collections.abc import Mapping

from holdfast.core.redaction.secret_names import is_secret
from holdfast.leaf.process.environment import MISLEADING


def plain_environment() -> dict[str, str]:
    """Ours, without secrets: of those an agent gets what its entry in the registry names.

    Nor does it get what would lead its git to another repository than the one it stands in.
    """
    return {name: value for name, value in without_secrets(os.environ).items() if name not in MISLEADING}


def without_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if not is_secret(name, value)}


def secrets_in(environment: Mapping[str, str]) -> list[str]:
    """The names of the variables that hold a secret, sorted."""
    return sorted(name for name, value in environment.items() if value and is_secret(name, value))
