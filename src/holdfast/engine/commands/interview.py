"""Start an interview: a chat that ends with a prepared run."""

from typing import Any

import msgspec

from holdfast.engine.commands.create import RunRequest, prepare_run
from holdfast.engine.config.flags import with_absolute_paths
from holdfast.engine.handover import DEFAULT_WORKFLOW, Prepares
from holdfast.engine.home import Home
from holdfast.leaf.errors import BadInput
from holdfast.workflows.builtin import find_workflow

_WORKFLOW = "interview"


async def start_interview(home: Home, request: RunRequest) -> str:
    """Create an interview about a goal. `request` describes the run that it prepares. Its runner is not started."""
    flags: dict[str, Any] = {"workflow": DEFAULT_WORKFLOW, **with_absolute_paths(request.flags)}
    workflow = find_workflow(str(flags["workflow"]))
    if workflow.chat or workflow.planner is not None:
        raise BadInput(f"the workflow {workflow.name} takes no task list; choose loop, waves, or your own with tasks")
    if request.seeds or request.include_changes or request.phases:
        raise BadInput("--interview takes no --seed, --include-changes or --with: the interviewer writes the seeds")
    prepares = Prepares(flags=flags, slug=request.slug, base=request.base)
    slug = f"{request.slug}-interview" if request.slug is not None else None
    own = request._replace(flags={**request.flags, "workflow": _WORKFLOW}, slug=slug, must_start_now=True)
    return await prepare_run(home, own, msgspec.to_builtins(prepares))
