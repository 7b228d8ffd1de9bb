"""The workflows there are, for whoever shows them."""

from typing import Any

from holdfast.core.workflow import Workflow
from holdfast.workflows.builtin import BUILT_IN, file_of, find_workflow
from holdfast.workflows.reading import read_text, schema


def all_workflows() -> list[Workflow]:
    return [find_workflow(name) for name in BUILT_IN]


def one_workflow(name: str) -> tuple[Workflow, str]:
    """One of ours, or a file; and as it is written."""
    found = find_workflow(name)
    return found, read_text(file_of(name) if name in BUILT_IN else name)


def workflow_schema() -> dict[str, Any]:
    return schema()
