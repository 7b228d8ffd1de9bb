"""From whatever people write a task list in, to tasks; or one line that says where it is wrong and what is expected.

A file of JSON or YAML, a folder of Markdown pages with front matter, or one such page as one task.
"""

import json
import os
import re
import stat
from typing import Any, NoReturn

from holdfast.core.work.plan import by_number, graph
from holdfast.core.work.tasks import TaskList, TaskSpec
from holdfast.leaf.errors import BadInput, PlanRejected
from holdfast.leaf.files.supplied import read_supplied
from holdfast.leaf.files.yaml import Document, Path, read_yaml
from holdfast.workflows.markdown import front_matter, read_page
from holdfast.workflows.task_fields import Words, listed, task_of

_MOST_BYTES = 8 * 1024 * 1024  # of one file
_MOST_PAGES = 5_000
_PAGE = (".md", ".markdown")
_YAML = (".yaml", ".yml")
_LISTS = ("tasks", "userstories", "stories", "prd", "items")
_OVERVIEWS = ("overview", "description", "goal", "summary")
_NAMES = ("prd.json", "tasks.json", "prd.yaml", "prd.yml", "tasks.yaml", "tasks.yml")
_NUMBERED = re.compile(r"((?:[A-Za-z]+[-_]?)?\d+(?:\.\d+)*)(?:[-_. ]+|$)")

_Read = tuple[TaskSpec, bool]


def read_tasks(path: str) -> TaskList:
    """Its tasks sorted by the numbers in their ids, and checked: no id twice, none unknown, no circle."""
    overview, tasks = _folder(path) if os.path.isdir(path) else _file(path)
    if not tasks:
        raise BadInput(f"{path}: there is no task in it; a task has an id and a title")
    tasks.sort(key=lambda read: by_number(read[0].id))
    try:
        graph([task.id for task, _ in tasks], {task.id: task.depends_on for task, _ in tasks})
    except PlanRejected as error:
        raise PlanRejected(f"{path}: {error}") from None
    return TaskList(
        tasks=tuple(task for task, _ in tasks),
        overview=overview,
        done=tuple(task.id for task, done in tasks if done),
    )


def _file(path: str) -> tuple[str, list[_Read]]:
    kind = os.path.splitext(path)[1].lower()
    if kind in _PAGE:
        return "", [_page(path)]
    if kind == ".json":
        return _list(path, Document(_json(_text(path), path), None))
    if kind in _YAML:
        return _list(path, read_yaml(_text(path), path, as_written=True))
    _text(path)  # what cannot be read at all is told first
    raise BadInput(
        f"{path}: not a task list; it is a file of JSON, YAML or Markdown by its name, or a folder of .md files"
    )


def _folder(path: str) -> tuple[str, list[_Read]]:
    names = sorted(_names_in(path), key=by_number)
    pages = [name for name in names if name.lower().endswith(_PAGE)]
    about = next((name for wanted in ("overview.md", "readme.md") for name in pages if name.lower() == wanted), None)
    tasks = [name for name in pages if name.lower() not in ("overview.md", "readme.md")]
    lists = [name for name in names if name in _NAMES]
    if lists and (tasks or len(lists) > 1):
        raise BadInput(f"{path}: more than one task list is in it ({listed([*lists, *tasks[:1]])}); name one of them")
    if lists:
        return _file(os.path.join(path, lists[0]))
    if len(tasks) > _MOST_PAGES:
        raise BadInput(f"{path}: {len(tasks)} pages; a task list has {_MOST_PAGES} at most")
    overview = "" if about is None else front_matter(_text(file := os.path.join(path, about)), file)[1].strip()
    read = [_page(os.path.join(path, name)) for name in tasks]
    _no_page_twice(path, tasks, read)
    return overview, read


def _names_in(path: str) -> list[str]:
    try:
        return [name for name in os.listdir(path) if not name.startswith(".")]
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}; a task list is a file or a folder that can be read") from None


def _no_page_twice(path: str, names: list[str], read: list[_Read]) -> None:
    seen: dict[str, str] = {}
    for name, (task, _) in zip(names, read, strict=True):
        if task.id in seen:
            raise PlanRejected(
                f"{path}: {seen[task.id]} and {name} are both task {task.id!r}; give each an id of its own"
            )
        seen[task.id] = name


# --- one page ----------------------------------------------------------------------------------------


