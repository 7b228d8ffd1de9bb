"""An agent's own terminal UI: how to start and resume it, pass it tools, and answer its startup questions.

Commands and variables may contain placeholders: `{session}` is the id of its session, `{mcp}` a file with the reporting
tools, `{mcp_command}` and `{mcp_arguments}` the same as text and list, `{prompts}` the folder of its prompts.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

_PLACEHOLDER = re.compile(r"\{(session|mcp|mcp_command|mcp_arguments|prompts)\}")


class StartupQuestion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A question that the UI may ask before it takes prompts: a pattern of its screen, and the keys that answer it."""

    when: str
    about: str = "Trust this folder?"  # the question as a permission rule sees it
    yes: tuple[str, ...] = ("Enter",)
    no: tuple[str, ...] = ("Escape",)


class TerminalUi(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    command: Annotated[tuple[str, ...], Meta(min_length=1, extra={"written": "command"})]
    new: tuple[str, ...] = ()  # arguments for a new session
    resume: tuple[str, ...] = ()  # arguments for an existing session; without them it cannot be resumed
    found: str | None = None  # pattern of the file that it keeps open for its session; the first group is the id
    environment: dict[str, str] = {}
    mcp: Literal["servers", "opencode"] = "servers"  # format of the file with its tools
    ready: str = r"\S"  # pattern of a screen that accepts a prompt
    questions: tuple[StartupQuestion, ...] = ()
    clear: tuple[str, ...] = ("C-u",)  # keys that clear its input
    interrupt: tuple[str, ...] = ("Escape",)

    def __post_init__(self) -> None:
        if not self.command:
            raise ValueError("a terminal UI's command has at least the name of its program")
        for pattern in (self.ready, self.found or "", *(question.when for question in self.questions)):
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(f"{pattern!r} is not a pattern: {error}") from None

    @property
    def accepts_session_id(self) -> bool:
        """Whether Holdfast chooses the id of a new session."""
        return any("{session}" in word for word in self.new)


def fill_placeholders(text: str, values: Mapping[str, str]) -> str:
    """The text with its placeholders filled; other braces stay."""
    return _PLACEHOLDER.sub(lambda found: values[found[1]], text)
