"""Parse the fields of one task, tolerant of spelling: `acceptanceCriteria` equals `acceptance_criteria`."""

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

from holdfast.core.work.tasks import TaskSpec
from holdfast.leaf.errors import BadInput
from holdfast.leaf.files.yaml import KeyPath, YamlDocument, format_yaml_path

_FIELD_KEYS: dict[str, tuple[str, ...]] = {  # the first is the documented name
    "id": ("id", "key"),
    "title": ("title", "name"),
    "description": ("description",),
    "details": ("details",),
    "acceptancecriteria": ("acceptancecriteria", "acceptance", "criteria"),
    "dependson": ("dependson", "dependencies", "blockedby", "depends", "needs", "after"),
    "files": ("files",),
    "agent": ("agent",),
    "status": ("status", "state"),
    "passes": ("passes", "done"),
}
_DONE_STATUSES = {"done", "complete", "completed", "finished", "closed", "passed", "merged"}
_OPEN_STATUSES = {
    "",
    "pending",
    "todo",
    "open",
    "new",
    "ready",
    "draft",
    "inprogress",
    "started",
    "failed",
    "blocked",
    "review",
}
_TRUE_VALUES, _FALSE_VALUES = {"true", "yes", "x", "1"}, {"false", "no", "", "0"}
_MAX_ID_CHARS = 200
_MIN_SIMILARITY = 0.85
_SIMILAR_TO_TITLE = 0.6  # a title is missing, so a weaker likeness is a hint
_UNENCODABLE = re.compile("[\0\ud800-\udfff]")
_SEPARATORS = re.compile(r"[\s_-]+")


class FieldReader(NamedTuple):
    """Reads the fields of one mapping. Its errors name the file and the place."""

    file: str
    document: YamlDocument
    path: KeyPath

    @staticmethod
    def normalize_key(key: object) -> str:
        return _SEPARATORS.sub("", str(key)).lower()

    @staticmethod
    def describe_kind(value: object) -> str:
        names = {dict: "a mapping", list: "a list", str: "text", bool: "true or false", type(None): "nothing"}
        return names.get(type(value), type(value).__name__)

    def reject(self, path: KeyPath, message: str) -> NoReturn:
        full_path = (*self.path, *path)
        line = f":{self.document.line(full_path)}" if self.document.root is not None else ""
        place = format_yaml_path(full_path)
        text = " ".join(f"{f'{place}: ' if place else ''}{message}".split())  # keys may contain line ends
        raise BadInput(f"{self.file}{line}: {text}")

    def find_key(self, fields: Mapping[Any, Any], name: str) -> Any:
        """The key that this mapping uses for a field; None without one."""
        found = [
            key for wanted in _FIELD_KEYS.get(name, (name,)) for key in fields if self.normalize_key(key) == wanted
        ]
        if len(found) > 1 and self.normalize_key(found[0]) == self.normalize_key(found[1]):
            self.reject((found[1],), f"{found[0]!r} and {found[1]!r} are the same key; keep one")
        return found[0] if found else None

    def read_text(self, fields: Mapping[Any, Any], name: str) -> str:
        key = self.find_key(fields, name)
        value = None if key is None else fields[key]
        if value is None:
            return ""
        if not isinstance(value, str):
            self.reject((key,), f"expected text, got {self.describe_kind(value)}")
        return self._check_encodable(value, (key,)).strip()

    def read_texts(self, fields: Mapping[Any, Any], name: str, separator: str | None = None) -> tuple[str, ...]:
        """A list of texts. A single text is split at `separator`, or becomes a list of one."""
        key = self.find_key(fields, name)
        value = None if key is None else fields[key]
        if value is None:
            return ()
        if isinstance(value, str):
            parts = value.split(separator) if separator else [value]
            return tuple(self._check_encodable(part.strip(), (key,)) for part in parts if part.strip())
        if not isinstance(value, list):
            self.reject((key,), f"expected a list, got {self.describe_kind(value)}")
        for number, item in enumerate(value):
            if not isinstance(item, str):
                self.reject((key, number), f"expected text, got {self.describe_kind(item)}")
            if not item.strip():
                self.reject((key, number), "empty; write some text or remove it")
        return tuple(self._check_encodable(item, (key, number)).strip() for number, item in enumerate(value))

    def _check_encodable(self, text: str, path: KeyPath) -> str:
        """The text, if every file and terminal can show it."""
        if _UNENCODABLE.search(text):
            self.reject(path, "contains an invalid character (NUL, or half of a surrogate pair); remove it")
        return text


