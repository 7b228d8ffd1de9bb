"""The state's size follows the plan, never the length of the log."""

from collections.abc import Callable

import pytest
from msgspec import Raw

from holdfast.core.events import Event
from holdfast.core.events.agent import AgentCompleted, AgentSpawned
from holdfast.core.events.budget import UsageRecorded
from holdfast.core.events.conversation import ToolCalled, ToolReturned, TurnEnded, TurnStarted
from holdfast.core.events.effect import EffectHappened, EffectIntended
from holdfast.core.events.inbox import InboxConsumed, InboxHandled
from holdfast.core.events.issue import ErrorEncountered
from holdfast.core.events.task import TaskFailed, TaskStarted
from holdfast.core.state import MAX_KEPT
from tests.core.logs import fold_once, session_log, size

Pair = Callable[[int], tuple[Event, ...]]
DIGITS = 60  # numbers that count may grow longer


def calls(number: int) -> tuple[Event, ...]:
    name = f"call-{number}"
    return (
        ToolCalled(conversation="c", call=name, tool="edit", input=Raw(b'{"path":"a.py"}')),
        ToolReturned(conversation="c", call=name),
    )


def turns(number: int) -> tuple[Event, ...]:
    turn = f"turn-{number}"
    return TurnStarted(conversation="c", turn=turn), TurnEnded(conversation="c", turn=turn)


def effects(number: int) -> tuple[Event, ...]:
    return EffectIntended(effect=f"e-{number}", kind="commit"), EffectHappened(effect=f"e-{number}")


def messages(number: int) -> tuple[Event, ...]:
    return (
        InboxConsumed(cursor=number, message=f"m-{number}", kind="user", body=Raw(b'"hi"')),
        InboxHandled(message=f"m-{number}"),
    )


def attempts(number: int) -> tuple[Event, ...]:
    return TaskStarted(task_id="1"), TaskFailed(task_id="1", error="QA", attempts=3)


def respawns(number: int) -> tuple[Event, ...]:
    return AgentSpawned(name="eng", branch="b", pid=7), AgentCompleted(name="eng", result="success")


def spending(number: int) -> tuple[Event, ...]:
    return (UsageRecorded(input_tokens=1, output_tokens=1), UsageRecorded(input_tokens=1))


def log_of(kind: Pair, count: int) -> bytes:
    """A turn, and in it so many pairs of events; encoded once, numbered by hand: it is the fold that is measured."""
    begun = session_log(TurnStarted(conversation="c", turn="t"))
    pair = session_log(*kind(7777777), first=8888888).replace(b"8888888", b"%(a)d").replace(b"8888889", b"%(b)d")
    pair = pair.replace(b"7777777", b"%(n)d")
    return begun + b"".join(pair % {b"n": n, b"a": 2 * n + 1, b"b": 2 * n + 2} for n in range(count))


@pytest.mark.parametrize("kind", [calls, turns, effects, messages])
def test_a_hundred_thousand_events_leave_the_state_as_small_as_twenty(kind: Pair) -> None:
    stays_small(kind, 50_000)


@pytest.mark.parametrize("kind", [attempts, respawns, spending])
def test_thousands_of_attempts_leave_the_state_as_small_as_ten(kind: Pair) -> None:
    stays_small(kind, 5_000)


def stays_small(kind: Pair, pairs: int) -> None:
    few, many = fold_once(log_of(kind, 10)).state, fold_once(log_of(kind, pairs)).state
    assert (many.events, many.sessions["s1"].seen, many.malformed) == (2 * pairs + 1, [[0, 2 * pairs]], [])
    assert size(many) - size(few) < DIGITS


def test_of_endless_issues_the_newest_are_kept() -> None:
    log = session_log(*(ErrorEncountered(error=f"error {number}") for number in range(MAX_KEPT + 50)))
    state = fold_once(log).state
    assert len(state.issues) == MAX_KEPT
    assert state.issues[-1].detail["error"] == f"error {MAX_KEPT + 49}"
