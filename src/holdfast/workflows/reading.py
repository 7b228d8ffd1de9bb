"""From a YAML file to a workflow; or one line that says where it is wrong, what is wrong, and what is allowed."""

import os
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from holdfast.core.conditions import mistake_in
from holdfast.core.shapes import Misshapen, instead_of, shaped
from holdfast.core.signals import tools_of
from holdfast.core.workflow import DOCUMENT, DONE, PLAN, Kind, PhaseSpec, Publish, Workflow
from holdfast.leaf.errors import BadInput
from holdfast.leaf.yaml_reading import Document, Path, read_data, read_yaml, spelled
from holdfast.workflows.artifacts import mistakes_in_schema

_EXITS = (DOCUMENT, PLAN, DONE)
_LARGEST = 256 * 1024  # bytes
_Mistake = tuple[Path, str]


def read_workflow(file: str) -> Workflow:
    return parse_workflow(read_text(file), file)


def read_text(file: str, wanted: str = "a workflow is a small YAML file") -> str:
    try:
        with open(file, "rb") as source:
            content = source.read(_LARGEST + 1)
    except OSError as error:
        raise BadInput(f"{file}: {error.strerror}; {wanted}") from None
    if len(content) > _LARGEST:
        raise BadInput(f"{file}: larger than {_LARGEST} bytes; {wanted}")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise BadInput(f"{file}:{line}: not UTF-8; {wanted}") from None


def parse_workflow(text: str, file: str) -> Workflow:
    """`file` is for the messages, and for schemas that lie beside it."""
    document = read_yaml(text, file)
    if document.root is None:
        raise BadInput(f"{file}:1: empty; a workflow has a name, a line about it, and phases")
    try:
        workflow = msgspec.convert(shaped(_with_schemas(document, file), Workflow, whole=True), Workflow)
    except Misshapen as error:
        where, what = tuple(error.path), error.what.replace("a table", "a mapping")
        raise BadInput(_complaint(file, document.line(where), where, what)) from None
    workflow = msgspec.structs.replace(workflow, phases=tuple(_with_exit(phase) for phase in workflow.phases))
    for where, what in _mistakes(workflow):
        raise BadInput(_complaint(file, document.line(where), where, what))
    return workflow


def schema() -> dict[str, Any]:
    """For editors."""
    made = msgspec.json.schema(Workflow)
    made["$defs"]["PhaseSpec"]["properties"]["schema"]["anyOf"].append({"type": "string"})  # the name of a file
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **made}


def _complaint(file: str, line: int, where: Path, what: str) -> str:
    place = spelled(where)
    return f"{file}:{line}: {f'{place}: ' if place else ''}{what}"


def _with_exit(phase: PhaseSpec) -> PhaseSpec:
    """An agent ends with what its role hands in, unless the file says otherwise."""
    if phase.kind is not Kind.AGENT or phase.role is None or phase.exit is not None:
        return phase
    tools = [kind.tool for kind in tools_of(phase.role)]
    return msgspec.structs.replace(phase, exit=next((tool for tool in tools if tool in _EXITS), None))


# --- schemas of what is handed in ---------------------------------------------------------------------


def _with_schemas(document: Document, file: str) -> Any:
    """The workflow as it is written, but with each schema in the place of the name of its file; all of them sound."""
    value = document.value
    phases = value.get("phases") if isinstance(value, dict) else None
    if not isinstance(phases, list):
        return value
    return {**value, "phases": [_with_schema(document, file, number, one) for number, one in enumerate(phases)]}


def _with_schema(document: Document, file: str, number: int, phase: Any) -> Any:
    schema = phase.get("schema") if isinstance(phase, dict) else None
    here: Path = ("phases", number, "schema")
    if isinstance(schema, dict):
        for where, what in mistakes_in_schema(schema):
            raise BadInput(_complaint(file, document.line(here + where), here + where, what))
        return phase
    if not isinstance(schema, str):
        return phase
    beside = os.path.join(os.path.dirname(file), schema)
    try:
        found = read_data(read_text(beside, "a schema is a JSON or YAML file beside the workflow"), beside)
    except BadInput as error:
        raise BadInput(_complaint(file, document.line(here), here, str(error))) from None
    if not isinstance(found.value, dict):
        raise BadInput(f"{beside}:1: expected a mapping; a schema says of which `type` the data is, …")
    for where, what in mistakes_in_schema(found.value):
        raise BadInput(_complaint(beside, found.line(where), where, what))
    return {**phase, "schema": found.value}


# --- what the types cannot say ------------------------------------------------------------------------


def _mistakes(workflow: Workflow) -> Iterator[_Mistake]:
    names = [phase.name for phase in workflow.phases]
    for index, phase in enumerate(workflow.phases):
        here: Path = ("phases", index)
        if phase.name in names[:index]:
            yield (*here, "name"), f"there is a phase {phase.name!r} already"
        yield from ((here + where, what) for where, what in _of_phase(phase))
        yield from ((here + where, what) for where, what in _of_names(phase, workflow.phases))
        yield from ((here + where, what) for where, what in _of_loop(workflow, index))
    if workflow.phases and workflow.phases[0].detour:
        yield ("phases", 0, "detour"), "a workflow cannot begin with a detour"
    planners = [index for index, phase in enumerate(workflow.phases) if phase.exit == PLAN]
    if len(planners) > 1:
        yield ("phases", planners[1]), "two phases make the plan; one does"
    for index, phase in enumerate(workflow.phases[: planners[0]] if planners else ()):
        if phase.approval and phase.kind is not Kind.AGENT:
            told = "before there is a plan, only an agent's work can wait for approval: nobody else would hear a change"
            yield ("phases", index, "approval"), told
    yield from _circles(workflow)


