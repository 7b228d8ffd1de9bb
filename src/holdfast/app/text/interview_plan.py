"""The plan of an interview as text, for people, and as JSON for an editor."""

from collections.abc import Iterator
from typing import Any

import msgspec

from holdfast.core.events.plan import PlanProposed, ProposedTask
from holdfast.core.interview import Interview
from holdfast.leaf.errors import BadInput

_ADVICE = "accept it with /accept, change it with /plan edit, or say what to change"


class PlanText(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A plan as a person edits it."""

    overview: str
    tasks: list[ProposedTask]
    seeds: list[str] = []


def plan_lines(plan: PlanProposed | Interview) -> Iterator[str]:
    yield f"plan, revision {plan.revision}: {plan.overview}"
    for task in plan.tasks:
        needs = f" (after {', '.join(task.depends_on)})" if task.depends_on else ""
        yield f"{task.id}  {task.title}{needs}"
        yield from (f"    - {criterion}" for criterion in task.acceptance_criteria)
    if plan.seeds:
        yield f"seed tests: {', '.join(plan.seeds)}"
    yield _ADVICE


def plan_as_json(plan: Interview) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(PlanText(plan.overview, plan.tasks, plan.seeds))
    return found


def read_plan(data: object) -> PlanText:
    try:
        return msgspec.convert(data, PlanText)
    except msgspec.ValidationError as error:
        raise BadInput(f"this is not a plan: {error}") from error


def parse_plan(text: str) -> PlanText:
    """Read the JSON of an editor."""
    try:
        return msgspec.json.decode(text, type=PlanText)
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise BadInput(f"this is not a plan: {error}; nothing was changed") from error


def plan_for_editor(plan: Interview) -> str:
    return msgspec.json.format(msgspec.json.encode(plan_as_json(plan)), indent=2).decode() + "\n"
