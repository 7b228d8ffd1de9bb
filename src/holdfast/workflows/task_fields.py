"""The words of one task, whoever wrote it: `acceptanceCriteria` and `acceptance_criteria` are the same to us."""

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

from holdfast.core.work.tasks import TaskSpec
from holdfast.leaf.errors import BadInput
from holdfast.leaf.files.yaml import Document, Path, spelled

_KEYS: dict[str, tuple[str, ...]] = {  # the first is our own
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
_DONE = {"done", "complete", "completed", "finished", "closed", "passed", "merged"}
_OPEN = {"", "pending", "todo", "open", "new", "ready", "draft", "inprogress", "started", "failed", "blocked", "review"}
_YES, _NO = {"true", "yes", "x", "1"}, {"false", "no", "", "0"}
_LONGEST_ID = 200
_CLOSE = 0.85
_UNSOUND = re.compile("[\0\ud800-\udfff]")
_SEPARATORS = re.compile(r"[\s_-]+")


class Words(NamedTuple):
    """Where in which file we are: what is said of it names the place."""

    file: str
    document: Document
    path: Path

    @staticmethod
    def plain(key: object) -> str:
        return _SEPARATORS.sub("", str(key)).lower()

    @staticmethod
    def kind(value: object) -> str:
        names = {dict: "a mapping", list: "a list", str: "text", bool: "true or false", type(None): "nothing"}
        return names.get(type(value), type(value).__name__)

    def reject(self, path: Path, what: str) -> NoReturn:
        whole = (*self.path, *path)
        line = f":{self.document.line(whole)}" if self.document.root is not None else ""
        place = spelled(whole)
        words = " ".join(f"{f'{place}: ' if place else ''}{what}".split())  # one line, whatever the keys are
        raise BadInput(f"{self.file}{line}: {words}")

    def key(self, fields: Mapping[Any, Any], name: str) -> Any:
        """The key by which a field is written here; None when it is not."""
        found = [key for wanted in _KEYS.get(name, (name,)) for key in fields if self.plain(key) == wanted]
        if len(found) > 1 and self.plain(found[0]) == self.plain(found[1]):
            self.reject((found[1],), f"{found[0]!r} and {found[1]!r} are the same key; keep one")
        return found[0] if found else None

    def text(self, fields: Mapping[Any, Any], name: str) -> str:
        key = self.key(fields, name)
        value = None if key is None else fields[key]
        if value is None:
            return ""
        if not isinstance(value, str):
            self.reject((key,), f"expected text, got {self.kind(value)}")
        return self._sound(value, (key,)).strip()

    def texts(self, fields: Mapping[Any, Any], name: str, separator: str | None = None) -> tuple[str, ...]:
        """A list of text. One text is a list of one; of several, where there is a sign to part them by."""
        key = self.key(fields, name)
        value = None if key is None else fields[key]
        if value is None:
            return ()
        if isinstance(value, str):
            parts = value.split(separator) if separator else [value]
            return tuple(self._sound(part.strip(), (key,)) for part in parts if part.strip())
        if not isinstance(value, list):
            self.reject((key,), f"expected a list, got {self.kind(value)}")
        for number, one in enumerate(value):
            if not isinstance(one, str):
                self.reject((key, number), f"expected text, got {self.kind(one)}")
            if not one.strip():
                self.reject((key, number), "empty; say something, or leave it out")
        return tuple(self._sound(one, (key, number)).strip() for number, one in enumerate(value))

    def _sound(self, text: str, path: Path) -> str:
        """Text that can be written down everywhere."""
        if _UNSOUND.search(text):
            self.reject(path, "it holds a character that is none (NUL, or half of one); take it out")
        return text


def task_of(words: Words, fields: Mapping[Any, Any], otherwise: Mapping[str, Any]) -> tuple[TaskSpec, bool]:
    """The task that these fields are, and whether they call it done. `otherwise` is for those that are not there."""
    _no_key_misspelt(words, fields)
    missing = {name: value for name, value in otherwise.items() if not _given(words, fields, name)}
    fields = {**{key: value for key, value in fields.items() if words.plain(key) not in missing}, **missing}
    task = TaskSpec(
        id=_id(words, fields),
        title=" ".join(words.text(fields, "title").split()),
        description="\n\n".join(filter(None, (words.text(fields, "description"), words.text(fields, "details")))),
        acceptance_criteria=words.texts(fields, "acceptancecriteria"),
        depends_on=tuple(dict.fromkeys(words.texts(fields, "dependson", separator=","))),
        files=words.texts(fields, "files"),
        agent=words.text(fields, "agent") or None,
    )
    if not task.title:
        words.reject((), f"task {task.id!r} has no title; say in a line what is to be done")
    return task, _is_done(words, fields)


def _given(words: Words, fields: Mapping[Any, Any], name: str) -> bool:
    key = words.key(fields, name)
    return key is not None and fields[key] not in (None, "", [])


def _id(words: Words, fields: Mapping[Any, Any]) -> str:
    name = words.text(fields, "id")
    if not name:
        words.reject((), "the task has no id; give it one, such as T-1")
    if len(name) > _LONGEST_ID or not name.isprintable():
        words.reject((words.key(fields, "id"),), f"an id is one line of {_LONGEST_ID} characters at most")
    return name


def _is_done(words: Words, fields: Mapping[Any, Any]) -> bool:
    key = words.key(fields, "passes")
    if key is not None:
        said = words.plain("" if fields[key] is None else fields[key])
        if said not in _YES | _NO:
            words.reject((key,), f"expected true or false, got {fields[key]!r}")
        if said in _YES:
            return True
    status = words.plain(words.text(fields, "status"))
    if status not in _DONE | _OPEN:
        key = words.key(fields, "status")
        words.reject((key,), f"{fields[key]!r} is no status that is known; done or pending, or take the task out")
    return status in _DONE


def _no_key_misspelt(words: Words, fields: Mapping[Any, Any]) -> None:
    """Other tools' keys are left alone; but one that is nearly ours would be lost in silence."""
    known = [name for names in _KEYS.values() for name in names if len(name) > 3]  # noqa: PLR2004 - too short to tell
    for key in fields:
        plain = words.plain(key)
        if plain not in known and (near := difflib.get_close_matches(plain, known, 1, _CLOSE)):
            ours = {"acceptancecriteria": "acceptance_criteria", "dependson": "depends_on", "blockedby": "blocked_by"}
            words.reject((key,), f"there is no such key; is {ours.get(near[0], near[0])} meant?")


def listed(names: Sequence[object], most: int = 8) -> str:
    shown = ", ".join(str(name) for name in names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "") if names else "nothing"
