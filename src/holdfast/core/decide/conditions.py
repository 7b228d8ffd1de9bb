"""Conditions of phases: one fact about the run, or its negation."""

from collections.abc import Iterator, Sequence

from holdfast.core.state import RunState
from holdfast.core.work.workflow import PhaseSpec
from holdfast.leaf.errors import BadInput
from holdfast.leaf.files.yaml import read_yaml_or_json

_DOCUMENT, _DATA = "document.", "data."
_NOT = "not "
_FACTS = ("plan", "plan.needs_design")


def condition_holds(condition: str | None, state: RunState) -> bool:
    if condition is None:
        return True
    fact = condition.removeprefix(_NOT).strip()
    return _fact_holds(fact, state) != condition.startswith(_NOT)


def _fact_holds(fact: str, state: RunState) -> bool:
    if fact.startswith(_DOCUMENT):
        phase = state.phases.get(fact.removeprefix(_DOCUMENT))
        return phase is not None and bool(phase.documents)
    if fact.startswith(_DATA):
        name, _, key = fact.removeprefix(_DATA).partition(".")
        return bool(_data_of(state, name).get(key))
    if fact == "plan.needs_design":
        return state.plan is not None and state.plan.needs_design
    return state.plan is not None


def _data_of(state: RunState, phase_name: str) -> dict[str, object]:
    """The data that a phase submitted; it was validated on arrival."""
    phase = state.phases.get(phase_name)
    document = phase.documents.get(phase_name) if phase is not None else None
    try:
        value = read_yaml_or_json(document.text, phase_name).value if document is not None else None
    except BadInput:
        return {}
    return value if isinstance(value, dict) else {}


def mistake_in(condition: str, phases: Sequence[PhaseSpec]) -> str | None:
    """The mistake in a condition of a workflow with these phases; None when it is valid."""
    fact = condition.removeprefix(_NOT).strip()
    known = [*_FACTS, *(f"{_DOCUMENT}{phase.name}" for phase in phases), *_data_facts(phases)]
    if fact in known:
        return None
    return f"{condition!r} is not a condition; use one of {', '.join(known)}, with or without `not` before it"


def _data_facts(phases: Sequence[PhaseSpec]) -> Iterator[str]:
    """Conditions on data: the properties in the schemas of phases."""
    for phase in phases:
        properties = (phase.schema or {}).get("properties")
        for key in properties if isinstance(properties, dict) else ():
            yield f"{_DATA}{phase.name}.{key}"