def _page(file: str) -> _Read:
    front, body = front_matter(_text(file), file)
    document = read_yaml(front, file, as_written=True) if front is not None else Document({}, None)
    fields = {} if document.value is None else document.value
    if not isinstance(fields, dict):
        raise BadInput(f"{file}:2: front matter is a mapping, such as `title: Add a login`")
    page = read_page(body)
    name, slug = _named(os.path.splitext(os.path.basename(file))[0])
    words = Words(file, document, ())
    task, done = task_of(
        words,
        fields,
        {
            "id": name,
            "title": _without(words.text(fields, "id") or name, page.heading) or slug or name,
            "description": page.text,
            "acceptancecriteria": list(page.criteria),
        },
    )
    return task, done


def _named(stem: str) -> tuple[str, str]:
    """`T-001-add-login` is the task T-001, "add login"; a name without a number is an id as it is."""
    numbered = _NUMBERED.match(stem)
    if numbered is None:
        return stem, re.sub(r"[-_ ]+", " ", stem).strip()
    return numbered[1], re.sub(r"[-_ ]+", " ", stem[numbered.end() :]).strip()


def _without(task: str, heading: str | None) -> str | None:
    """A heading such as "T-001: Add a login" without the id."""
    if heading is None:
        return None
    bare = heading.removeprefix(task)
    return bare.lstrip(" \t:.–—-") or heading if bare[:1] in (*" \t:.–—-", "") else heading


# --- one list ----------------------------------------------------------------------------------------


def _list(file: str, document: Document) -> tuple[str, list[_Read]]:
    found, overview = document.value, ""
    path: Path = ()
    if found is None:
        raise BadInput(f"{file}:1: empty; a task list is a list of tasks, or a mapping with the key tasks")
    while isinstance(found, dict):
        words = Words(file, document, path)
        key = next((key for wanted in _LISTS for key in found if words.plain(key) == wanted), None)
        if key is None:
            words.reject((), f"there is no list of tasks in it; it has {listed(list(found))}, and needs the key tasks")
        overview = next((said for name in _OVERVIEWS if (said := _said(words, found, name))), overview)
        found, path = found[key], (*path, key)
    words = Words(file, document, path)
    if not isinstance(found, list):
        words.reject((), f"expected a list of tasks, got {words.kind(found)}")
    tasks: list[_Read] = []
    places: dict[str, int] = {}
    for number, fields in enumerate(found):
        one = Words(file, document, (*path, number))
        if not isinstance(fields, dict):
            one.reject((), f"a task is a mapping with an id and a title, and not {one.kind(fields)}")
        task, done = task_of(one, fields, {})
        if task.id in places:
            one.reject(("id",), f"task {task.id!r} is there twice; give each task an id of its own")
        places[task.id] = number
        tasks.append((task, done))
    return overview, tasks


def _said(words: Words, fields: dict[Any, Any], name: str) -> str:
    """Text, if it is some: other tools have other things under these names."""
    return words.text(fields, name) if isinstance(fields.get(words.key(fields, name)), str) else ""


def _json(text: str, file: str) -> Any:
    def no_key_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            keys = [key for key, _ in pairs]
            twice = next(key for key in keys if keys.count(key) > 1)
            raise BadInput(f"{file}: the key {twice!r} is there twice in one object; keep one")
        return found

    try:  # numbers stay as they are written: 1.10 is an id, not 1.1
        return json.loads(text, object_pairs_hook=no_key_twice, parse_int=str, parse_float=str, parse_constant=str)
    except json.JSONDecodeError as error:
        raise BadInput(f"{file}:{error.lineno}: not JSON: {error.msg} (column {error.colno})") from None
    except RecursionError:
        raise BadInput(f"{file}:1: nested too deeply; a task list needs a few levels") from None


def _text(file: str) -> str:
    """A file that is one, of a size that a list can have, in UTF-8."""
    try:
        if not stat.S_ISREG(os.stat(file).st_mode):
            raise BadInput(f"{file}: not a plain file; a task list is one, or a folder of them")
        data = read_supplied(file, _MOST_BYTES + 1)
    except OSError as error:
        _unreadable(file, error)
    except ValueError:
        raise BadInput(f"{file!r} cannot be the name of a file") from None
    if len(data) > _MOST_BYTES:
        raise BadInput(f"{file}: larger than {_MOST_BYTES // 1024 // 1024} MiB; split the list, or shorten it")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise BadInput(f"{file}:{line}: not UTF-8 at byte {error.start}; save it as UTF-8") from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _unreadable(file: str, error: OSError) -> NoReturn:
    raise BadInput(f"{file}: {error.strerror}; a task list is a file or a folder that can be read") from None
