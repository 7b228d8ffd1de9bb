"""Read a workflow from YAML, or report each mistake: where it is, what is wrong, and what is allowed."""

import os
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from holdfast.core.config.roles import mistake_in_role
from holdfast.core.config.validation import InvalidValue, suggest_instead, validate_value
from holdfast.core.decide.conditions import mistake_in
from holdfast.core.messages.signals import ROLES, signals_for_role
from holdfast.core.work.workflow import (
    DOCUMENT_SIGNAL,
    DONE_SIGNAL,
    PLAN_SIGNAL,
    PhaseKind,
    PhaseSpec,
    Publish,
    Workflow,
)
from holdfast.leaf.errors import BadInput
from holdfast.leaf.files.supplied import read_repository_file
from holdfast.leaf.files.yaml import KeyPath, YamlDocument, format_yaml_path, read_yaml, read_yaml_or_json
from holdfast.leaf.text.mistakes import BadFile, Mistake
from holdfast.workflows.artifacts import schema_mistakes

_EXIT_TOOLS = (DOCUMENT_SIGNAL, PLAN_SIGNAL, DONE_SIGNAL)
_PHASE_ROLES = tuple(role for role, kinds in ROLES.items() if any(kind.tool in _EXIT_TOOLS for kind in kinds))
_REVIEW_ROLES = ("reviewer",)
_MAX_WORKFLOW_BYTES = 256 * 1024
_Mistake = tuple[KeyPath, str]


def read_workflow(file: str) -> Workflow:
    return parse_workflow(read_text(file), file)


def read_text(file: str, expected: str = "a workflow is a small YAML file") -> str:
    try:
        content = read_repository_file(file, _MAX_WORKFLOW_BYTES + 1)
    except OSError as error:
        raise BadInput(f"{file}: {error.strerror}; {expected}") from None
    if len(content) > _MAX_WORKFLOW_BYTES:
        raise BadInput(f"{file}: larger than {_MAX_WORKFLOW_BYTES} bytes; {expected}")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise BadInput(f"{file}:{line}: not UTF-8; {expected}") from None


def parse_workflow(text: str, file: str) -> Workflow:
    """Parse a workflow. `file` is for messages and to find schema files beside it. `BadFile` lists every mistake."""
    document = read_yaml(text, file)
    if document.root is None:
        raise BadInput(f"{file}:1: empty; a workflow has `name`, `about` and `phases`")
    draft = _Draft(file, document)
    workflow = draft.parse()
    for path, message in _mistakes(workflow):
        if not draft.may_be_consequence(path):
            draft.report(path, message)
    if draft.mistakes:
        raise BadFile(sorted(draft.mistakes, key=lambda mistake: (mistake.file != file, mistake.file, mistake.line)))
    return workflow


