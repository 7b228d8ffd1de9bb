"""The workflows there are, for whoever shows them."""

from typing import Any

from holdfast.core.workflow import Workflow
from holdfast.engine.own_words import folders_at
from holdfast.workflows.builtin import BUILT_IN, file_of, find_workflow
from holdfast.workflows.reading import read_text, schema
from holdfast.workflows.templating import is_ours, templates_of


def all_workflows() -> list[Workflow]:
    return [find_workflow(name) for name in BUILT_IN]


def one_workflow(name: str) -> tuple[Workflow, str]:
    """One of ours, or a file; and as it is written."""
    found = find_workflow(name)
    return found, read_text(file_of(name) if name in BUILT_IN else name)


def own_prompts(workflow: Workflow, checkout: str) -> dict[str, str]:
    """The templates of users by which a run would work that is begun here: what each is for, and its file."""
    found = templates_of(workflow, folders_at(checkout, "prompts"))
    return {name: template.file for name, template in found.items() if not is_ours(template)}


def workflow_schema() -> dict[str, Any]:
    return schema()
