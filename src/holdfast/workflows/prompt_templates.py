"""Prompt templates: built-in files that a repository or a user may replace, role by role.

A template is Markdown with variables such as {{goal}}. Parts that it does not use are appended, so that an incomplete
template hides nothing from the agent. The rules of the run always come last; a template cannot change them.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from holdfast.core.config.validation import suggest_instead
from holdfast.core.work.workflow import PhaseKind, Workflow
from holdfast.leaf.errors import BadInput
from holdfast.leaf.files.supplied import read_repository_file
from holdfast.leaf.text.mistakes import BadFile, Mistake

REPOSITORY_FOLDER = ".holdfast"
INTERVIEWER = "interviewer"
WORKER, WORKER_AGAIN, WORKER_CONFLICT, EVALUATOR = (
    "worker",
    "worker-again",
    "worker-conflict",
    "evaluator",
)  # templates of tasks

_PHASE_VARIABLES = ("role", "goal", "documents", "plan", "changes", "findings", "diff", "question")
_TASK_VARIABLES = ("task_id", "branch", "task", "messages", "rules")
_TEMPLATE_VARIABLES = {
    INTERVIEWER: ("goal",),
    WORKER: (*_TASK_VARIABLES, "goal", "overview", "memory", "prior", "checks"),
    WORKER_AGAIN: (*_TASK_VARIABLES, "why", "next", "prior", "checks"),
    WORKER_CONFLICT: (*_TASK_VARIABLES, "files", "next"),
    EVALUATOR: (*_TASK_VARIABLES, "goal", "overview", "memory", "prior", "checks", "case", "diff"),
}
_OPTIONAL_VARIABLES = ("role", "task_id", "branch")  # parts of a sentence: not appended when unused

_BUILTIN_FOLDER = os.path.join(os.path.dirname(__file__), "templates")
_VARIABLE = re.compile(r"\{\{[ \t]*([A-Za-z0-9_.-]+)[ \t]*\}\}")
_MAX_TEMPLATE_BYTES = 64 * 1024


class Template(NamedTuple):
    file: str
    text: str


def find_template(role: str, template_name: str | None, folders: Sequence[str]) -> Template:
    """The template that a phase names, else that of its role (`reviewer-logic` before `reviewer`); `folders` first."""
    for name in (template_name,) if template_name is not None else _template_names(role):
        for folder in (*folders, _BUILTIN_FOLDER):
            file = os.path.join(folder, f"{name}.md")
            if os.path.isfile(file):
                return _check_template(
                    Template(file, _read_template(file)), _TEMPLATE_VARIABLES.get(name, _PHASE_VARIABLES)
                )
    if template_name is not None:
        searched = ", ".join((*folders, "the built-in templates"))
        raise BadInput(f"there is no template {template_name}.md; searched {searched}")
    return Template(file := os.path.join(_BUILTIN_FOLDER, "agent.md"), _read_template(file))


def templates_of(workflow: Workflow, folders: Sequence[str]) -> dict[str, Template]:
    """The checked templates of a workflow's agents, by role or template name.

    Raises `BadFile` with the mistakes of all templates.
    """
    phases = workflow.phases
    wanted: dict[str, str | None] = {role: phase.prompt for phase in phases for role in phase.all_roles}
    if not phases or any(phase.kind is PhaseKind.TASKS for phase in phases):
        wanted |= {
            name: name for name in (WORKER, WORKER_AGAIN, WORKER_CONFLICT, *((EVALUATOR,) if workflow.evaluate else ()))
        }
    if workflow.interview:
        wanted = {INTERVIEWER: None}
    found: dict[str, Template] = {}
    mistakes: list[Mistake] = []
    for name, template in {**wanted, "researcher": None}.items():
        try:
            found[name] = find_template(name, template, folders)
        except BadInput as error:
            mistakes += BadFile.mistakes_of(error)
    if mistakes:
        raise BadFile([*dict.fromkeys(mistakes)])
    return found


def is_builtin(template: Template) -> bool:
    return os.path.dirname(template.file) == _BUILTIN_FOLDER


def preferences_of(role: str, folders: Sequence[str]) -> str:
    """The preferences of a role for every run: proposals of agents that the user accepted."""
    files = [os.path.join(folder, f"{name}.md") for folder in folders for name in _template_names(role)]
    return "\n".join(_read_template(file).strip() for file in files if os.path.isfile(file))


def fill_template(template: Template, parts: Mapping[str, str]) -> str:
    """The template with its variables filled, followed by the parts that it does not use."""
    used = _VARIABLE.findall(template.text)
    frame = _VARIABLE.sub(lambda variable: variable[0] if parts.get(variable[1]) else "", template.text)
    filled = _VARIABLE.sub(lambda variable: parts[variable[1]], re.sub(r"\n{3,}", "\n\n", frame).strip())
    rest = [text for name, text in parts.items() if name not in used and name not in _OPTIONAL_VARIABLES and text]
    return "\n\n".join([filled, *rest])


def _check_template(template: Template, variables: Sequence[str]) -> Template:
    mistakes = [
        Mistake(template.file, number, "", f"there is no variable {name!r}; {suggest_instead(name, variables)}")
        for number, line in enumerate(template.text.splitlines(), start=1)
        for name in _VARIABLE.findall(line)
        if name not in variables
    ]
    if mistakes:
        raise BadFile(mistakes)
    return template


def file_name(role: str) -> str:
    """The name of a role's file, without its suffix."""
    return role.replace(":", "-", 1)


def _template_names(role: str) -> Iterator[str]:
    yield from dict.fromkeys((file_name(role), role.partition(":")[0]))


def _read_template(file: str) -> str:
    try:
        text = read_repository_file(file, _MAX_TEMPLATE_BYTES + 1).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{file}: {getattr(error, 'strerror', None) or 'not UTF-8'}; a template is Markdown") from None
    if len(text.encode()) > _MAX_TEMPLATE_BYTES:
        raise BadInput(f"{file}: larger than {_MAX_TEMPLATE_BYTES} bytes; a template is a page")
    return text
