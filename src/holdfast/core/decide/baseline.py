"""Which checks gate tasks, by how they ended on the untouched base."""

import json
from collections.abc import Collection, Sequence

from holdfast.core.state import BaselineCheck, RunState
from holdfast.core.text.fingerprint import fingerprint


def check_key(name: str, command: Sequence[str]) -> str:
    """Identifies a check by its command: one whose command changes is not the check that ran on the base."""
    return fingerprint(json.dumps([name, *command]).encode())


def is_baseline_due(state: RunState) -> bool:
    """Whether the base is untouched, and not all checks ran on it. Agents of older versions began without it."""
    return not state.conversations and (state.baseline is None or not state.baseline.finished)


def excused_checks(checks: Sequence[BaselineCheck], required: Collection[str], *, seeded: bool) -> list[str]:
    """The names of the checks whose failure does not count against a task.

    With seed files, all failures count: the seeds may be the tests that the work has to pass.
    """
    return [check.name for check in checks if not (check.passed or seeded or check.name in required)]


def is_excused(state: RunState, name: str, command: Sequence[str]) -> bool:
    known = state.baseline.checks.get(check_key(name, command)) if state.baseline is not None else None
    return known is not None and known.excused
