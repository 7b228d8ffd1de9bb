"""What a person is notified about: the few events of a run that matter to somebody who does not watch it."""

import hashlib
from collections.abc import Sequence

import msgspec

from holdfast.core.conversation.call_text import to_printable_lines
from holdfast.core.end_reason import EndReason, end_reason_text
from holdfast.core.events import Event
from holdfast.core.events.conversation import PermissionRequested
from holdfast.core.events.session import RunResumed, SessionEnd
from holdfast.core.log.codec import CODEC, InvalidEventData, Line
from holdfast.core.notify.kinds import NotificationKind
from holdfast.core.text.cut import cut

_MAX_TEXT_CHARS = 1_000
_MAX_DIGEST_CHARS = 4_000
_ID_CHARS = 32


class Notification(msgspec.Struct, frozen=True, kw_only=True):
    """`id` is the same for each attempt to deliver it, also after a crash. `run` is None if it is about all runs."""

    id: str
    kind: NotificationKind
    title: str
    text: str
    run: str | None = None
    at: str | None = None
    reason: str | None = None


_PARKED = frozenset({EndReason.PARKED, EndReason.QUOTA, EndReason.OUTAGE, EndReason.DISK_SPACE, EndReason.DAY_BUDGET})
_SILENT = frozenset({EndReason.STOPPED, EndReason.INTERRUPTED, EndReason.IDLE, EndReason.PLANNED, EndReason.REWOUND})
_BY_PERSON = frozenset({EndReason.IDLE, EndReason.PLANNED})  # the next message or command of a person continues it
_TYPES = frozenset(kind.type for kind in (SessionEnd, PermissionRequested, RunResumed))
_MARKS = tuple(f'"type":"{name}"'.encode() for name in sorted(_TYPES))


def may_notify(data: bytes) -> bool:
    """Whether lines of a log contain an event that a person may be notified about."""
    return any(mark in data for mark in _MARKS)


def notification_of(run_id: str, line: Line) -> Notification | None:
    if line.type not in _TYPES:
        return None
    try:
        event = CODEC.event(line)
    except InvalidEventData as unfit:
        event = unfit.partial_event
    about = _about(run_id, event) if event is not None else None
    if about is None:
        return None
    kind, title, text, reason = about
    return Notification(
        id=notification_id(run_id, line.sid, str(line.seq)),
        kind=kind,
        title=title,
        text=cut("\n".join(to_printable_lines(text)), _MAX_TEXT_CHARS),
        run=run_id,
        at=line.ts,
        reason=reason,
    )


def notification_id(*parts: str) -> str:
    """An id that follows from what the notification is about: whoever makes it again makes the same one."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:_ID_CHARS]


def digest_of(target: str, held: Sequence[Notification]) -> Notification:
    """One message instead of those that were held back."""
    lines = [f"{(each.at or '')[11:16]} UTC  {each.title}: {each.text.partition(chr(10))[0]}" for each in held]
    runs = {each.run for each in held}
    return Notification(
        id=notification_id("digest", target, *(each.id for each in held)),
        kind=NotificationKind.DIGEST,
        title=f"{len(held)} notifications from the quiet hours",
        text=cut("\n".join(lines), _MAX_DIGEST_CHARS),
        run=next(iter(runs)) if len(runs) == 1 else None,
        at=held[-1].at,
    )


def _about(run_id: str, event: Event) -> tuple[NotificationKind, str, str, str | None] | None:
    match event:
        case PermissionRequested():
            text = f"{event.command or event.title}\nanswer with: holdfast approve {run_id} {event.request} (or deny)"
            return NotificationKind.NEEDS_YOU, f"{run_id} asks for permission", text, "permission"
        case SessionEnd(reason=str() as reason) if reason not in _SILENT:
            return _about_end(run_id, reason, event.summary)
        case RunResumed() if event.last_stop not in _BY_PERSON:
            stop = event.last_stop
            why = f"it had stopped: {end_reason_text(stop) if stop != 'killed' else 'killed'}"
            return NotificationKind.RESUMED, f"{run_id} was resumed", why, stop
    return None


def _about_end(run_id: str, reason: str, summary: str | None) -> tuple[NotificationKind, str, str, str]:
    what = end_reason_text(reason)
    detail = f"{what}: {summary}" if summary else what
    if reason == EndReason.ALL_DONE:
        return NotificationKind.DONE, f"{run_id} is done", f"{detail}\nsee it: holdfast diff {run_id}", reason
    if reason == EndReason.WAITING:
        return NotificationKind.NEEDS_YOU, f"{run_id} waits for you", f"{detail}\nsee: holdfast show {run_id}", reason
    if reason in _PARKED:
        return NotificationKind.PARKED, f"{run_id} is parked", detail, reason
    return NotificationKind.FAILED, f"{run_id} failed", f"{detail}\nsee: holdfast show {run_id}", reason
