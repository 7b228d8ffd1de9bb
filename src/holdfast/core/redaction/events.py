"""Remove secrets from the fields of events.

Fields that identify something (ids, branches, commits, paths) are not changed: other code compares them. All other text
fields are redacted, so new events are covered without being listed here.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import msgspec

from holdfast.core.events import Event
from holdfast.core.events.chat import MessageDeleted, MessageEdited, RuleAdded, RuleRevoked
from holdfast.core.events.inbox import InboxConsumed, InboxHandled
from holdfast.core.events.log import RetentionApplied
from holdfast.core.events.rewind import RunForked
from holdfast.core.redaction.redaction import SHAPES_ONLY_REDACTOR, Redactor

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
        *(
            "decision",
            "effect",
            "feature",
            "files",
            "files_changed",
            "fingerprint",
            "heard",
            "host",
            "key",
            "kept_as",
            "machine",
            "needs",
        ),
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
        *(
            "only",
            "point",
            "program",
            "remote",
            "repo",
            "request",
            "research",
            "retried",
            "role",
            "run_id",
            "rung",
            "salvaged",
            "sender",
        ),
        *("settled_by", "skipped", "source", "speaker", "state", "status", "stop_reason", "target", "task", "task_id"),
        *("token", "turn", "unwound", "version", "wanted"),
    }
)
_ALSO_IDENTIFYING: Mapping[type[Event], frozenset[str]] = {
    InboxConsumed: frozenset({"message"}),
    InboxHandled: frozenset({"message"}),
    MessageEdited: frozenset({"message"}),
    MessageDeleted: frozenset({"message"}),
    RuleAdded: frozenset({"rule", "command"}),
    RuleRevoked: frozenset({"rule"}),
    RetentionApplied: frozenset({"rule", "digest"}),
    RunForked: frozenset({"parent", "chain", "branches", "snapshots"}),
}
_NESTED_IDENTIFYING = _IDENTIFYING | {"blocked_by", "id", "task_ids"}  # in lists and tables
_STRUCTURE = frozenset(
    {"arguments", "result", "settings", "workflow"}
)  # Holdfast's own data: only known shapes are removed
_PLAIN = frozenset({int, float, bool, int | None, float | None, bool | None})
_TEXT = frozenset({str, str | None})

_CleanFunction = Callable[[Redactor, Any], Any]


def redact_event(event: Event, redactor: Redactor) -> Event:
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
def _fields(kind: type[Event]) -> tuple[tuple[str, _CleanFunction], ...]:
    skipped = _IDENTIFYING | _ALSO_IDENTIFYING.get(kind, frozenset())
    return tuple(
        (field.name, _cleaner(field.name, field.type))
        for field in msgspec.structs.fields(kind)
        if field.name not in skipped and field.type not in _PLAIN
    )


def _cleaner(name: str, kind: Any) -> _CleanFunction:
    if kind in _TEXT:
        return Redactor.redact_text
    if kind is msgspec.Raw:
        return Redactor.redact_json
    if name in _STRUCTURE:
        return lambda _, value: _redact_data(SHAPES_ONLY_REDACTOR, value, kind)
    return lambda redactor, value: _redact_data(redactor, value, kind)


def _redact_data(redactor: Redactor, value: Any, kind: Any) -> Any:
    """Redact lists, tables and structs; decoded only when their JSON may contain a secret."""
    try:
        encoded = msgspec.json.encode(value)
        if not redactor.may_hold_secret(encoded):
            return value
        found = msgspec.json.decode(encoded)
    except (TypeError, ValueError, RecursionError):
        return value  # the writer rejects it
    clean = redactor.redact_data(found, _NESTED_IDENTIFYING)
    return value if clean is found else msgspec.convert(clean, kind)
