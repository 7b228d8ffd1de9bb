"""The built-in workflows. They are data: the engine knows none of them by name."""

import os

from holdfast.core.work.workflow import Workflow
from holdfast.leaf.errors import BadInput
from holdfast.workflows.reader import read_workflow

BUILT_IN = ("solo", "chat", "loop", "waves", "pipeline")

_FOLDER = os.path.dirname(__file__)
_YAML_SUFFIXES = (".yaml", ".yml")


def find_workflow(name: str) -> Workflow:
    """A built-in workflow by name, or a user's workflow by file."""
    if name in BUILT_IN:
        return read_workflow(workflow_file(name))
    if name.endswith(_YAML_SUFFIXES):
        return read_workflow(name)
    raise BadInput(f"there is no workflow {name!r}; use {', '.join(BUILT_IN)}, or the path of a .yaml file")


def workflow_file(name: str) -> str:
    return os.path.join(_FOLDER, f"{name}.yaml")
