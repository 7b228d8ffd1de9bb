"""The built-in workflows. They are data: the engine knows none of them by name.

Their YAML files are the source. `scripts/configuration.py` writes all of them to one JSON file, because every run reads
one, and loading the YAML library takes longer than anything else at its start.
"""

import os

import msgspec

from holdfast.core.work.workflow import Workflow
from holdfast.leaf.errors import BadInput
from holdfast.workflows.reader import read_workflow

BUILT_IN = ("solo", "chat", "loop", "waves", "pipeline", "interview")

_FOLDER = os.path.dirname(__file__)
PARSED_FILE = os.path.join(_FOLDER, "builtin.json")
_YAML_SUFFIXES = (".yaml", ".yml")


def find_workflow(name: str) -> Workflow:
    """A built-in workflow by name, or a user's workflow by file."""
    if name in BUILT_IN:
        with open(PARSED_FILE, "rb") as file:
            parsed = msgspec.json.decode(file.read(), type=dict[str, msgspec.Raw])
        return msgspec.json.decode(parsed[name], type=Workflow)
    if name.endswith(_YAML_SUFFIXES):
        return read_workflow(name)
    raise BadInput(f"there is no workflow {name!r}; use {', '.join(BUILT_IN)}, or the path of a .yaml file")


def workflow_file(name: str) -> str:
    return os.path.join(_FOLDER, f"{name}.yaml")


def parse_built_in() -> str:
    """Return the content of `PARSED_FILE`, from the YAML files."""
    parsed = {name: read_workflow(workflow_file(name)) for name in BUILT_IN}
    return msgspec.json.format(msgspec.json.encode(parsed), indent=1).decode() + "\n"
