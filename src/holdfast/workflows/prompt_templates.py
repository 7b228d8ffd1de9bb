"""Prompt templates: files of ours, which a repository or a user may replace by their own, role by role.

A template is Markdown with places such as {{goal}}. What it does not place comes after it, so that one that forgets
something does not keep it from the agent; the rules of the run always come last, and are no template's to change.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from holdfast.core.config.validation import instead_of
from holdfast.core.work.workflow import Kind, Workflow
from holdfast.leaf.errors import BadInput
from holdfast.leaf.files.supplied import read_supplied
from holdfast.leaf.text.mistakes import BadFile, Mistake

FOLDER = ".holdfast"  # in a repository
WORKER, AGAIN, CONFLICT, EVALUATOR = "worker", "worker-again", "worker-conflict", "evaluator"  # those of tasks

_OF_PHASE = ("role", "goal", "documents", "plan", "changes", "findings", "diff", "question")
_OF_TASK = ("task_id", "branch", "task", "messages", "rules")
_PLACES = {
    WORKER: (*_OF_TASK, "goal", "overview", "memory", "prior", "checks"),
    AGAIN: (*_OF_TASK, "why", "next", "prior", "checks"),
    CONFLICT: (*_OF_TASK, "files", "next"),
    EVALUATOR: (*_OF_TASK, "goal", "overview", "memory", "prior", "checks", "case", "diff"),
}
_NAMES = ("role", "task_id", "branch")  # within a sentence: one that is not placed is not missed

_OURS = os.path.join(os.path.dirname(__file__), "templates")
_PLACE = re.compile(r"\{\{[ \t]*([A-Za-z0-9_.-]+)[ \t]*\}\}")
_LARGEST = 64 * 1024  # bytes


class Template(NamedTuple):
    file: str
    text: str


def find_template(role: str, wanted: str | None, folders: Sequence[str]) -> Template:
    """The one that a phase names, else that of its role, `reviewer-logic` before `reviewer`; in these folders first."""
    for name in (wanted,) if wanted is not None else _names(role):
        for folder in (*folders, _OURS):
            file = os.path.join(folder, f"{name}.md")
            if os.path.isfile(file):
                return _sound(Template(file, _read(file)), _PLACES.get(name, _OF_PHASE))
    if wanted is not None:
        looked = ", ".join((*folders, "those that come with Holdfast"))
        raise BadInput(f"there is no template {wanted}.md; looked for in {looked}")
    return Template(file := os.path.join(_OURS, "agent.md"), _read(file))


def templates_of(workflow: Workflow, folders: Sequence[str]) -> dict[str, Template]:
    """Those by which the agents of a workflow are told what to do, by role or by what it is for; all of them sound.

    `BadFile` has the mistakes of every template.
    """
    phases = workflow.phases
    wanted: dict[str, str | None] = {role: one.prompt for one in phases for role in one.everyone}
    if not phases or any(one.kind is Kind.TASKS for one in phases):
        wanted |= {name: name for name in (WORKER, AGAIN, CONFLICT, *((EVALUATOR,) if workflow.evaluate else ()))}
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


def is_ours(template: Template) -> bool:
    return os.path.dirname(template.file) == _OURS


def preferences_of(role: str, folders: Sequence[str]) -> str:
    """What a role is to hold to in every run: what a user accepted of what agents proposed."""
    files = [os.path.join(folder, f"{name}.md") for folder in folders for name in _names(role)]
    return "\n".join(_read(file).strip() for file in files if os.path.isfile(file))


def filled(template: Template, parts: Mapping[str, str]) -> str:
    """The template with what belongs into its places, and then the rest."""
    placed = _PLACE.findall(template.text)
    frame = _PLACE.sub(lambda place: place[0] if parts.get(place[1]) else "", template.text)
    words = _PLACE.sub(lambda place: parts[place[1]], re.sub(r"\n{3,}", "\n\n", frame).strip())
    rest = [text for name, text in parts.items() if name not in placed and name not in _NAMES and text]
    return "\n\n".join([words, *rest])


def _sound(template: Template, places: Sequence[str]) -> Template:
    mistakes = [
        Mistake(template.file, number, "", f"there is no place {name!r}; {instead_of(name, places)}")
        for number, line in enumerate(template.text.splitlines(), start=1)
        for name in _PLACE.findall(line)
        if name not in places
    ]
    if mistakes:
        raise BadFile(mistakes)
    return template


def file_name(role: str) -> str:
    """Of a role by its full name, without the ending."""
    return role.replace(":", "-", 1)


def _names(role: str) -> Iterator[str]:
    yield from dict.fromkeys((file_name(role), role.partition(":")[0]))


def _read(file: str) -> str:
    try:
        text = read_supplied(file, _LARGEST + 1).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{file}: {getattr(error, 'strerror', None) or 'not UTF-8'}; a template is Markdown") from None
    if len(text.encode()) > _LARGEST:
        raise BadInput(f"{file}: larger than {_LARGEST} bytes; a template is a page")
    return text
