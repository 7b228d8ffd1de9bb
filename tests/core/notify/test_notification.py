"""Which events notify a person, and as what."""

import msgspec
import pytest

from holdfast.core.events import Event
from holdfast.core.events.base import Envelope
from holdfast.core.events.conversation import PermissionRequested, TurnEnded
from holdfast.core.events.session import RunResumed, SessionEnd
from holdfast.core.log.codec import Line, encode, parse
from holdfast.core.notify.notification import digest_of, may_notify, notification_of

RUN = "auth-abc234"


def line_of(event: Event, seq: int = 7) -> Line:
    line = parse(encode(Envelope(sid="s1", seq=seq, ts="2026-02-14T22:05:00.000Z", type=event.type, data=event)))
    assert isinstance(line, Line)
    return line


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        (SessionEnd(reason="all_done"), "done"),
        (SessionEnd(reason="waiting"), "needs_you"),
        (SessionEnd(reason="quota", summary="claude: resets 15:00"), "parked"),
        (SessionEnd(reason="outage"), "parked"),
        (SessionEnd(reason="parked"), "parked"),
        (SessionEnd(reason="disk_space"), "parked"),
        (SessionEnd(reason="day_budget"), "parked"),
        (SessionEnd(reason="iter_cap"), "failed"),
        (SessionEnd(reason="error", summary="boom"), "failed"),
        (SessionEnd(reason="stopped"), None),
        (SessionEnd(reason="interrupted"), None),
        (SessionEnd(reason="idle"), None),
        (SessionEnd(reason=None), None),
        (PermissionRequested(conversation="c", request="r1", title="Run tests", command="make test"), "needs_you"),
        (RunResumed(summary="", last_stop="quota"), "resumed"),
        (RunResumed(summary="", last_stop="killed"), "resumed"),
        (RunResumed(summary="", last_stop="idle"), None),
        (TurnEnded(conversation="c", turn="t"), None),
    ],
)
def test_kind_of_a_notification_follows_from_the_event(event: Event, kind: str | None) -> None:
    found = notification_of(RUN, line_of(event))
    assert (found.kind if found is not None else None) == kind
    if kind is not None:
        assert may_notify(msgspec.json.encode({"type": event.type}))


def test_permission_shows_the_command_and_how_to_answer() -> None:
    asked = PermissionRequested(conversation="c", request="r1", title="safe", command="rm -rf /\x1b[2J")
    found = notification_of(RUN, line_of(asked))
    assert found is not None
    assert found.text.splitlines()[0] == "rm -rf /\\x1b[2J"
    assert f"holdfast approve {RUN} r1" in found.text


def test_an_event_has_the_same_id_whoever_reads_it_and_another_event_has_another() -> None:
    end = SessionEnd(reason="all_done")
    first, again, other = (notification_of(RUN, line_of(end, seq)) for seq in (7, 7, 8))
    assert first == again
    assert first is not None
    assert other is not None
    assert first.id != other.id


def test_a_digest_has_a_line_for_each_that_was_held_back() -> None:
    ends = [
        notification_of(RUN, line_of(SessionEnd(reason=reason), seq)) for seq, reason in enumerate(["quota", "error"])
    ]
    digest = digest_of("desk", [end for end in ends if end is not None])
    assert digest.run == RUN
    assert digest.text.splitlines() == [
        f"22:05 UTC  {RUN} is parked: the provider's usage limit is reached",
        f"22:05 UTC  {RUN} failed: error",
    ]
