"""Tasks as people and planners write them, and the key by which finished work is known again."""

from collections.abc import Iterable

import msgspec

from holdfast.core.text.fingerprint import fingerprint
from holdfast.core.work.plan import graph


class TaskSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is to be done. `files` are those that it is expected to touch; `agent` is who should do it."""

    id: str
    title: str
    description: str = ""
    acceptance_criteria: tuple[str, ...] = ()
    depends_on: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    agent: str | None = None


class TaskList(msgspec.Struct, frozen=True, kw_only=True):
    """A list as it was read. `done` are the tasks that it calls done itself."""

    tasks: tuple[TaskSpec, ...]
    overview: str = ""
    done: tuple[str, ...] = ()


def input_keys(tasks: Iterable[TaskSpec]) -> dict[str, str]:
    """A hash of what each task is made from: its own words, and the keys of what it builds on.

    Neither its name nor where it stands in the list matters: unchanged work keeps its key, whatever is put before it.
    """
    specs = {task.id: task for task in tasks}
    checked = graph(list(specs), {name: task.depends_on for name, task in specs.items()})
    keys: dict[str, str] = {}
    for wave in checked.waves:
        for name in wave:
            words = msgspec.structs.replace(specs[name], id="", depends_on=(), agent=None)
            inputs = [msgspec.to_builtins(words), sorted(keys[needed] for needed in specs[name].depends_on)]
            keys[name] = fingerprint(msgspec.json.encode(inputs, order="deterministic"))
    return keys
