"""What the state keeps of providers' limits."""

from holdfast.core.events import Event
from holdfast.core.events.conversation import ConversationOpened, TurnEnded, TurnStarted
from holdfast.core.events.provider import OutageMet, QuotaHit
from holdfast.core.provider_limit import BackOff, LimitKind
from holdfast.core.state import RunState
from tests.core.logs import fold_once, session_log

OPENED = ConversationOpened(conversation="c", agent="claude")
OTHER = ConversationOpened(conversation="d", agent="claude")
HIT = QuotaHit(agent="claude", until="2026-01-01T10:00:01.000Z", conversation="c", turn="t1")


def state(*events: Event) -> RunState:
    return fold_once(session_log(*events)).state


def turn(conversation: str, name: str, ended: str) -> tuple[Event, Event]:
    return TurnStarted(conversation=conversation, turn=name), TurnEnded(
        conversation=conversation, turn=name, stop_reason=ended
    )


def test_a_refused_turn_counts_as_no_failure_of_its_conversation() -> None:
    found = state(OPENED, *turn("c", "t1", "refused"), HIT)
    assert (found.conversations["c"].cuts, found.conversations["c"].interrupted_turns) == (0, 1)
    assert found.limits["claude"].kind is LimitKind.QUOTA


def test_a_later_turn_that_finishes_ends_the_limit() -> None:
    assert state(OPENED, *turn("c", "t1", "refused"), HIT, *turn("c", "t2", "end_turn")).limits == {}
    assert state(OPENED, *turn("c", "t1", "refused"), HIT, *turn("c", "t2", "refused")).limits != {}


def test_the_limit_of_an_agent_is_not_ended_by_another_agent() -> None:
    codex = ConversationOpened(conversation="d", agent="codex")
    assert "claude" in state(OPENED, codex, *turn("c", "t1", "refused"), HIT, *turn("d", "t2", "end_turn")).limits


def test_attempts_in_a_row_keep_when_they_began() -> None:
    first = OutageMet(agent="claude", until="2026-01-01T10:00:05.000Z")
    again = OutageMet(agent="claude", until="2026-01-01T10:00:15.000Z", attempts=2)
    one, two = state(OPENED, first).limits["claude"], state(OPENED, first, OTHER, again).limits["claude"]
    assert two.attempts == 2
    assert two.began == one.began


def test_a_back_off_doubles_up_to_its_cap() -> None:
    back_off = BackOff(5.0, 60.0)
    assert [back_off.delay_s(attempts) for attempts in (1, 2, 3, 4, 5, 6, 10_000)] == [5, 10, 20, 40, 60, 60, 60]
