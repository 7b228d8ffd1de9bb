"""The agents there are: those we know, those of the user, and what each was measured to do."""

from collections.abc import Mapping
from typing import NamedTuple

from holdfast.agents.registry import Entry, listed
from holdfast.engine.agents.matrix import Row, matrix


class Listed(NamedTuple):
    name: str
    title: str
    command: tuple[str, ...]
    installed: bool
    install: str
    secrets: tuple[str, ...]
    row: Row | None


def list_agents(home: str, own: Mapping[str, Entry] | None = None) -> list[Listed]:
    rows = matrix(home)
    return [
        Listed(name, entry.title, entry.command, entry.found(), entry.install, entry.secrets, rows.get(name))
        for name, entry in listed(own)
    ]
