"""What agents were measured to do: a table in the home, which `holdfast agents probe` fills and the ladder trusts."""

import os
from collections.abc import Mapping

import msgspec

from holdfast.store.disk import make_directories, replace

_FILE = "agents.json"


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured. `load` and `resume`: None when the agent does not offer it."""

    agent: str
    when: str
    program: str | None = None
    version: str | None = None
    start_ms: int | None = None
    turn: bool = False
    load: bool | None = None
    resume: bool | None = None
    fork: bool = False
    sessions: bool = False
    replayed: int | None = None
    unknown_session: str | None = None
    notes: list[str] = []


def matrix(home: str) -> dict[str, Row]:
    """The rows there are, by agent."""
    try:
        with open(os.path.join(home, _FILE), "rb") as file:
            return msgspec.json.decode(file.read(), type=dict[str, Row])
    except (FileNotFoundError, msgspec.DecodeError):
        return {}


def proven(home: str) -> dict[str, Mapping[str, bool]]:
    """What the ladder wants to know."""
    return {
        name: {what: showed for what, showed in (("load", row.load), ("resume", row.resume)) if showed is not None}
        for name, row in matrix(home).items()
    }


def keep(home: str, row: Row) -> None:
    make_directories(home)
    rows = {**matrix(home), row.agent: row}
    replace(os.path.join(home, _FILE), msgspec.json.format(msgspec.json.encode(rows)))
