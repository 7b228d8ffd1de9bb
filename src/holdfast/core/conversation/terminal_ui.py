"""An agent's own terminal UI: how it is started and brought back, handed its tools, and what it asks when it starts.

Words and variables may hold places to be filled: `{session}` is the id of its session, `{mcp}` a file with the tools
to report by, `{mcp_command}` and `{mcp_arguments}` the same as text and list, `{prompts}` the folder of its prompts.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

_PLACE = re.compile(r"\{(session|mcp|mcp_command|mcp_arguments|prompts)\}")


class Question(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What it may ask before it can be told anything, by a pattern of its screen; and the keys that answer it."""

    when: str
    about: str = "Trust this folder?"  # the question in our words: what a rule of the permissions is about
    yes: tuple[str, ...] = ("Enter",)
    no: tuple[str, ...] = ("Escape",)


class Tui(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    command: Annotated[tuple[str, ...], Meta(min_length=1, extra={"written": "command"})]
    new: tuple[str, ...] = ()  # further words, for a new session
    resume: tuple[str, ...] = ()  # for one that there is; without them it cannot be brought back
    found: str | None = None  # pattern of the file that it holds open for its session, with its id as the first group
    environment: dict[str, str] = {}
    mcp: Literal["servers", "opencode"] = "servers"  # how the file with its tools is written
    ready: str = r"\S"  # pattern of a screen that takes a prompt
    questions: tuple[Question, ...] = ()
    clear: tuple[str, ...] = ("C-u",)  # keys that empty its input
    interrupt: tuple[str, ...] = ("Escape",)

    def __post_init__(self) -> None:
        if not self.command:
            raise ValueError("a terminal UI's command has at least the name of its program")
        for pattern in (self.ready, self.found or "", *(question.when for question in self.questions)):
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(f"{pattern!r} is no pattern: {error}") from None

    @property
    def takes_an_id(self) -> bool:
        """True when the id of a new session is ours to choose."""
        return any("{session}" in word for word in self.new)


def filled(text: str, values: Mapping[str, str]) -> str:
    """A word with its places filled; other braces stay as they are."""
    return _PLACE.sub(lambda found: values[found[1]], text)