class _Draft:
    """A workflow being parsed, and its mistakes. Invalid parts are left out of the workflow."""

    def __init__(self, file: str, document: YamlDocument) -> None:
        self._file = file
        self._document = document
        self.mistakes: list[Mistake] = []
        self._omitted: dict[int, set[str | int]] = {}  # keys left out, by phase; `kind` when the whole phase was

    def report(self, path: KeyPath, message: str) -> None:
        self.mistakes.append(Mistake(self._file, self._document.line(path), format_yaml_path(path), message))

    def _omit_invalid(self, error: InvalidValue) -> None:
        path = tuple(error.path)
        self._omit(path)
        self.report(path, error.problem.replace("a table", "a mapping"))

    def _omit(self, path: KeyPath) -> None:
        match path:
            case ("phases", int(number)):
                self._omitted.setdefault(number, set()).add("kind")
            case ("phases", int(number), key, *_):
                self._omitted.setdefault(number, set()).add(key)

    def may_be_consequence(self, path: KeyPath) -> bool:
        """Whether a mistake at this path may only follow from another part being left out."""
        match path:
            case ("phases", int(), "when"):
                return any("schema" in keys for keys in self._omitted.values())
            case ("phases", int(number), *rest):
                keys = self._omitted.get(number, set())
                return "kind" in keys or bool(keys and (not rest or rest[0] in keys))
            case _:
                return False

    def parse(self) -> Workflow:
        value = self._document.value
        phases = value.get("phases") if isinstance(value, dict) else None
        rest = {**value, "phases": []} if isinstance(phases, list) else value
        valid = validate_value(rest, Workflow, require_all=True, report=self._omit_invalid)
        known = {"name": "", "about": "", **(valid if isinstance(valid, dict) else {})}
        specs = [
            self._parse_phase(number, phase) for number, phase in enumerate(phases if isinstance(phases, list) else ())
        ]
        return msgspec.structs.replace(msgspec.convert(known, Workflow), phases=tuple(specs))

    def _parse_phase(self, number: int, phase: Any) -> PhaseSpec:
        here: KeyPath = ("phases", number)
        valid = validate_value(
            self._with_schema((*here, "schema"), phase), PhaseSpec, here, require_all=True, report=self._omit_invalid
        )
        known = {"name": f"phase_{number}", **(valid if isinstance(valid, dict) else {})}
        return _with_exit(msgspec.convert(known, PhaseSpec))

    def _with_schema(self, path: KeyPath, phase: Any) -> Any:
        """The phase with a schema file's name replaced by its content, and without an invalid schema."""
        schema = phase.get("schema") if isinstance(phase, dict) else None
        if isinstance(schema, str):
            schema = self._read_schema_file(path, schema)
        elif isinstance(schema, dict):
            for inner_path, message in (mistakes := [*schema_mistakes(schema)]):
                self.report(path + inner_path, message)
            schema = None if mistakes else schema
        else:
            return phase
        if schema is None:
            self._omit(path)
        return {**phase, "schema": schema}

    def _read_schema_file(self, path: KeyPath, name: str) -> dict[str, Any] | None:
        file = os.path.join(os.path.dirname(self._file), name)
        try:
            document = read_yaml_or_json(read_text(file, "a schema is a JSON or YAML file beside the workflow"), file)
        except BadInput as error:
            self.report(path, str(error))
            return None
        if not isinstance(document.value, dict):
            message = "expected a mapping; a schema has keys such as `type`"
            self.mistakes.append(Mistake(file, 1, "", message))
            return None
        mistakes = [
            Mistake(file, document.line(inner_path), format_yaml_path(inner_path), message)
            for inner_path, message in schema_mistakes(document.value)
        ]
        self.mistakes += mistakes
        return None if mistakes else document.value


def schema() -> dict[str, Any]:
    """The JSON schema of a workflow file, for editors."""
    generated = msgspec.json.schema(Workflow)
    generated["$defs"]["PhaseSpec"]["properties"]["schema"]["anyOf"].append({"type": "string"})  # a file name
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **generated}


def _with_exit(phase: PhaseSpec) -> PhaseSpec:
    """The phase with its role's exit tool, unless the file names another."""
    if phase.kind is not PhaseKind.AGENT or phase.role is None or phase.exit is not None:
        return phase
    tools = [kind.tool for kind in signals_for_role(phase.role)]
    return msgspec.structs.replace(phase, exit=next((tool for tool in tools if tool in _EXIT_TOOLS), None))


# --- mistakes that types cannot express ----------------------------------------------------------------


def _mistakes(workflow: Workflow) -> Iterator[_Mistake]:
    names = [phase.name for phase in workflow.phases]
    for index, phase in enumerate(workflow.phases):
        here: KeyPath = ("phases", index)
        if phase.name in names[:index]:
            yield (*here, "name"), f"duplicate phase name {phase.name!r}"
        yield from ((here + path, message) for path, message in _phase_mistakes(phase))
        yield from ((here + path, message) for path, message in _name_mistakes(phase, workflow.phases))
        yield from ((here + path, message) for path, message in _loop_mistakes(workflow, index))
    if workflow.phases and workflow.phases[0].detour:
        yield ("phases", 0, "detour"), "the first phase cannot be a detour"
    planners = [index for index, phase in enumerate(workflow.phases) if phase.exit == PLAN_SIGNAL]
    if len(planners) > 1:
        yield ("phases", planners[1]), "two phases submit a plan; only one can"
    for index, phase in enumerate(workflow.phases[: planners[0]] if planners else ()):
        if phase.approval and phase.kind is not PhaseKind.AGENT:
            message = "before the plan, only an agent phase can ask for approval: no other can act on a change request"
            yield ("phases", index, "approval"), message
    yield from _cycle_mistakes(workflow)


