"""When a phase is entered: one fact of the run, or its contrary."""

from collections.abc import Iterator, Sequence

from holdfast.core.state import RunState
from holdfast.core.work.workflow import PhaseSpec
from holdfast.leaf.errors import BadInput
from holdfast.leaf.files.yaml import read_data

_DOCUMENT, _DATA = "document.", "data."
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
    if fact.startswith(_DATA):
        name, _, key = fact.removeprefix(_DATA).partition(".")
        return bool(_data_of(state, name).get(key))
    if fact == "plan.needs_design":
        return state.plan is not None and state.plan.needs_design
    return state.plan is not None


def _data_of(state: RunState, name: str) -> dict[str, object]:
    """What a phase handed in that asks for data; it was checked when it came."""
    phase = state.phases.get(name)
    document = phase.documents.get(name) if phase is not None else None
    try:
        value = read_data(document.text, name).value if document is not None else None
    except BadInput:
        return {}
    return value if isinstance(value, dict) else {}


def mistake_in(condition: str, phases: Sequence[PhaseSpec]) -> str | None:
    """What is wrong with a condition in a workflow of these phases."""
    fact = condition.removeprefix(_NOT).strip()
    known = [*_FACTS, *(f"{_DOCUMENT}{phase.name}" for phase in phases), *_keys(phases)]
    if fact in known:
        return None
    return f"{condition!r} is no condition; there are {', '.join(known)}, each also with `not` before it"


def _keys(phases: Sequence[PhaseSpec]) -> Iterator[str]:
    """What can be asked of data: the properties that their schemas name."""
    for phase in phases:
        properties = (phase.schema or {}).get("properties")
        for key in properties if isinstance(properties, dict) else ():
            yield f"{_DATA}{phase.name}.{key}"
