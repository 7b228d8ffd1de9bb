"""Each event in words: every type is either told or known to be silent."""

import pytest
from msgspec import Raw

from holdfast.app.text.event_colours import event_colour, is_error
from holdfast.app.text.events import DESCRIPTIONS, SILENT_EVENTS, describe_event, event_subject
from holdfast.core.events import TYPES, Event
from holdfast.core.events.branch import BranchMerged
from holdfast.core.events.conversation import AgentPlanned, MessageRecorded, ToolCalled, TurnEnded
from holdfast.core.events.inbox import InboxConsumed
from holdfast.core.events.issue import WarningLogged
from holdfast.core.events.task import TaskCompleted
from holdfast.core.events.work import HookRan, VerdictGiven
from holdfast.core.state import Conversation, RunState
from tests.core.examples import EXAMPLES

ENTRIES = Raw(b'[{"status":"completed"},{"status":"in_progress","content":"b"}]')


def test_every_type_is_told_or_silent_and_none_is_both() -> None:
    assert DESCRIPTIONS.keys() | SILENT_EVENTS == set(TYPES.values())
    assert not DESCRIPTIONS.keys() & SILENT_EVENTS


@pytest.mark.parametrize("event", EXAMPLES.values(), ids=list(EXAMPLES))
def test_what_is_told_is_one_line_of_words(event: Event) -> None:
    words = describe_event(event)
    assert (words is None) == (
        type(event) in SILENT_EVENTS or isinstance(event, TurnEnded)
    )  # one that ended as it should
    assert words is None or (words.isprintable() and words == words.strip() and 0 < len(words) < 200)


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (TaskCompleted(task_id=1), "done"),
        (TaskCompleted(task_id=1, summary="Design"), "done: Design"),
        (VerdictGiven(task_id=1, iteration=2, accept=True), "accepted, iteration 2"),
        (VerdictGiven(task_id=1, iteration=2, accept=False, concern="no"), "rejected, iteration 2: no"),
        (MessageRecorded(conversation="c", speaker="agent", text="\n  first \nsecond"), "“first”"),
        (MessageRecorded(conversation="c", speaker="thought", text="hm"), None),
        (MessageRecorded(conversation="c", speaker="agent", text="\n"), None),
        (ToolCalled(conversation="c", call="k", tool="Edit", locations=Raw(b'[{"path":"a.py"}]')), "Edit a.py"),
        (ToolCalled(conversation="c", call="k", tool="Edit a.py", locations=Raw(b'[{"path":"a.py"}]')), "Edit a.py"),
        (ToolCalled(conversation="c", call="k", tool="Edit", locations=Raw(b"[7]")), "Edit"),
        (AgentPlanned(conversation="c", entries=ENTRIES), "agent's plan: 1 of 2 done: b"),
        (AgentPlanned(conversation="c", entries=Raw(b"7")), None),
        (TurnEnded(conversation="c", turn="t", stop_reason="refusal"), "turn ended: refusal"),
        (BranchMerged(name="holdfast/r-1/T-1", target="holdfast/r-1/main"), "merged T-1 into the run's branch"),
        (BranchMerged(name="holdfast/r-1/main", target="main"), "merged the run's branch into main"),
        (InboxConsumed(cursor=1, message="m", kind="refused_report", body=Raw(b"{}")), None),
        (HookRan(hook="notify", command="true", exit_code=0), None),
        (WarningLogged(message="\x1b[2J\x9bbad\r\nword"), "warning: ·[2J·bad word"),
        (WarningLogged(message="long " * 10_000), f"warning: {'long ' * 100}"[:400]),
    ],
)
def test_the_words(event: Event, words: str | None) -> None:
    assert describe_event(event) == words


def test_it_is_told_whom_an_event_is_about() -> None:
    state = RunState(conversations={"w": Conversation(task="T-1", role="worker", agent="claude")})
    state.conversations["e"] = Conversation(task="T-1", role="evaluator")
    state.conversations["x"] = Conversation(agent="codex")
    said = {name: event_subject(MessageRecorded(conversation=name, speaker="agent", text=""), state) for name in "wex?"}
    assert said == {"w": "T-1", "e": "T-1 evaluator", "x": "codex", "?": ""}
    assert event_subject(TaskCompleted(task_id=7), state) == "7"
    assert event_subject(WarningLogged(message="w"), state) == ""


def test_what_went_wrong_is_told_also_to_those_who_want_quiet() -> None:
    bad = {name for name, event in EXAMPLES.items() if is_error(event)}
    assert bad == {"task.failed", "phase.failed", "effect.unknown", "worktree.setup.finished"}
    assert event_colour(VerdictGiven(task_id=1, iteration=1, accept=True)) == "green"
