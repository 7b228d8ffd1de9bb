"""Reads the command blocks of a Markdown page.

Command blocks are fenced as `sh` (commands to copy) or `console` (`$ command`, then what it prints). They are executed,
unless a comment above the fence says why not: `<!-- not run: needs a key -->`. A comment can also say what a person at
the terminal does: `<!-- run: press y at "y allow"; leave at "takes a while" -->`. A block that is left keeps running
while the next ones run.
"""

import re
from pathlib import Path
from typing import NamedTuple

_FENCE = re.compile(r"^(`{3,})(\w*)$")
_NOT_RUN = re.compile(r"<!-- not run: (.+) -->")
_RUN = re.compile(r"<!-- run: (.+) -->")
_PRESS = re.compile(r'press (\S+) at "(.+)"')
_LEAVE = re.compile(r'leave at "(.+)"')
_LOOKS_LIKE_A_COMMAND = re.compile(r"^(\$ |(sudo |[A-Z_]+=\S* +)*(holdfast|make|git|pip|npm|uv) )", re.MULTILINE)
_LANGUAGES = ("sh", "console")


class CommandBlock(NamedTuple):
    page: str
    line: int
    commands: str
    not_run: str | None = None
    """Why it is not executed."""
    press: tuple[tuple[str, str], ...] = ()
    """What to type, and the text on the screen at which it is typed."""
    leave: str | None = None
    """The text at which it is left running."""

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


def command_blocks(page: Path) -> tuple[list[CommandBlock], list[str]]:
    """Return the command blocks, and the places of blocks that look like commands but are not fenced as such."""
    blocks: list[CommandBlock] = []
    unfenced: list[str] = []
    lines = page.read_text().splitlines()
    number = 0
    while number < len(lines):
        opened = _FENCE.match(lines[number])
        number += 1
        if opened is None:
            continue
        start = number
        while lines[number] != opened[1]:
            number += 1
        body = "\n".join(lines[start:number])
        number += 1
        if opened[2] in _LANGUAGES:
            blocks.append(_block(page.name, start, opened[2], body, lines[start - 2] if start > 1 else ""))
        elif opened[2] in ("", "text") and _LOOKS_LIKE_A_COMMAND.search(body):
            unfenced.append(f"{page.name}:{start}")
    return blocks, unfenced


def _block(page: str, line: int, language: str, body: str, comment: str) -> CommandBlock:
    commands = body
    if language == "console":
        commands = "\n".join(text.removeprefix("$ ") for text in body.splitlines() if text.startswith("$ "))
    not_run, run = _NOT_RUN.search(comment), _RUN.search(comment)
    directions = run[1].split("; ") if run is not None else []
    presses = [_PRESS.fullmatch(direction) for direction in directions]
    leaves = [_LEAVE.fullmatch(direction) for direction in directions]
    understood = [match for match in (*presses, *leaves) if match is not None]
    assert len(understood) == len(directions), f"{page}:{line}: cannot read: {comment}"
    return CommandBlock(
        page,
        line,
        commands,
        not_run[1] if not_run is not None else None,
        tuple((match[2], match[1]) for match in presses if match is not None),
        next((match[1] for match in leaves if match is not None), None),
    )
