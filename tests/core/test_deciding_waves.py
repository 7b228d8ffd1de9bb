"""What a run does next: waves, places, merges, messages, and how a session ends."""

from typing import NamedTuple

import pytest

from holdfast.core.decide.actions import NOTHING_IN_PROGRESS, ActionKey, RuntimeFacts
from holdfast.core.decide.tasks import decide
from holdfast.core.messages.addressing import messages_for
from holdfast.core.state import Conversation, OpenMessage, OpenTurn, RunState
from holdfast.core.task_state import Task, TaskStage, Wave
from holdfast.core.work.workflow import Bounds
from tests.core.situations import (
    COMPLETE,
    LOOP,
    PENDING,
    SKIPPED,
    SOLO,
    begun,
    describe,
    failed,
    of_task,
    situation,
    words,
)

ASKING = Bounds(ask_when_interrupted=True)


class Row(NamedTuple):
    state: RunState
    expected: str
    facts: RuntimeFacts = NOTHING_IN_PROGRESS
    bounds: Bounds = Bounds()


def at(busy: str = "", stuck: str = "") -> RuntimeFacts:
    """Tasks, by name, that are in progress or failed too often."""
    in_progress, failed_too_often = (frozenset(map(of_task, names.split())) for names in (busy, stuck))
    return RuntimeFacts(in_progress, failed_too_often)


def closed(state: RunState, *waves: int) -> RunState:
    assert state.plan is not None
    for number in waves:
        state.plan.waves[number].completed = True
    return state


def spoken(**last: str) -> dict[str, Conversation]:
    """A worker for each task, named like it: how its one turn went."""
    return {name: Conversation(turns=1, last=how, cuts=int(how == "interrupted")) for name, how in last.items()}


def at_work(name: str, since: int = 0) -> Task:
    return begun(worker=name, since=since)


DIAMOND = {"b": "a", "c": "a", "d": "b c"}


def diamond(a: Task = COMPLETE, b: Task = PENDING, c: Task = PENDING, d: Task = PENDING) -> RunState:
    state = situation({"a": a, "b": b, "c": c, "d": d}, "a", "b c", "d", needs=DIAMOND)
    return closed(state, 1) if a in (COMPLETE, SKIPPED) else state


MERGE = begun(TaskStage.MERGE)

PLACES: dict[str, Row] = {
    "as many start as there are places": Row(situation({"a": PENDING, "b": PENDING, "c": PENDING}), "start a; start b"),
    "one place": Row(situation({"a": PENDING, "b": PENDING}), "start a", bounds=Bounds(parallel=1)),
    "a place for each": Row(
        situation({"a": PENDING, "b": PENDING, "c": PENDING}), "start a; start b; start c", bounds=Bounds(parallel=9)
    ),
    "one that is being started has a place, and is not started twice": Row(
        situation({"a": PENDING, "b": PENDING, "c": PENDING}), "start b", at(busy="a")
    ),
    "nothing while all places are taken": Row(
        situation({"a": PENDING, "b": PENDING, "c": PENDING}), "", at(busy="a b")
    ),
    "what was begun comes before what was not": Row(
        situation({"a": PENDING, "b": begun(), "c": begun()}), "work b (begin); work c (begin)"
    ),
    "one that waits for its merge leaves its place to others": Row(
        situation({"a": begun(), "b": MERGE, "c": PENDING}), "start c", at(busy="a")
    ),
    "so does one that is being merged": Row(
        situation({"a": MERGE, "b": begun(), "c": PENDING}), "work b (begin); start c", at(busy="a")
    ),
    "one that comes back from its merge waits for a place": Row(
        situation({"a": begun(conflicts=["x"], conflicted=1), "b": begun()}), "", at(busy="b"), Bounds(parallel=1)
    ),
    "one that is stuck leaves its place to others": Row(
        situation({"a": begun(), "b": PENDING}), "start b", at(stuck="a"), Bounds(parallel=1)
    ),
    "one that waits for a person leaves its place to others": Row(
        situation({"a": at_work("a"), "b": PENDING}, conversations=spoken(a="interrupted")),
        "start b",
        bounds=Bounds(parallel=1, ask_when_interrupted=True),
    ),
    "answered, it waits for a place": Row(
        situation({"a": at_work("a"), "b": begun()}, conversations=spoken(a="interrupted"), messages=words(m="a")),
        "",
        at(busy="b"),
        Bounds(parallel=1, ask_when_interrupted=True),
    ),
    "one that could not be started is not started again": Row(
        situation({"a": PENDING, "b": PENDING}), "start b", at(stuck="a"), Bounds(parallel=1)
    ),
}

