"""The workflows that come with Holdfast. They are data: the engine knows none of them by name."""

from holdfast.core.workflow import Shape, Workflow
from holdfast.leaf.errors import BadInput

BUILT_IN = {
    workflow.name: workflow
    for workflow in (
        Workflow(name="solo", about="one agent at one task, and a diff to review"),
        Workflow(
            name="loop",
            about="worker, validators and evaluator over each task of a list, one after the other",
            case=True,
            evaluate=True,
        ),
        Workflow(
            name="waves",
            about="a graph of tasks, several agents at once, merged in order, a checkpoint each wave",
            shape=Shape.GRAPH,
            case=True,
            evaluate=True,
        ),
    )
}


def find_workflow(name: str) -> Workflow:
    found = BUILT_IN.get(name)
    if found is None:
        raise BadInput(f"there is no workflow {name!r}; there are {', '.join(BUILT_IN)}")
    return found
