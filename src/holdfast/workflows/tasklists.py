"""Read task lists: a JSON or YAML file, a folder of Markdown pages with front matter, or one page as one task.

A mistake becomes one line that says where it is and what was expected.
"""

import json
import os
import re
import stat
from typing import Any, NoReturn

from holdfast.core.work.plan import build_graph, natural_sort_key
from holdfast.core.work.tasks import TaskList, TaskSpec
from holdfast.leaf.errors import BadInput, PlanRejected
from holdfast.leaf.files.supplied import read_repository_file
from holdfast.leaf.files.yaml import KeyPath, YamlDocument, read_yaml
from holdfast.workflows.markdown import front_matter, read_page
from holdfast.workflows.task_fields import FieldReader, join_names, parse_task

_MAX_FILE_BYTES = 8 * 1024 * 1024  # of one file
_MAX_PAGES = 5_000
_PAGE_SUFFIXES = (".md", ".markdown")
_YAML_SUFFIXES = (".yaml", ".yml")
_LIST_KEYS = ("tasks", "userstories", "stories", "prd", "items")
_OVERVIEW_KEYS = ("overview", "description", "goal", "summary")
_LIST_FILE_NAMES = ("prd.json", "tasks.json", "prd.yaml", "prd.yml", "tasks.yaml", "tasks.yml")
_NUMBERED_NAME = re.compile(r"((?:[A-Za-z]+[-_]?)?\d+(?:\.\d+)*)(?:[-_. ]+|$)")

_ReadTask = tuple[TaskSpec, bool]


def read_tasks(path: str) -> TaskList:
    """The tasks of a list, sorted by the numbers in their ids. Duplicate or unknown ids and cycles are rejected."""
    overview, tasks = _read_folder(path) if os.path.isdir(path) else _read_file(path)
    if not tasks:
        raise BadInput(f"{path}: contains no task; a task has an id and a title")
    tasks.sort(key=lambda read: natural_sort_key(read[0].id))
    try:
        build_graph([task.id for task, _ in tasks], {task.id: task.depends_on for task, _ in tasks})
    except PlanRejected as error:
        raise PlanRejected(f"{path}: {error}") from None
    return TaskList(
        tasks=tuple(task for task, _ in tasks),
        overview=overview,
        done=tuple(task.id for task, done in tasks if done),
    )


def _read_file(path: str) -> tuple[str, list[_ReadTask]]:
    kind = os.path.splitext(path)[1].lower()
    if kind in _PAGE_SUFFIXES:
        return "", [_read_task_page(path)]
    if kind == ".json":
        return _read_list(path, YamlDocument(_parse_json(_read_text(path), path), None))
    if kind in _YAML_SUFFIXES:
        return _read_list(path, read_yaml(_read_text(path), path, scalars_as_text=True))
    _read_text(path)  # an unreadable file is reported first
    raise BadInput(f"{path}: not a task list; use a .json, .yaml or .md file, or a folder of .md files")


def _read_folder(path: str) -> tuple[str, list[_ReadTask]]:
    names = sorted(_page_names(path), key=natural_sort_key)
    pages = [name for name in names if name.lower().endswith(_PAGE_SUFFIXES)]
    overview_page = next(
        (name for wanted in ("overview.md", "readme.md") for name in pages if name.lower() == wanted), None
    )
    tasks = [name for name in pages if name.lower() not in ("overview.md", "readme.md")]
    lists = [name for name in names if name in _LIST_FILE_NAMES]
    if lists and (tasks or len(lists) > 1):
        raise BadInput(
            f"{path}: contains more than one task list ({join_names([*lists, *tasks[:1]])}); name one of them"
        )
    if lists:
        return _read_file(os.path.join(path, lists[0]))
    if len(tasks) > _MAX_PAGES:
        raise BadInput(f"{path}: {len(tasks)} pages; a task list has at most {_MAX_PAGES}")
    overview = ""
    if overview_page is not None:
        file = os.path.join(path, overview_page)
        overview = front_matter(_read_text(file), file)[1].strip()
    parsed = [_read_task_page(os.path.join(path, name)) for name in tasks]
    _check_unique_pages(path, tasks, parsed)
    return overview, parsed


def _page_names(path: str) -> list[str]:
    try:
        return [name for name in os.listdir(path) if not name.startswith(".")]
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}; a task list is a file or a folder that can be read") from None


def _check_unique_pages(path: str, names: list[str], read: list[_ReadTask]) -> None:
    seen: dict[str, str] = {}
    for name, (task, _) in zip(names, read, strict=True):
        if task.id in seen:
            raise PlanRejected(
                f"{path}: {seen[task.id]} and {name} have the same task id {task.id!r}; give each its own id"
            )
        seen[task.id] = name


# --- one page ----------------------------------------------------------------------------------------


