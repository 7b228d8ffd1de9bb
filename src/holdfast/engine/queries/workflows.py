"""The workflows there are, for whoever shows them."""

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

_MIN_SIMILARITY = 0.75  # of 1: how alike two names of roles must be for one to be a typo of the other


def built_in_workflows() -> list[Workflow]:
    return [find_workflow(name) for name in BUILT_IN]


def workflow_with_source(name: str) -> tuple[Workflow, str]:
    """One of ours, or a file; and as it is written."""
    found = find_workflow(name)
    return found, read_text(workflow_file(name) if name in BUILT_IN else name)


def check_workflow(name: str, folder: str) -> tuple[Workflow, dict[str, str]]:
    """A workflow and the user's own prompts, as a run that is begun in this folder would have them.

    `BadFile` has every mistake: in its file, in the templates, and in the roles of the settings.
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
            _role_mistake(config, role, meant) for role, meant in _misspelled_roles(config.settings.roles, played)
        ]
    except BadInput as error:
        mistakes += BadFile.mistakes_of(error)
    if mistakes or workflow is None:
        raise BadFile(mistakes)
    return workflow, prompts


def _misspelled_roles(roles: Iterable[str], workflow_roles: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Roles of the settings that no workflow at hand has, and that are written nearly as one that this one has."""
    ours = [role for one in built_in_workflows() for phase in one.phases for role in phase.all_roles]
    for role in roles:
        base, _, own = role.partition(":")
        near = {other.partition(":")[2]: other for other in workflow_roles if other.startswith(f"{base}:")}
        if (
            own
            and role not in (*workflow_roles, *ours)
            and (meant := get_close_matches(own, near, n=1, cutoff=_MIN_SIMILARITY))
        ):
            yield role, near[meant[0]]


def _role_mistake(config: Config, role: str, suggestion: str) -> Mistake:
    path = format_toml_path(("roles", role))
    origin = next(origin for key, origin in config.origins.items() if key == path or key.startswith(f"{path}."))
    return Mistake(
        origin.file or origin.layer, origin.line, path, f"no phase has this role; did you mean {suggestion}?"
    )


def user_prompts(workflow: Workflow, checkout: str) -> dict[str, str]:
    """The templates of users by which a run would work that is begun here: what each is for, and its file."""
    found = templates_of(workflow, user_folders_at(checkout, "prompts"))
    return {name: template.file for name, template in found.items() if not is_builtin(template)}


def workflow_schema() -> dict[str, Any]:
    return schema()
