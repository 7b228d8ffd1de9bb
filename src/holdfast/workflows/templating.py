"""Prompt templates: files of ours, which a repository or a user may replace by their own, role by role.

A template is Markdown with places such as {{goal}}. What it does not place comes after it, so that one that forgets
something does not keep it from the agent; the rules of the run always come last, and are no template's to change.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from holdfast.leaf.errors import BadInput

FOLDER = ".holdfast"  # in a repository
PLACES = ("role", "goal", "documents", "plan", "changes", "findings", "diff", "question")

_OURS = os.path.join(os.path.dirname(__file__), "templates")
_PLACE = re.compile(r"\{\{\s*([a-z_]+)\s*\}\}")
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
                return Template(file, _read(file))
    if wanted is not None:
        looked = ", ".join((*folders, "those that come with Holdfast"))
        raise BadInput(f"there is no template {wanted}.md; looked for in {looked}")
    return Template(file := os.path.join(_OURS, "agent.md"), _read(file))


def preferences_of(role: str, folders: Sequence[str]) -> str:
    """What a role is to hold to in every run: what a user accepted of what agents proposed."""
    files = [os.path.join(folder, f"{name}.md") for folder in folders for name in _names(role)]
    return "\n".join(_read(file).strip() for file in files if os.path.isfile(file))


def filled(template: Template, parts: Mapping[str, str]) -> str:
    """The template with what belongs into its places, and then the rest."""
    placed = _PLACE.findall(template.text)
    for name in placed:
        if name not in PLACES:
            raise BadInput(f"{template.file}: there is no place {name!r}; there are {', '.join(PLACES)}")
    words = _PLACE.sub(lambda place: parts.get(place[1], ""), template.text)
    rest = [text for name, text in parts.items() if name not in placed and name != "role" and text]
    return "\n\n".join([re.sub(r"\n{3,}", "\n\n", words).strip(), *rest])


def _names(role: str) -> Iterator[str]:
    base, colon, more = role.partition(":")
    if colon:
        yield f"{base}-{more}"
    yield base


def _read(file: str) -> str:
    try:
        with open(file, encoding="utf-8") as source:
            text = source.read(_LARGEST + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{file}: {getattr(error, 'strerror', None) or 'not UTF-8'}; a template is Markdown") from None
    if len(text) > _LARGEST:
        raise BadInput(f"{file}: larger than {_LARGEST} characters; a template is a page")
    return text
