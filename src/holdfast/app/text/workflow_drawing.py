"""Draws a workflow for a terminal: phases from top to bottom, loops at the side."""

from collections.abc import Iterator

from holdfast.app.text.screen import paint
from holdfast.core.work.workflow import PhaseKind, PhaseSpec, Publish, Workflow

_TASKS_ONLY = PhaseSpec(name="tasks", kind=PhaseKind.TASKS)


def draw_workflow(workflow: Workflow) -> Iterator[str]:
    phases = workflow.phases or (_TASKS_ONLY,)
    main = [phase for phase in phases if not phase.detour]
    width = max(len(phase.name) for phase in phases)
    for index, phase in enumerate(main):
        yield f"  {paint(f'{phase.name:{width}}', 'bold')}  {_phase_text(workflow, phase)}"
        yield from _loop_lines(workflow, phase)
        if phase.next is not None:
            yield f"    └─► {phase.next}"
        elif index < len(main) - 1:
            yield "    │"


def _loop_lines(workflow: Workflow, phase: PhaseSpec) -> Iterator[str]:
    target = workflow.phase(phase.on_fail)
    if target is None:
        return
    times = f"at most {phase.limit} times" + (f", then {phase.on_limit}" if phase.on_limit is not None else "")
    if target.detour:
        yield f"    ├─ fails ─► {paint(target.name, 'bold')}  {_phase_text(workflow, target)}"
        yield f"    │◄─────────┘ {times}"
    else:
        yield f"    ├─ fails ─► back to {target.name}, {times}"


def _phase_text(workflow: Workflow, phase: PhaseSpec) -> str:
    parts = [_actors_text(workflow, phase)]
    if phase.exit is not None:
        parts.append(phase.exit)
    if phase.has_checks and phase.kind is not PhaseKind.REVIEW:
        parts.append(_validators_text(phase))
    if phase.approval:
        parts.append("your approval")
    if phase.publish is not Publish.NOTHING:
        parts.append({Publish.PUSH: "push", Publish.PR: "push and draft pull request"}[phase.publish])
    when = [f"only --with {phase.name}"] if phase.optional else []
    when += [f"when {phase.when}"] if phase.when is not None else []
    return " → ".join(part for part in parts if part) + "".join(paint(f"  [{condition}]", "dim") for condition in when)


def _validators_text(phase: PhaseSpec) -> str:
    return f"validators ({', '.join(phase.validators)})" if phase.validators else "validators"


def _actors_text(workflow: Workflow, phase: PhaseSpec) -> str:
    match phase.kind:
        case PhaseKind.AGENT:
            return phase.role or ""
        case PhaseKind.REVIEW:
            checks = [f"{_validators_text(phase)} →"] if phase.has_checks else []
            return " ".join([*checks, " + ".join(phase.roles)])
        case PhaseKind.COMPLETE:
            return "summary"
        case PhaseKind.TASKS:
            checked = ["validators"] if workflow.validate else []
            judged = ["evaluator"] if workflow.evaluate else []
            steps = " → ".join(["worker", *checked, *judged, "merge"])
            subject = "the findings, as a task" if phase.findings else "each task"
            order = "one after the other" if workflow.shape == "sequence" else "in parallel, as dependencies allow"
            return f"{subject}: {steps} ({order})"
