"""The workflows there are, for whoever shows them."""

from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from typing import Any

from holdfast.core.config.toml_lines import spelled
from holdfast.core.work.workflow import Workflow
from holdfast.engine.config.config import Config, load
from holdfast.engine.prompts.templates import folders_at
from holdfast.leaf.errors import BadInput
from holdfast.leaf.text.mistakes import BadFile, Mistake
from holdfast.workflows.builtin import BUILT_IN, file_of, find_workflow
from holdfast.workflows.prompt_templates import is_ours, templates_of
from holdfast.workflows.reader import read_text, schema

_NEAR = 0.75  # of 1: how alike two names of roles must be for one to be a typo of the other


def all_workflows() -> list[Workflow]:
    return [find_workflow(name) for name in BUILT_IN]


def one_workflow(name: str) -> tuple[Workflow, str]:
    """One of ours, or a file; and as it is written."""
    found = find_workflow(name)
    return found, read_text(file_of(name) if name in BUILT_IN else name)


def checked_workflow(name: str, folder: str) -> tuple[Workflow, dict[str, str]]:
    """A workflow and the user's own prompts, as a run that is begun in this folder would have them.

    `BadFile` has every mistake: in its file, in the templates, and in the roles of the settings.
    """
    workflow, prompts = None, dict[str, str]()
    mistakes: list[Mistake] = []
    try:
        workflow = find_workflow(name)
        prompts = own_prompts(workflow, folder)
    except BadInput as error:
        mistakes += BadFile.mistakes_of(error)
    try:
        config = load(folder)
        played = [role for phase in workflow.phases for role in phase.everyone] if workflow is not None else []
        mistakes += [_mistake(config, role, meant) for role, meant in _misspelled(config.settings.roles, played)]
    except BadInput as error:
        mistakes += BadFile.mistakes_of(error)
    if mistakes or workflow is None:
        raise BadFile(mistakes)
    return workflow, prompts


def _misspelled(roles: Iterable[str], played: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Roles of the settings that no workflow at hand has, and that are written nearly as one that this one has."""
    ours = [role for one in all_workflows() for phase in one.phases for role in phase.everyone]
    for role in roles:
        base, _, own = role.partition(":")
        near = {other.partition(":")[2]: other for other in played if other.startswith(f"{base}:")}
        if own and role not in (*played, *ours) and (meant := get_close_matches(own, near, n=1, cutoff=_NEAR)):
            yield role, near[meant[0]]


def _mistake(config: Config, role: str, meant: str) -> Mistake:
    path = spelled(("roles", role))
    origin = next(origin for key, origin in config.origins.items() if key == path or key.startswith(f"{path}."))
    return Mistake(origin.file or origin.layer, origin.line, path, f"no phase has this role; did you mean {meant}?")


def own_prompts(workflow: Workflow, checkout: str) -> dict[str, str]:
    """The templates of users by which a run would work that is begun here: what each is for, and its file."""
    found = templates_of(workflow, folders_at(checkout, "prompts"))
    return {name: template.file for name, template in found.items() if not is_ours(template)}


def workflow_schema() -> dict[str, Any]:
    return schema()
