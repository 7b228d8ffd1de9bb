"""The workflows that come with Holdfast. They are data: the engine knows none of them by name."""

import os

from holdfast.core.work.workflow import Workflow
from holdfast.leaf.errors import BadInput
from holdfast.workflows.reader import read_workflow

BUILT_IN = ("solo", "loop", "waves", "pipeline")

_FOLDER = os.path.dirname(__file__)
_YAML = (".yaml", ".yml")


def find_workflow(name: str) -> Workflow:
    """One of ours by its name, or one of the user's by its file."""
    if name in BUILT_IN:
        return read_workflow(file_of(name))
    if name.endswith(_YAML):
        return read_workflow(name)
    raise BadInput(f"there is no workflow {name!r}; there are {', '.join(BUILT_IN)}, and files of your own (.yaml)")


def file_of(name: str) -> str:
    return os.path.join(_FOLDER, f"{name}.yaml")
