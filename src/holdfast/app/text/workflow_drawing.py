"""A workflow drawn for a terminal: its phases from top to bottom, and what leads back at the side."""

from collections.abc import Iterator

from holdfast.app.text.screen import paint
from holdfast.core.work.workflow import Kind, PhaseSpec, Publish, Workflow

_TASKS_ALONE = PhaseSpec(name="tasks", kind=Kind.TASKS)


def drawn(workflow: Workflow) -> Iterator[str]:
    phases = workflow.phases or (_TASKS_ALONE,)
    main = [phase for phase in phases if not phase.detour]
    width = max(len(phase.name) for phase in phases)
    for index, phase in enumerate(main):
        yield f"  {paint(f'{phase.name:{width}}', 'bold')}  {_how(workflow, phase)}"
        yield from _loop(workflow, phase)
        if phase.next is not None:
            yield f"    └─► {phase.next}"
        elif index < len(main) - 1:
            yield "    │"


def _loop(workflow: Workflow, phase: PhaseSpec) -> Iterator[str]:
    target = workflow.phase(phase.on_fail)
    if target is None:
        return
    times = f"at most {phase.limit} times" + (f", then {phase.on_limit}" if phase.on_limit is not None else "")
    if target.detour:
        yield f"    ├─ fails ─► {paint(target.name, 'bold')}  {_how(workflow, target)}"
        yield f"    │◄─────────┘ {times}"
    else:
        yield f"    ├─ fails ─► back to {target.name}, {times}"


def _how(workflow: Workflow, phase: PhaseSpec) -> str:
    parts = [_who(workflow, phase)]
    if phase.exit is not None:
        parts.append(phase.exit)
    if phase.checked and phase.kind is not Kind.REVIEW:
        parts.append(_checks(phase))
    if phase.approval:
        parts.append("your approval")
    if phase.publish is not Publish.NOTHING:
        parts.append({Publish.PUSH: "push", Publish.PR: "push and draft pull request"}[phase.publish])
    when = [f"only --with {phase.name}"] if phase.optional else []
    when += [f"when {phase.when}"] if phase.when is not None else []
    return " → ".join(part for part in parts if part) + "".join(paint(f"  [{one}]", "dim") for one in when)


def _checks(phase: PhaseSpec) -> str:
    return f"validators ({', '.join(phase.validators)})" if phase.validators else "validators"


def _who(workflow: Workflow, phase: PhaseSpec) -> str:
    match phase.kind:
        case Kind.AGENT:
            return phase.role or ""
        case Kind.REVIEW:
            checks = [f"{_checks(phase)} →"] if phase.checked else []
            return " ".join([*checks, " + ".join(phase.roles)])
        case Kind.COMPLETE:
            return "summary"
        case Kind.TASKS:
            checked = ["validators"] if workflow.validate else []
            judged = ["evaluator"] if workflow.evaluate else []
            steps = " → ".join(["worker", *checked, *judged, "merge"])
            what = "what was found, as a task" if phase.findings else "each task"
            return (
                f"{what}: {steps} ({'one after the other' if workflow.shape == 'sequence' else 'as the graph allows'})"
            )