def _read_task_page(file: str) -> _ReadTask:
    front, body = front_matter(_read_text(file), file)
    document = read_yaml(front, file, scalars_as_text=True) if front is not None else YamlDocument({}, None)
    fields = {} if document.value is None else document.value
    if not isinstance(fields, dict):
        raise BadInput(f"{file}:2: front matter is a mapping, such as `title: Add a login`")
    page = read_page(body)
    name, slug = _split_name(os.path.splitext(os.path.basename(file))[0])
    reader = FieldReader(file, document, ())
    task, done = parse_task(
        reader,
        fields,
        {
            "id": name,
            "title": _heading_without_id(reader.read_text(fields, "id") or name, page.heading) or slug or name,
            "description": page.text,
            "acceptancecriteria": list(page.criteria),
        },
    )
    return task, done


def _split_name(stem: str) -> tuple[str, str]:
    """The id and title in a file name: `T-001-add-login` is T-001, "add login". Without a number, all is the id."""
    numbered = _NUMBERED_NAME.match(stem)
    if numbered is None:
        return stem, re.sub(r"[-_ ]+", " ", stem).strip()
    return numbered[1], re.sub(r"[-_ ]+", " ", stem[numbered.end() :]).strip()


def _heading_without_id(task_id: str, heading: str | None) -> str | None:
    """A heading such as "T-001: Add a login" without the id."""
    if heading is None:
        return None
    bare = heading.removeprefix(task_id)
    return bare.lstrip(" \t:.–—-") or heading if bare[:1] in (*" \t:.–—-", "") else heading


# --- one list ----------------------------------------------------------------------------------------


def _read_list(file: str, document: YamlDocument) -> tuple[str, list[_ReadTask]]:
    value, overview = document.value, ""
    path: KeyPath = ()
    if value is None:
        raise BadInput(f"{file}:1: empty; a task list is a list of tasks, or a mapping with the key tasks")
    while isinstance(value, dict):
        reader = FieldReader(file, document, path)
        key = next((key for wanted in _LIST_KEYS for key in value if reader.normalize_key(key) == wanted), None)
        if key is None:
            reader.reject((), f"contains no list of tasks; it needs the key tasks, and has {join_names(list(value))}")
        overview = next((text for name in _OVERVIEW_KEYS if (text := _optional_text(reader, value, name))), overview)
        value, path = value[key], (*path, key)
    reader = FieldReader(file, document, path)
    if not isinstance(value, list):
        reader.reject((), f"expected a list of tasks, got {reader.describe_kind(value)}")
    tasks: list[_ReadTask] = []
    places: dict[str, int] = {}
    for number, fields in enumerate(value):
        reader = FieldReader(file, document, (*path, number))
        if not isinstance(fields, dict):
            reader.reject((), f"a task is a mapping with an id and a title, not {reader.describe_kind(fields)}")
        task, done = parse_task(reader, fields, {})
        if task.id in places:
            reader.reject(("id",), f"duplicate task id {task.id!r}; give each task its own id")
        places[task.id] = number
        tasks.append((task, done))
    return overview, tasks


def _optional_text(reader: FieldReader, fields: dict[Any, Any], name: str) -> str:
    """The value if it is text: other tools use these keys for other things."""
    return reader.read_text(fields, name) if isinstance(fields.get(reader.find_key(fields, name)), str) else ""


def _parse_json(text: str, file: str) -> Any:
    def reject_duplicate_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            keys = [key for key, _ in pairs]
            duplicate = next(key for key in keys if keys.count(key) > 1)
            raise BadInput(f"{file}: duplicate key {duplicate!r} in one object; keep one")
        return found

    try:  # numbers stay text: 1.10 may be an id, not 1.1
        return json.loads(
            text, object_pairs_hook=reject_duplicate_keys, parse_int=str, parse_float=str, parse_constant=str
        )
    except json.JSONDecodeError as error:
        raise BadInput(f"{file}:{error.lineno}: not JSON: {error.msg} (column {error.colno})") from None
    except RecursionError:
        raise BadInput(f"{file}:1: nested too deeply; a task list needs a few levels") from None


def _read_text(file: str) -> str:
    """The text of a regular UTF-8 file, up to the size limit, with Unix line ends."""
    try:
        if not stat.S_ISREG(os.stat(file).st_mode):
            raise BadInput(f"{file}: not a regular file; a task list is a file, or a folder of files")
        data = read_repository_file(file, _MAX_FILE_BYTES + 1)
    except OSError as error:
        _raise_unreadable(file, error)
    except ValueError:
        raise BadInput(f"{file!r} is not a valid file name") from None
    if len(data) > _MAX_FILE_BYTES:
        raise BadInput(f"{file}: larger than {_MAX_FILE_BYTES // 1024 // 1024} MiB; split the list, or shorten it")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise BadInput(f"{file}:{line}: not UTF-8 at byte {error.start}; save it as UTF-8") from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _raise_unreadable(file: str, error: OSError) -> NoReturn:
    raise BadInput(f"{file}: {error.strerror}; a task list is a file or a folder that can be read") from None
