"""The measured abilities of agents: a table in the home that `holdfast agents probe` fills and recovery relies on."""

from collections.abc import Mapping
from typing import Literal

import msgspec

from holdfast.core.conversation.states import Capability, RecoveryStrategy, recovery_strategies
from holdfast.core.log.codec import DECODE_ERRORS
from holdfast.core.text.fingerprint import fingerprint
from holdfast.engine.home import Home
from holdfast.leaf.files.disk import replace
from holdfast.leaf.files.exclusive import lock_folder

_FILE = "agents.json"


class AgentMeasurement(msgspec.Struct, frozen=True, kw_only=True):
    """A measurement. None for a strategy that the agent does not offer, and for what was not reached.

    `after_cut` is what the agent remembered after a kill in the middle of a turn, restored by its best strategy.
    """

    agent: str
    when: str
    program: str | None = None
    version: str | None = None
    start_ms: int | None = None
    memory_mb: int | None = None
    turn: bool = False
    load: bool | None = None
    resume: bool | None = None
    fork: bool | None = None
    sessions: bool | None = None
    cost: bool | None = None  # whether it reported the cost of its turns
    after_cut: Literal["all", "earlier turns", "nothing"] | None = None
    replayed: int | None = None
    unknown_session: str | None = None
    notes: list[str] = []

    @property
    def strategy(self) -> RecoveryStrategy:
        """Return the strategy that restores it."""
        return best_strategy(self.load, self.resume)


def best_strategy(load: bool | None, resume: bool | None) -> RecoveryStrategy:  # noqa: FBT001 - measured results
    """Return the strategy that recovery tries first for an agent with these results."""
    can_load, can_resume = (Capability(showed is not None, showed) for showed in (load, resume))
    return recovery_strategies("token", resume=can_resume, load=can_load, is_alive=False, has_history=True)[0]


def read_matrix(home: Home) -> dict[str, AgentMeasurement]:
    """Return the rows by agent."""
    try:
        return _read_rows(home)
    except DECODE_ERRORS:
        return {}


def proven_abilities(home: Home) -> dict[str, Mapping[str, bool]]:
    """Return the abilities in the form that recovery uses."""
    return {
        name: {what: showed for what, showed in (("load", row.load), ("resume", row.resume)) if showed is not None}
        for name, row in read_matrix(home).items()
    }


def save_measurement(home: Home, measurement: AgentMeasurement) -> str | None:
    """Save a measurement. Returns the path of the old table if that was unreadable and set aside."""
    with lock_folder(home.path):
        aside, rows = None, {}
        try:
            rows = _read_rows(home)
        except DECODE_ERRORS:
            aside = _set_aside(home.file(_FILE))
        replace(
            home.file(_FILE),
            msgspec.json.format(msgspec.json.encode({**rows, measurement.agent: measurement})),
        )
    return aside


def _read_rows(home: Home) -> dict[str, AgentMeasurement]:
    try:
        with open(home.file(_FILE), "rb") as file:
            return msgspec.json.decode(file.read(), type=dict[str, AgentMeasurement])
    except FileNotFoundError:
        return {}


def _set_aside(path: str) -> str:
    """Set a file aside under a name derived from its content, so that repeating it changes nothing."""
    with open(path, "rb") as file:
        found = file.read()
    aside = f"{path}.unreadable-{fingerprint(found, 8)}"
    replace(aside, found)
    return aside