def _loop_mistakes(workflow: Workflow, index: int) -> Iterator[_Mistake]:
    """Mistakes in `on_fail`, `on_limit` and `detour`."""
    phase = workflow.phases[index]
    target, beyond = workflow.phase(phase.on_fail), workflow.phase(phase.on_limit)
    if target is not None and not target.detour and workflow.phase_index(target.name) > index:
        yield ("on_fail",), f"{phase.on_fail!r} is a later phase; `on_fail` leads to an earlier phase or a detour"
    if target is not None and not (phase.kind is PhaseKind.REVIEW or phase.has_checks):
        yield ("on_fail",), f"a phase of kind {phase.kind} fails only when its checks fail; add `validate: true`"
    if target is not None and target.kind is PhaseKind.TASKS and not target.findings:
        yield (
            ("on_fail",),
            f"the tasks of {target.name!r} are complete by then; name the phase that plans them, or set its `findings`",
        )
    if phase.exit == PLAN_SIGNAL and phase.has_checks:
        yield (
            (),
            "the planning phase cannot have checks: a failure would lose requested changes; check in a later phase",
        )
    if phase.on_limit is not None and phase.on_fail is None:
        yield ("on_limit",), "needs `on_fail`: `on_limit` applies after all rounds of `on_fail`"
    if beyond is not None and (beyond.detour or workflow.phase_index(beyond.name) <= index):
        yield ("on_limit",), f"{phase.on_limit!r} must be a later phase and not a detour: else the loop never ends"
    if phase.detour and not any(other.on_fail == phase.name for other in workflow.phases):
        yield ("detour",), f"no phase has `on_fail: {phase.name}`, so it would never be entered"


def _phase_mistakes(phase: PhaseSpec) -> Iterator[_Mistake]:
    """Keys that are missing, or do not fit the kind of phase."""
    agent, review = phase.kind is PhaseKind.AGENT, phase.kind is PhaseKind.REVIEW
    if agent and phase.role is None:
        yield (), f"the phase {phase.name!r} needs a `role`"
    if review and not (phase.roles or phase.has_checks):
        yield (), f"the review {phase.name!r} needs `roles`, or `validate: true`"
    for key, fits in (
        ("role", agent),
        ("exit", agent),
        ("sections", agent and phase.exit in (DOCUMENT_SIGNAL, None)),
        ("schema", agent and phase.exit in (DOCUMENT_SIGNAL, None)),
        ("agent", agent or review),
        ("prompt", agent or review),
        ("inputs", agent or review),
        ("roles", review),
        ("findings", phase.kind is PhaseKind.TASKS),
        ("publish", phase.kind is PhaseKind.COMPLETE or phase.publish is Publish.NOTHING),
    ):
        if getattr(phase, key) and not fits:
            yield (key,), f"does not apply to a phase of kind {phase.kind}"
    if phase.sections and phase.schema is not None:
        yield ("sections",), "cannot be combined with `schema`: a document is either prose with headings or data"
    yield from _role_mistakes(phase)


def _role_mistakes(phase: PhaseSpec) -> Iterator[_Mistake]:
    """Unknown roles, and roles without the tool that ends the phase."""
    if phase.kind is PhaseKind.AGENT and phase.role is not None:
        tools = [kind.tool for kind in signals_for_role(phase.role) if kind.tool in _EXIT_TOOLS]
        if wrong := mistake_in_role(phase.role, _PHASE_ROLES):
            yield ("role",), wrong
        elif phase.exit not in tools:
            where: KeyPath = ("exit",) if phase.exit else ("role",)
            yield where, f"the role {phase.role!r} can end with {' or '.join(tools) or 'no tool'}"
    for index, role in enumerate(phase.roles):
        if wrong := mistake_in_role(role, _REVIEW_ROLES):
            yield ("roles", index), wrong
        elif "submit_review" not in [kind.tool for kind in signals_for_role(role)]:
            yield ("roles", index), f"{role!r} cannot review; reviewers are `reviewer`, `reviewer:logic`, …"
        if role in phase.roles[:index]:
            yield ("roles", index), f"duplicate role {role!r}"


def _name_mistakes(phase: PhaseSpec, phases: Sequence[PhaseSpec]) -> Iterator[_Mistake]:
    names = [other.name for other in phases]
    for key, name in (("on_fail", phase.on_fail), ("on_limit", phase.on_limit), ("next", phase.next)):
        if name is not None and name not in names:
            yield (key,), f"there is no phase {name!r}; {suggest_instead(name, names)}"
    for index, name in enumerate(phase.inputs):
        if name not in names:
            yield ("inputs", index), f"there is no phase {name!r}; {suggest_instead(name, names)}"
    if phase.when is not None and (message := mistake_in(phase.when, phases)):
        yield ("when",), message


def _cycle_mistakes(workflow: Workflow) -> Iterator[_Mistake]:
    """`next` that leads back. Only `on_fail` may, because it has a limit."""
    for index, phase in enumerate(workflow.phases):
        if phase.next in [other.name for other in workflow.phases[: index + 1]] and not phase.detour:
            yield ("phases", index, "next"), f"{phase.next!r} is not a later phase: the loop would never end"
