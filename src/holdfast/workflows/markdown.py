"""A task as a page of Markdown: its front matter, its heading, its acceptance criteria, and the rest."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from holdfast.leaf.errors import BadInput

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$")
_ITEM = re.compile(r"(( {0,3})(?:[-*+]|\d{1,9}[.)])[ \t]+)(?:\[[ xX]\][ \t]+)?(.*)$")
_CRITERIA = re.compile(r"acceptance[ _-]criteri(?:a|on)\b", re.IGNORECASE)


class Page(NamedTuple):
    """A page without its front matter. `heading` is its first heading, which `text` does not repeat."""

    heading: str | None
    criteria: tuple[str, ...]
    text: str


class _Section(NamedTuple):
    """A heading and the lines until the next heading of any level."""

    level: int
    heading: str
    lines: list[str]


def front_matter(text: str, file: str) -> tuple[str | None, str]:
    """The YAML between two lines of `---` at the top, with the file's line numbers, and the rest of the text."""
    lines = text.split("\n")
    if lines[0].rstrip() != "---":
        return None, text
    for number, line in enumerate(lines[1:], start=1):
        if line.rstrip() in ("---", "..."):
            return "\n".join(["", *lines[1:number]]), "\n".join(lines[number + 1 :])
    raise BadInput(f"{file}:1: the front matter has no end; close it with another line of ---")


def read_page(text: str) -> Page:
    """Parse a page. The list under the heading "Acceptance criteria" becomes `criteria` and is left out of the text."""
    before, *sections = _sections(text)
    first = next((section for section in sections if section.heading), None)
    parts = ["\n".join(before.lines)]
    criteria: list[str] = []
    for section in sections:
        body = "\n".join(section.lines)
        if _CRITERIA.match(section.heading):
            found, rest = _list_items(section.lines)
            criteria += found
            if found and not rest:
                continue
        parts.append(body if section is first else f"{'#' * section.level} {section.heading}\n{body}")
    return Page(first.heading if first else None, tuple(criteria), "\n".join(parts).strip())


def _sections(text: str) -> Iterator[_Section]:
    section = _Section(0, "", [])
    for line, is_code in _fenced_lines(text):
        heading = None if is_code else _HEADING.match(line)
        if heading is None:
            section.lines.append(line)
            continue
        yield section
        section = _Section(len(heading[1]), heading[2] or "", [])
    yield section


def _fenced_lines(text: str) -> Iterator[tuple[str, bool]]:
    """Each line, and whether it is inside a fence, where `#` is not a heading."""
    fence = ""
    for line in text.split("\n"):
        mark = _FENCE.match(line)
        if fence:
            yield line, True
            if mark and mark[1].startswith(fence) and not line[mark.end() :].strip():
                fence = ""
        else:
            fence = mark[1] if mark else ""
            yield line, bool(mark)


def _list_items(lines: list[str]) -> tuple[list[str], bool]:
    """The items of a list, with the lines indented under them; and whether other text remains."""
    found: list[list[str]] = []
    rest, margin = False, 4
    for line in lines:
        item = _ITEM.match(line)
        if item and len(item[2]) < margin:
            found.append([item[3]])
            margin = len(item[1])
        elif not line.strip():
            continue
        elif found and line.startswith((" ", "\t")):
            found[-1].append(line.strip())
        else:
            rest = True
    return ["\n".join(part for part in item if part) for item in found if any(item)], rest
