"""The variables of our environment that an agent may have: those that do not look like a secret."""

import os
from collections.abc import Mapping

from holdfast.leaf.environment import MISLEADING

_SECRETS = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL")
_SECRET_ENDS = ("AUTH", "_PASS", "_PWD")  # in the middle of a name they mean something else: SSH_AUTH_SOCK


def plain_environment() -> dict[str, str]:
    """Ours, without what looks like a secret: of those an agent gets what its entry in the registry names.

    Nor does it get what would lead its git to another repository than the one it stands in.
    """
    return {name: value for name, value in without_secrets(os.environ).items() if name not in MISLEADING}


def without_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if not _is_secret(name.upper())}


def _is_secret(name: str) -> bool:
    return name.endswith(_SECRET_ENDS) or any(word in name for word in _SECRETS)
