"""Parts of our own environment that the programs we start must not get."""

import os
from collections.abc import Mapping

# Set when Holdfast is called from a git hook or alias. They would point every git command at another repository.
INHERITED_GIT_VARIABLES = (
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_COMMON_DIR",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_NAMESPACE",
    "GIT_PREFIX",
    "GIT_CEILING_DIRECTORIES",
    "GIT_DISCOVERY_ACROSS_FILESYSTEM",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_INTERNAL_SUPER_PREFIX",
    "GIT_SHALLOW_FILE",
    "GIT_GRAFT_FILE",
    "GIT_REPLACE_REF_BASE",
    "GIT_QUARANTINE_PATH",
    "GIT_LITERAL_PATHSPECS",
    "GIT_GLOB_PATHSPECS",
    "GIT_NOGLOB_PATHSPECS",
    "GIT_ICASE_PATHSPECS",
)


def absolute_path(path: str) -> str:
    """PATH without relative entries: they mean folders that an agent may be able to write in."""
    return os.pathsep.join(entry for entry in path.split(os.pathsep) if os.path.isabs(entry)) or os.defpath


def without_relative_pythonpath(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment without relative entries in PYTHONPATH. An empty entry means the current folder."""
    entries = [entry for entry in environment.get("PYTHONPATH", "").split(os.pathsep) if os.path.isabs(entry)]
    others = {name: value for name, value in environment.items() if name != "PYTHONPATH"}
    return {**others, "PYTHONPATH": os.pathsep.join(entries)} if entries else others