def parse_task(reader: FieldReader, fields: Mapping[Any, Any], defaults: Mapping[str, Any]) -> tuple[TaskSpec, bool]:
    """The task of these fields, and whether they mark it as done. `defaults` are for missing fields."""
    _check_misspelt_keys(reader, fields)
    missing = {name: value for name, value in defaults.items() if not _has_value(reader, fields, name)}
    fields = {**{key: value for key, value in fields.items() if reader.normalize_key(key) not in missing}, **missing}
    task = TaskSpec(
        id=_parse_id(reader, fields),
        title=" ".join(reader.read_text(fields, "title").split()),
        description="\n\n".join(
            filter(None, (reader.read_text(fields, "description"), reader.read_text(fields, "details")))
        ),
        acceptance_criteria=reader.read_texts(fields, "acceptancecriteria"),
        depends_on=tuple(dict.fromkeys(reader.read_texts(fields, "dependson", separator=","))),
        files=reader.read_texts(fields, "files"),
        agent=reader.read_text(fields, "agent") or None,
    )
    if not task.title:
        near = difflib.get_close_matches("title", [str(key) for key in fields], 1, _SIMILAR_TO_TITLE)
        meant = f" (is {near[0]!r} meant to be title?)" if near else ""
        reader.reject((), f"task {task.id!r} has no title{meant}; add one line that says what to do")
    return task, _is_done(reader, fields)


def _has_value(reader: FieldReader, fields: Mapping[Any, Any], name: str) -> bool:
    key = reader.find_key(fields, name)
    return key is not None and fields[key] not in (None, "", [])


def _parse_id(reader: FieldReader, fields: Mapping[Any, Any]) -> str:
    name = reader.read_text(fields, "id")
    if not name:
        reader.reject((), "the task has no id; give it one, such as T-1")
    if len(name) > _MAX_ID_CHARS or not name.isprintable():
        reader.reject((reader.find_key(fields, "id"),), f"an id is one line of at most {_MAX_ID_CHARS} characters")
    return name


def _is_done(reader: FieldReader, fields: Mapping[Any, Any]) -> bool:
    key = reader.find_key(fields, "passes")
    if key is not None:
        value = reader.normalize_key("" if fields[key] is None else fields[key])
        if value not in _TRUE_VALUES | _FALSE_VALUES:
            reader.reject((key,), f"expected true or false, got {fields[key]!r}")
        if value in _TRUE_VALUES:
            return True
    status = reader.normalize_key(reader.read_text(fields, "status"))
    if status not in _DONE_STATUSES | _OPEN_STATUSES:
        key = reader.find_key(fields, "status")
        reader.reject((key,), f"unknown status {fields[key]!r}; use done or pending, or remove the task")
    return status in _DONE_STATUSES


def _check_misspelt_keys(reader: FieldReader, fields: Mapping[Any, Any]) -> None:
    """Reject keys that look like misspelt keys of ours; their values would be lost silently. Other keys are ignored."""
    known = [name for names in _FIELD_KEYS.values() for name in names if len(name) > 3]  # noqa: PLR2004 - shorter names match too much
    for key in fields:
        plain = reader.normalize_key(key)
        if plain not in known and (near := difflib.get_close_matches(plain, known, 1, _MIN_SIMILARITY)):
            spelling = {
                "acceptancecriteria": "acceptance_criteria",
                "dependson": "depends_on",
                "blockedby": "blocked_by",
            }
            reader.reject((key,), f"there is no such key; did you mean {spelling.get(near[0], near[0])}?")


def join_names(names: Sequence[object], max_names: int = 8) -> str:
    shown = ", ".join(str(name) for name in names[:max_names])
    return shown + (f" and {len(names) - max_names} more" if len(names) > max_names else "") if names else "nothing"
