"""When a phase is entered: one fact of the run, or its contrary."""

from collections.abc import Sequence

from holdfast.core.state import RunState

_DOCUMENT = "document."
_NOT = "not "
_FACTS = ("plan", "plan.needs_design")


def holds(condition: str | None, state: RunState) -> bool:
    if condition is None:
        return True
    fact = condition.removeprefix(_NOT).strip()
    return _is_so(fact, state) != condition.startswith(_NOT)


def _is_so(fact: str, state: RunState) -> bool:
    if fact.startswith(_DOCUMENT):
        phase = state.phases.get(fact.removeprefix(_DOCUMENT))
        return phase is not None and bool(phase.documents)
    if fact == "plan.needs_design":
        return state.plan is not None and state.plan.needs_design
    return state.plan is not None


def mistake_in(condition: str, phases: Sequence[str]) -> str | None:
    """What is wrong with a condition in a workflow of these phases."""
    fact = condition.removeprefix(_NOT).strip()
    known = [*_FACTS, *(f"{_DOCUMENT}{name}" for name in phases)]
    if fact in known:
        return None
    return f"{condition!r} is no condition; there are {', '.join(known)}, each also with `not` before it"