WAVES: dict[str, Row] = {
    "the first wave first": Row(diamond(PENDING), "start a"),
    "the next one when the first is closed": Row(diamond(), "start b; start c"),
    "a wave is closed before the next one begins": Row(
        situation({"a": COMPLETE, "b": PENDING}, "a", "b"), "close wave 1"
    ),
    "a wave is closed once": Row(
        situation({"a": COMPLETE, "b": PENDING}, "a", "b"), "", RuntimeFacts(busy=frozenset({ActionKey("wave", "1")}))
    ),
    "one that cannot be closed holds up nobody": Row(
        situation({"a": COMPLETE, "b": PENDING}, "a", "b"),
        "start b",
        RuntimeFacts(stuck=frozenset({ActionKey("wave", "1")})),
    ),
    "what was skipped is settled": Row(diamond(SKIPPED), "start b; start c"),
    "a wave of what was skipped is closed": Row(situation({"a": SKIPPED}), "close wave 1"),
    "an empty wave is closed": Row(situation({"a": PENDING}, "", "a"), "close wave 1"),
    "nobody starts while one that it waits for has failed": Row(
        diamond(COMPLETE, failed(), COMPLETE), "stop (iter_cap)"
    ),
    "one that waits for nothing that failed starts": Row(
        situation({"a": failed(), "b": COMPLETE, "c": PENDING, "d": PENDING}, "a b", "c d", needs={"c": "a", "d": "b"}),
        "start d",
    ),
    "one that is stuck does not hold up later waves": Row(
        situation({"a": begun(), "b": COMPLETE, "c": PENDING, "d": PENDING}, "a b", "c d", needs={"c": "a", "d": "b"}),
        "start d",
        at(stuck="a"),
    ),
    "one that waits for a person does not either": Row(
        situation(
            {"a": at_work("a"), "b": COMPLETE, "c": PENDING, "d": PENDING},
            "a b",
            "c d",
            needs={"c": "a", "d": "b"},
            conversations=spoken(a="interrupted"),
        ),
        "start d",
        bounds=ASKING,
    ),
    "one that is at work does": Row(
        situation({"a": begun(), "b": COMPLETE, "c": PENDING}, "a b", "c", needs={"c": "b"}), "", at(busy="a")
    ),
    "what was begun in a later wave goes on, nothing else begins there": Row(
        situation({"a": begun(), "b": begun(), "c": PENDING}, "a", "b c"),
        "work a (begin); work b (begin)",
        bounds=Bounds(parallel=5),
    ),
    "over all waves no more are at work than there are places": Row(
        situation({"a": begun(), "b": begun()}, "a", "b"), "", at(busy="b"), Bounds(parallel=1)
    ),
    "a later wave is not closed past one in which a task failed": Row(
        situation({"a": failed(), "b": COMPLETE}, "a", "b"), "stop (iter_cap)"
    ),
    "a later wave is not closed while one before it moves": Row(
        situation({"a": begun(), "b": COMPLETE}, "a", "b"), "work a (begin)"
    ),
    "one that was opened again is done before what comes after it": Row(
        closed(situation({"a": PENDING, "b": COMPLETE, "c": PENDING}, "a", "b", "c"), 2), "start a"
    ),
    "and its dependents wait for it": Row(
        situation({"a": PENDING, "b": PENDING}, "a", "b", needs={"b": "a"}), "", at(busy="a")
    ),
}

MERGES: dict[str, Row] = {
    "the first in the plan's order": Row(situation({"a": MERGE, "b": MERGE}), "merge a"),
    "one at a time": Row(situation({"a": MERGE, "b": MERGE}), "", at(busy="a")),
    "the next when the one before it is merged": Row(
        situation({"a": begun(TaskStage.COMPLETE), "b": MERGE}), "complete a; merge b"
    ),
    "not before one that is at work": Row(situation({"a": begun(), "b": MERGE}), "", at(busy="a")),
    "not before one that is still to start": Row(
        situation({"a": PENDING, "b": MERGE, "c": begun()}), "", at(busy="c"), Bounds(parallel=1)
    ),
    "not before one that has to be resolved": Row(
        situation({"a": begun(conflicts=["x"], conflicted=1), "b": MERGE}), "work a (resolve)"
    ),
    "before one that is later in the plan": Row(situation({"a": MERGE, "b": begun()}), "merge a", at(busy="b")),
    "past one that failed": Row(situation({"a": failed(), "b": MERGE}), "merge b"),
    "past one that was skipped": Row(situation({"a": SKIPPED, "b": MERGE}), "merge b"),
    "past one that was merged": Row(situation({"a": COMPLETE, "b": MERGE}), "merge b"),
    "past one that is stuck": Row(situation({"a": begun(), "b": MERGE}), "merge b", at(stuck="a")),
    "past one that cannot start": Row(
        situation({"x": failed(), "a": PENDING, "b": MERGE}, "x", "a b", needs={"a": "x"}), "merge b"
    ),
    "past one that waits for a person": Row(
        situation({"a": at_work("a"), "b": MERGE}, conversations=spoken(a="interrupted")), "merge b", bounds=ASKING
    ),
    "one at a time over all waves": Row(situation({"a": MERGE, "b": MERGE}, "a", "b"), "", at(busy="b")),
    "of two waves, the earlier": Row(situation({"a": MERGE, "b": MERGE}, "a", "b"), "merge a"),
}

