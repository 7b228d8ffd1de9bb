"""The agents there are: those we know, those of the user, and what each was measured to do."""

from collections.abc import Callable
from typing import NamedTuple

from holdfast.agents.registry import listed
from holdfast.engine.probing import Row, keep, matrix, probe


class Listed(NamedTuple):
    name: str
    title: str
    command: tuple[str, ...]
    installed: bool
    install: str
    row: Row | None


def list_agents(home: str) -> list[Listed]:
    rows = matrix(home)
    return [
        Listed(name, entry.title, entry.command, entry.found(), entry.install, rows.get(name))
        for name, entry in listed()
    ]


async def probe_agent(home: str, name: str, say: Callable[[str], None]) -> Row:
    row = await probe(name, {}, say)
    keep(home, row)
    return row
