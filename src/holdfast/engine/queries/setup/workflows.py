"""The available workflows, for display."""

from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from typing import Any

from holdfast.core.config.toml_lines import format_toml_path
from holdfast.core.work.workflow import Workflow
from holdfast.engine.config.config import Config, load_config
from holdfast.engine.prompts.templates import user_folders_at
from holdfast.leaf.errors import BadInput
from holdfast.leaf.text.mistakes import BadFile, Mistake
from holdfast.workflows.builtin import BUILT_IN, find_workflow, workflow_file
from holdfast.workflows.prompt_templates import is_builtin, templates_of
from holdfast.workflows.reader import read_text, schema

_MIN_SIMILARITY = 0.75  # of 1: how similar two role names must be for one to be a typo of the other


def built_in_workflows() -> list[Workflow]:
    return [find_workflow(name) for name in BUILT_IN]


def workflow_with_source(name: str) -> tuple[Workflow, str]:
    """Return a built-in workflow or one from a file, with its source text."""
    found = find_workflow(name)
    return found, read_text(workflow_file(name) if name in BUILT_IN else name)


def check_workflow(name: str, folder: str) -> tuple[Workflow, dict[str, str]]:
    """Return a workflow and the user's prompts as a run started in this folder would use them.

    `BadFile` lists every mistake: in the file, in the templates, and in the roles of the settings.
    """
    workflow, prompts = None, dict[str, str]()
    mistakes: list[Mistake] = []
    try:
        workflow = find_workflow(name)
        prompts = user_prompts(workflow, folder)
    except BadInput as error:
        mistakes += BadFile.mistakes_of(error)
    try:
        config = load_config(folder)
        played = [role for phase in workflow.phases for role in phase.all_roles] if workflow is not None else []
        mistakes += [
            _role_mistake(config, role, suggestion)
            for role, suggestion in _misspelled_roles(config.settings.roles, played)
        ]
    except BadInput as error:
        mistakes += BadFile.mistakes_of(error)
    if mistakes or workflow is None:
        raise BadFile(mistakes)
    return workflow, prompts


def _misspelled_roles(roles: Iterable[str], workflow_roles: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Return roles of the settings that no known workflow has, and that resemble a role of this workflow."""
    ours = [role for built_in in built_in_workflows() for phase in built_in.phases for role in phase.all_roles]
    for role in roles:
        base, _, own = role.partition(":")
        near = {other.partition(":")[2]: other for other in workflow_roles if other.startswith(f"{base}:")}
        if (
            own
            and role not in (*workflow_roles, *ours)
            and (matches := get_close_matches(own, near, n=1, cutoff=_MIN_SIMILARITY))
        ):
            yield role, near[matches[0]]


def _role_mistake(config: Config, role: str, suggestion: str) -> Mistake:
    path = format_toml_path(("roles", role))
    origin = next(origin for key, origin in config.origins.items() if key == path or key.startswith(f"{path}."))
    return Mistake(
        origin.file or origin.layer, origin.line, path, f"no phase has this role; did you mean {suggestion}?"
    )


def user_prompts(workflow: Workflow, checkout: str) -> dict[str, str]:
    """Return the users' templates that a run started here would use: role or purpose, and file."""
    found = templates_of(workflow, user_folders_at(checkout, "prompts"))
    return {name: template.file for name, template in found.items() if not is_builtin(template)}


def workflow_schema() -> dict[str, Any]:
    return schema()