ANYONE = words(m=None)
DONE = spoken(a="end_turn", b="end_turn")

MESSAGES: dict[str, Row] = {
    "for a task at work": Row(
        situation({"a": at_work("a"), "b": at_work("b")}, conversations=DONE, messages=words(m="b")),
        "take as done a; work b (message)",
    ),
    "for anyone: for the first at work": Row(
        situation({"a": at_work("a"), "b": at_work("b")}, conversations=DONE, messages=ANYONE),
        "work a (message); take as done b",
    ),
    "for anyone, while the first is busy: it is told next": Row(
        situation({"a": at_work("a"), "b": at_work("b")}, conversations=DONE, messages=ANYONE),
        "take as done b",
        at(busy="a"),
    ),
    "for anyone, while another is about to be told something: it goes with that": Row(
        situation({"a": at_work("a"), "b": begun()}, conversations=DONE, messages=ANYONE),
        "take as done a",
        at(busy="b"),
    ),
    "for anyone, when the first is stuck": Row(
        situation({"a": at_work("a"), "b": at_work("b")}, conversations=DONE, messages=ANYONE),
        "work b (message)",
        at(stuck="a"),
    ),
    "for anyone, when the first has no agent that lives": Row(
        situation(
            {"a": at_work("a"), "b": at_work("b")},
            conversations={"a": Conversation(turns=5, last="interrupted", cuts=5), **spoken(b="end_turn")},
            messages=ANYONE,
        ),
        "work b (message)",
    ),
    "for anyone, when the first is past its work": Row(
        situation({"a": begun(TaskStage.VALIDATE), "b": at_work("b")}, conversations=DONE, messages=ANYONE),
        "validate a; work b (message)",
    ),
    "taken along by what is said anyway": Row(
        situation({"a": at_work("a", since=1)}, conversations=DONE, messages=ANYONE), "work a (again)"
    ),
    "taken along by the word to go on": Row(
        situation({"a": at_work("a")}, conversations=spoken(a="interrupted"), messages=ANYONE), "work a (go on)"
    ),
    "it is how a person says to go on": Row(
        situation({"a": at_work("a")}, conversations=spoken(a="interrupted"), messages=ANYONE),
        "work a (message)",
        bounds=ASKING,
    ),
    "what is not words for an agent is for no agent": Row(
        situation({"a": at_work("a")}, conversations=DONE, messages={"m": OpenMessage("signal.case", task="a")}),
        "take as done a",
    ),
    "for a task that is done: when all else is at rest": Row(
        situation({"a": COMPLETE, "b": PENDING}, messages=words(m="a")), "start b"
    ),
    "for a task that is done": Row(
        closed(situation({"a": COMPLETE, "b": COMPLETE}, messages=words(m="a")), 1),
        "reopen a (there is a message for it)",
    ),
    "for a task that is done, and stuck": Row(
        closed(situation({"a": COMPLETE}, messages=words(m="a")), 1), "stop (parked)", at(stuck="a")
    ),
    "for a task that is done, while another waits for a person": Row(
        situation({"a": at_work("a"), "b": COMPLETE}, conversations=spoken(a="interrupted"), messages=words(m="b")),
        "reopen b (there is a message for it)",
        bounds=ASKING,
    ),
    "for anyone, when all is done: for the last": Row(
        closed(situation({"a": COMPLETE, "b": COMPLETE}, messages=ANYONE), 1), "reopen b (there is a message for it)"
    ),
    "for anyone, when the last was skipped": Row(
        closed(situation({"a": COMPLETE, "b": SKIPPED}, messages=ANYONE), 1), "reopen a (there is a message for it)"
    ),
    "for anyone, when the last failed": Row(
        situation({"a": COMPLETE, "b": failed()}, messages=ANYONE), "stop (iter_cap)"
    ),
    "for a task that failed": Row(situation({"a": failed()}, messages=words(m="a")), "stop (iter_cap)"),
    "for nobody there is": Row(closed(situation({"a": COMPLETE}, messages=words(m="x")), 1), "stop (all_done)"),
}

