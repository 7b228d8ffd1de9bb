"""Which fields of an event may hold a secret, and the same event without it.

Fields that identify something (ids, branches, commits, paths) are written as they are: other code compares them.
Every other field that holds text is redacted, so a new event is covered without being named here.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import msgspec

from holdfast.core.events import Event
from holdfast.core.events.inbox import InboxConsumed, InboxHandled
from holdfast.core.redaction.redaction import SHAPES, Redactor

_IDENTIFYING = frozenset(
    {
        *(
            "agent",
            "base",
            "boot_id",
            "branch",
            "by",
            "call",
            "category",
            "change",
            "changes",
            "commit",
            "conversation",
        ),
        *("decision", "effect", "feature", "files", "files_changed", "fingerprint", "heard", "host", "key", "kept_as"),
        *(
            "kind",
            "label",
            "last_stop",
            "locations",
            "mode",
            "name",
            "option",
            "paths",
            "pending",
            "phase",
            "plan_step",
        ),
        *("program", "repo", "request", "research", "retried", "role", "run_id", "rung", "salvaged", "sender"),
        *("settled_by", "skipped", "source", "speaker", "state", "status", "stop_reason", "target", "task", "task_id"),
        *("token", "turn", "unwound", "version", "wanted"),
    }
)
_ALSO: Mapping[type[Event], frozenset[str]] = {
    InboxConsumed: frozenset({"message"}),
    InboxHandled: frozenset({"message"}),
}
_IDS = _IDENTIFYING | {"blocked_by", "id", "task_ids"}  # the same, within lists and tables
_STRUCTURE = frozenset({"arguments", "result", "settings", "workflow"})  # our own data: only known shapes are removed
_PLAIN = frozenset({int, float, bool, int | None, float | None, bool | None})
_TEXT = frozenset({str, str | None})

_Clean = Callable[[Redactor, Any], Any]


def without_secrets(event: Event, redactor: Redactor) -> Event:
    """The event without secrets; the same object when there is none."""
    changed: dict[str, Any] | None = None
    for name, clean in _fields(type(event)):
        value = getattr(event, name)
        if value:
            found = clean(redactor, value)
            if found is not value:
                changed = {name: found} if changed is None else changed | {name: found}
    return event if changed is None else msgspec.structs.replace(event, **changed)


@cache
def _fields(kind: type[Event]) -> tuple[tuple[str, _Clean], ...]:
    skipped = _IDENTIFYING | _ALSO.get(kind, frozenset())
    return tuple(
        (field.name, _cleaner(field.name, field.type))
        for field in msgspec.structs.fields(kind)
        if field.name not in skipped and field.type not in _PLAIN
    )


def _cleaner(name: str, kind: Any) -> _Clean:
    if kind in _TEXT:
        return Redactor.text
    if kind is msgspec.Raw:
        return Redactor.raw
    if name in _STRUCTURE:
        return lambda _, value: _data(SHAPES, value, kind)
    return lambda redactor, value: _data(redactor, value, kind)


def _data(redactor: Redactor, value: Any, kind: Any) -> Any:
    """Lists, tables and structs: looked into only when their JSON may hold a secret."""
    try:
        encoded = msgspec.json.encode(value)
        if not redactor.may_hold_secret(encoded):
            return value
        found = msgspec.json.decode(encoded)
    except (TypeError, ValueError, RecursionError):
        return value  # whoever writes it refuses it
    clean = redactor.within(found, _IDS)
    return value if clean is found else msgspec.convert(clean, kind)
