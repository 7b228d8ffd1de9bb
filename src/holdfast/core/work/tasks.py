"""Tasks as people and planners write them, and the key that identifies finished work."""

from collections.abc import Iterable

import msgspec

from holdfast.core.text.fingerprint import fingerprint
from holdfast.core.work.plan import build_graph


class TaskSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One task. `files` are those that it is expected to change; `agent` should do it."""

    id: str
    title: str
    description: str = ""
    acceptance_criteria: tuple[str, ...] = ()
    depends_on: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    agent: str | None = None


class TaskList(msgspec.Struct, frozen=True, kw_only=True):
    """A task list as read. `done` are the tasks that the list itself marks as done."""

    tasks: tuple[TaskSpec, ...]
    overview: str = ""
    done: tuple[str, ...] = ()


def input_keys(tasks: Iterable[TaskSpec]) -> dict[str, str]:
    """A hash of each task's content: its own text, and the keys of the tasks that it depends on.

    Its id and its position do not matter: an unchanged task keeps its key when others are inserted before it.
    """
    specs = {task.id: task for task in tasks}
    checked = build_graph(list(specs), {name: task.depends_on for name, task in specs.items()})
    keys: dict[str, str] = {}
    for wave in checked.waves:
        for name in wave:
            content = msgspec.structs.replace(specs[name], id="", depends_on=(), agent=None)
            inputs = [msgspec.to_builtins(content), sorted(keys[needed] for needed in specs[name].depends_on)]
            keys[name] = fingerprint(msgspec.json.encode(inputs, order="deterministic"))
    return keys
