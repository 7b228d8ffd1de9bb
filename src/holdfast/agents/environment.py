"""The environment of agents: ours, without secrets."""

import os
from collections.abc import Mapping

from holdfast.core.redaction.secret_names import is_secret_name
from holdfast.leaf.process.environment import INHERITED_GIT_VARIABLES

# What leads to the database of runs and to the cluster: with it, an agent could write any run.
_CLUSTER_VARIABLES = ("HOLDFAST_STORE", "HOLDFAST_ENGINE", "PGPASSFILE", "PGSERVICE", "PGSERVICEFILE")
_CLUSTER_PREFIXES = ("HOLDFAST_ENGINE_", "TEMPORAL_")


def plain_environment() -> dict[str, str]:
    """Return our environment without secrets; an agent gets only those that its definition names.

    Also drops the variables that would point the agent's git at another repository.
    """
    return {name: value for name, value in without_secrets(os.environ).items() if name not in INHERITED_GIT_VARIABLES}


def without_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in environment.items()
        if not (is_secret_name(name, value) or name in _CLUSTER_VARIABLES or name.startswith(_CLUSTER_PREFIXES))
    }


def secrets_in(environment: Mapping[str, str]) -> list[str]:
    """Return the names of the variables that hold a secret, sorted."""
    return sorted(name for name, value in environment.items() if value and is_secret_name(name, value))
