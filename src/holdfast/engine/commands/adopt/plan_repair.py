"""Makes a plan of another tool valid. Holdfast refuses one with a task twice, or with a cycle."""

import msgspec

from holdfast.core.work.tasks import TaskList, TaskSpec


def repair(tasks: TaskList, findings: list[str]) -> TaskList:
    """Return the tasks, each once, without dependencies that can never be met. The findings get what was left out."""
    by_id: dict[str, TaskSpec] = {}
    for task in tasks.tasks:
        if task.id in by_id:
            findings.append(f"its plan has {task.id} twice; the first one counts")
        by_id.setdefault(task.id, task)
    needed = {name: [other for other in task.depends_on if other in by_id] for name, task in by_id.items()}
    for name, other in _closing_dependencies(needed):
        needed[name].remove(other)
        findings.append(f"in its plan {name} and {other} wait for each other; {name} does not wait")
    found = (
        task if task.depends_on == (left := tuple(needed[name])) else msgspec.structs.replace(task, depends_on=left)
        for name, task in by_id.items()
    )
    return msgspec.structs.replace(tasks, tasks=tuple(found))


def _closing_dependencies(needed: dict[str, list[str]]) -> list[tuple[str, str]]:
    """The dependencies that close a cycle, when the tasks are followed in the order of the plan."""
    closing: list[tuple[str, str]] = []
    done: set[str] = set()
    for start, first in needed.items():
        path = {start: list(first)} if start not in done else {}
        while path:
            name = next(reversed(path))
            if not path[name]:
                done.add(name)
                del path[name]
                continue
            other = path[name].pop(0)
            if other in path:
                closing.append((name, other))
            elif other not in done:
                path[other] = list(needed[other])
    return closing