def _of_loop(workflow: Workflow, index: int) -> Iterator[_Mistake]:
    """What leads back, and what comes when that was of no use."""
    phase = workflow.phases[index]
    target, beyond = workflow.phase(phase.on_fail), workflow.phase(phase.on_limit)
    if target is not None and not target.detour and workflow.place(target.name) > index:
        yield ("on_fail",), f"{phase.on_fail!r} comes later; only a detour can be sent to beforehand"
    if target is not None and not (phase.kind is Kind.REVIEW or phase.checked):
        yield ("on_fail",), f"a phase of kind {phase.kind} can fail only by its checks; add `validate: true`"
    if target is not None and target.kind is Kind.TASKS and not target.findings:
        yield (
            ("on_fail",),
            f"the tasks of {target.name!r} are done by then; lead to where it is planned, or to `findings`",
        )
    if phase.exit == PLAN and phase.checked:
        yield (
            (),
            "the phase that makes the plan cannot fail by checks: a change would be lost with it; check it after that",
        )
    if phase.on_limit is not None and phase.on_fail is None:
        yield ("on_limit",), "it is what comes after all rounds of `on_fail`; say where that leads"
    if beyond is not None and (beyond.detour or workflow.place(beyond.name) <= index):
        yield ("on_limit",), f"{phase.on_limit!r} must be a later phase, and no detour: else it would go round for ever"
    if phase.detour and not any(one.on_fail == phase.name for one in workflow.phases):
        yield ("detour",), f"no phase has `on_fail: {phase.name}`, so it would never be entered"


def _of_phase(phase: PhaseSpec) -> Iterator[_Mistake]:
    """What fits its kind."""
    agent, review = phase.kind is Kind.AGENT, phase.kind is Kind.REVIEW
    if agent and phase.role is None:
        yield (), f"the phase {phase.name!r} needs a `role`: who is to do it"
    if review and not (phase.roles or phase.checked):
        yield (), f"the review {phase.name!r} needs `roles`, or `validate: true`"
    for key, fits in (
        ("role", agent),
        ("exit", agent),
        ("sections", agent and phase.exit in (DOCUMENT, None)),
        ("schema", agent and phase.exit in (DOCUMENT, None)),
        ("agent", agent or review),
        ("prompt", agent or review),
        ("inputs", agent or review),
        ("roles", review),
        ("findings", phase.kind is Kind.TASKS),
        ("publish", phase.kind is Kind.COMPLETE or phase.publish is Publish.NOTHING),
    ):
        if getattr(phase, key) and not fits:
            yield (key,), f"a phase of kind {phase.kind} has no such key"
    if phase.sections and phase.schema is not None:
        yield ("sections",), "prose has headings and data has a `schema`; a document is one of the two"
    yield from _of_roles(phase)


def _of_roles(phase: PhaseSpec) -> Iterator[_Mistake]:
    """Whoever plays in it has the tool that ends it."""
    if phase.kind is Kind.AGENT and phase.role is not None:
        tools = [kind.tool for kind in tools_of(phase.role) if kind.tool in _EXITS]
        if phase.exit not in tools:
            where: Path = ("exit",) if phase.exit else ("role",)
            yield where, f"the role {phase.role!r} can end by {' or '.join(tools) or 'nothing'}"
    for index, role in enumerate(phase.roles):
        if "submit_review" not in [kind.tool for kind in tools_of(role)]:
            yield ("roles", index), f"{role!r} cannot review; reviewers are `reviewer`, `reviewer:logic`, …"
        if role in phase.roles[:index]:
            yield ("roles", index), f"{role!r} is there already"


def _of_names(phase: PhaseSpec, phases: Sequence[PhaseSpec]) -> Iterator[_Mistake]:
    names = [one.name for one in phases]
    for key, name in (("on_fail", phase.on_fail), ("on_limit", phase.on_limit), ("next", phase.next)):
        if name is not None and name not in names:
            yield (key,), f"there is no phase {name!r}; {instead_of(name, names)}"
    for index, name in enumerate(phase.inputs):
        if name not in names:
            yield ("inputs", index), f"there is no phase {name!r}; {instead_of(name, names)}"
    if phase.when is not None and (said := mistake_in(phase.when, phases)):
        yield ("when",), said


def _circles(workflow: Workflow) -> Iterator[_Mistake]:
    """Only a failure may lead back, and that has its limit."""
    for index, phase in enumerate(workflow.phases):
        if phase.next in [one.name for one in workflow.phases[: index + 1]] and not phase.detour:
            yield ("phases", index, "next"), f"{phase.next!r} comes before it: that would go round for ever"
