"""From a YAML file to a workflow; or a line for each mistake: where it is, what is wrong, and what is allowed."""

import os
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from holdfast.core.config.roles import mistake_in_role
from holdfast.core.config.validation import Misshapen, instead_of, shaped
from holdfast.core.decide.conditions import mistake_in
from holdfast.core.messages.signals import ROLES, tools_of
from holdfast.core.work.workflow import DOCUMENT, DONE, PLAN, Kind, PhaseSpec, Publish, Workflow
from holdfast.leaf.errors import BadInput
from holdfast.leaf.files.supplied import read_supplied
from holdfast.leaf.files.yaml import Document, Path, read_data, read_yaml, spelled
from holdfast.leaf.text.mistakes import BadFile, Mistake
from holdfast.workflows.artifacts import mistakes_in_schema

_EXITS = (DOCUMENT, PLAN, DONE)
_IN_PHASES = tuple(role for role, kinds in ROLES.items() if any(kind.tool in _EXITS for kind in kinds))
_REVIEWERS = ("reviewer",)
_LARGEST = 256 * 1024  # bytes
_Mistake = tuple[Path, str]


def read_workflow(file: str) -> Workflow:
    return parse_workflow(read_text(file), file)


def read_text(file: str, wanted: str = "a workflow is a small YAML file") -> str:
    try:
        content = read_supplied(file, _LARGEST + 1)
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
    """`file` is for the messages, and for schemas that lie beside it. `BadFile` has every mistake that was found."""
    document = read_yaml(text, file)
    if document.root is None:
        raise BadInput(f"{file}:1: empty; a workflow has a name, a line about it, and phases")
    draft = _Draft(file, document)
    workflow = draft.workflow()
    for where, what in _mistakes(workflow):
        if not draft.may_follow(where):
            draft.report(where, what)
    if draft.mistakes:
        raise BadFile(sorted(draft.mistakes, key=lambda one: (one.file != file, one.file, one.line)))
    return workflow


class _Draft:
    """A workflow as it is written, and what is wrong with it. What is wrong is left out of the workflow."""

    def __init__(self, file: str, document: Document) -> None:
        self._file = file
        self._document = document
        self.mistakes: list[Mistake] = []
        self._left: dict[int, set[str | int]] = {}  # keys of phases that were left out; `kind` when all of it was

    def report(self, where: Path, what: str) -> None:
        self.mistakes.append(Mistake(self._file, self._document.line(where), spelled(where), what))

    def _left_out(self, error: Misshapen) -> None:
        where = tuple(error.path)
        self._leave_out(where)
        self.report(where, error.what.replace("a table", "a mapping"))

    def _leave_out(self, where: Path) -> None:
        match where:
            case ("phases", int(number)):
                self._left.setdefault(number, set()).add("kind")
            case ("phases", int(number), key, *_):
                self._left.setdefault(number, set()).add(key)

    def may_follow(self, where: Path) -> bool:
        """True of what may be wrong only for that something else was left out."""
        match where:
            case ("phases", int(), "when"):
                return any("schema" in left for left in self._left.values())
            case ("phases", int(number), *rest):
                left = self._left.get(number, set())
                return "kind" in left or bool(left and (not rest or rest[0] in left))
            case _:
                return False

    def workflow(self) -> Workflow:
        value = self._document.value
        phases = value.get("phases") if isinstance(value, dict) else None
        rest = {**value, "phases": []} if isinstance(phases, list) else value
        sound = shaped(rest, Workflow, whole=True, report=self._left_out)
        known = {"name": "", "about": "", **(sound if isinstance(sound, dict) else {})}
        specs = [self._phase(number, one) for number, one in enumerate(phases if isinstance(phases, list) else ())]
        return msgspec.structs.replace(msgspec.convert(known, Workflow), phases=tuple(specs))

    def _phase(self, number: int, phase: Any) -> PhaseSpec:
        here: Path = ("phases", number)
        sound = shaped(self._with_schema((*here, "schema"), phase), PhaseSpec, here, whole=True, report=self._left_out)
        known = {"name": f"phase_{number}", **(sound if isinstance(sound, dict) else {})}
        return _with_exit(msgspec.convert(known, PhaseSpec))

    def _with_schema(self, here: Path, phase: Any) -> Any:
        """The phase with its schema in the place of the name of a file, and without one that is not sound."""
        schema = phase.get("schema") if isinstance(phase, dict) else None
        if isinstance(schema, str):
            schema = self._schema_beside(here, schema)
        elif isinstance(schema, dict):
            for where, what in (found := [*mistakes_in_schema(schema)]):
                self.report(here + where, what)
            schema = None if found else schema
        else:
            return phase
        if schema is None:
            self._leave_out(here)
        return {**phase, "schema": schema}

    def _schema_beside(self, here: Path, name: str) -> dict[str, Any] | None:
        beside = os.path.join(os.path.dirname(self._file), name)
        try:
            found = read_data(read_text(beside, "a schema is a JSON or YAML file beside the workflow"), beside)
        except BadInput as error:
            self.report(here, str(error))
            return None
        if not isinstance(found.value, dict):
            what = "expected a mapping; a schema says of which `type` the data is, …"
            self.mistakes.append(Mistake(beside, 1, "", what))
            return None
        wrong = [
            Mistake(beside, found.line(where), spelled(where), what) for where, what in mistakes_in_schema(found.value)
        ]
        self.mistakes += wrong
        return None if wrong else found.value


def schema() -> dict[str, Any]:
    """For editors."""
    made = msgspec.json.schema(Workflow)
    made["$defs"]["PhaseSpec"]["properties"]["schema"]["anyOf"].append({"type": "string"})  # the name of a file
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **made}


def _with_exit(phase: PhaseSpec) -> PhaseSpec:
    """An agent ends with what its role hands in, unless the file says otherwise."""
    if phase.kind is not Kind.AGENT or phase.role is None or phase.exit is not None:
        return phase
    tools = [kind.tool for kind in tools_of(phase.role)]
    return msgspec.structs.replace(phase, exit=next((tool for tool in tools if tool in _EXITS), None))


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
    """Each role is one that there is, and has the tool that ends the phase."""
    if phase.kind is Kind.AGENT and phase.role is not None:
        tools = [kind.tool for kind in tools_of(phase.role) if kind.tool in _EXITS]
        if wrong := mistake_in_role(phase.role, _IN_PHASES):
            yield ("role",), wrong
        elif phase.exit not in tools:
            where: Path = ("exit",) if phase.exit else ("role",)
            yield where, f"the role {phase.role!r} can end by {' or '.join(tools) or 'nothing'}"
    for index, role in enumerate(phase.roles):
        if wrong := mistake_in_role(role, _REVIEWERS):
            yield ("roles", index), wrong
        elif "submit_review" not in [kind.tool for kind in tools_of(role)]:
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