CUT = spoken(a="interrupted")
OUTCOMES: dict[str, Row] = {
    "no plan": Row(RunState(), "stop (no_plan)"),
    "an empty plan": Row(RunState(plan=situation({}).plan), "close wave 1"),
    "all done": Row(closed(situation({"a": COMPLETE, "b": SKIPPED}), 1), "stop (all_done)"),
    "all done, but its wave cannot be closed": Row(
        situation({"a": COMPLETE}), "stop (parked)", RuntimeFacts(stuck=frozenset({ActionKey("wave", "1")}))
    ),
    **{
        f"failed by {cap}": Row(situation({"a": failed("blocked"), "b": failed(cap)}), f"stop ({cap})")
        for cap in ("iter_cap", "evaluator_cap", "no_case")
    },
    "failed by the first of several caps": Row(
        situation({"a": failed("no_case"), "b": failed("iter_cap")}), "stop (no_case)"
    ),
    **{
        f"failed, being {error}": Row(situation({"a": failed(error), "b": COMPLETE}), "stop (failed)")
        for error in ("blocked", "conflicts", "QA")
    },
    "a person is to say how to go on": Row(
        situation({"a": at_work("a")}, conversations=CUT), "stop (waiting)", bounds=ASKING
    ),
    "a person is to say, and something failed": Row(
        situation({"a": at_work("a"), "b": failed()}, conversations=CUT), "stop (waiting)", bounds=ASKING
    ),
    "the turn was still open": Row(
        situation({"a": at_work("a")}, conversations={"a": Conversation(turns=1, turn=OpenTurn("t"))}),
        "stop (waiting)",
        bounds=ASKING,
    ),
    "what comes next is for us": Row(
        situation({"a": begun(TaskStage.MERGE, worker="a")}, conversations=CUT), "stop (parked)", at(stuck="a"), ASKING
    ),
    "stuck": Row(situation({"a": begun()}), "stop (parked)", at(stuck="a")),
    "stuck before it began": Row(situation({"a": PENDING}), "stop (parked)", at(stuck="a")),
    "stuck, and something failed": Row(situation({"a": begun(), "b": failed()}), "stop (parked)", at(stuck="a")),
    "its agent dies each time": Row(
        situation({"a": at_work("a")}, conversations={"a": Conversation(turns=5, last="interrupted", cuts=5)}),
        "stop (parked)",
    ),
}

TABLE = {"places": PLACES, "waves": WAVES, "merges": MERGES, "messages": MESSAGES, "outcomes": OUTCOMES}
ROWS = [pytest.param(row, id=f"{part}: {fact}") for part, rows in TABLE.items() for fact, row in rows.items()]


@pytest.mark.parametrize("row", ROWS)
def test_a_run(row: Row) -> None:
    assert describe(decide(row.state, SOLO, row.bounds, row.facts)) == row.expected


def test_a_failed_part_of_a_plan_ends_the_session_as_what_it_was_when_nothing_else_can_be_done() -> None:
    blocked = situation(
        {"a": failed("evaluator_cap"), "b": PENDING, "c": PENDING}, "a", "b", "c", needs={"b": "a", "c": "b"}
    )
    assert describe(decide(blocked, LOOP, Bounds())) == "stop (evaluator_cap)"


def test_no_wave_is_closed_before_those_before_it_so_that_a_failure_is_never_behind_a_checkpoint() -> None:
    state = situation({"a": failed(), "b": COMPLETE}, "a", "b")
    assert describe(decide(state, SOLO, Bounds())) == "stop (iter_cap)"
    assert describe(decide(situation({"a": SKIPPED, "b": COMPLETE}, "a", "b"), SOLO, Bounds())) == "close wave 1"


def test_waves_follow_their_numbers_not_their_order() -> None:
    state = situation({"a": PENDING, "b": PENDING})
    assert state.plan is not None
    state.plan.waves = {10: Wave(["a"]), 9: Wave(["b"])}
    assert describe(decide(state, SOLO, Bounds())) == "start b"


def test_the_next_prompt_takes_along_what_is_for_its_task_and_for_anyone_in_the_order_it_came() -> None:
    messages = {**words(m1="a", m2=None, m3="b", m4="a"), "m5": OpenMessage("answer", task="a")}
    assert messages_for(messages, "a") == ["m1", "m2", "m4"]
    assert messages_for(messages, "c") == ["m2"]


def test_the_first_start_of_a_wave_starts_the_wave_once() -> None:
    state = situation({"a": begun(), "b": PENDING, "c": PENDING, "d": PENDING})
    bounds = Bounds(parallel=3)
    assert [action.wave for action in decide(state, SOLO, bounds)] == [None, 1, None]
    assert [action.wave for action in decide(state, SOLO, bounds, at(busy="b"))] == [None, None]
    assert state.plan is not None
    state.plan.waves[1].started = True
    assert [action.wave for action in decide(state, SOLO, bounds)] == [None, None, None]
