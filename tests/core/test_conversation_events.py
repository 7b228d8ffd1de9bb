"""What each event of a conversation does to the state."""

import pytest
from msgspec import Raw, structs

from holdfast.core.events.budget import UsageRecorded
from holdfast.core.events.conversation import (
    CommandsListed,
    ConversationAttached,
    ConversationDetached,
    ConversationOpened,
    ConversationStateChanged,
    ConversationTokenStored,
    ModeChanged,
    PermissionAnswered,
    PermissionRequested,
    ToolCalled,
    ToolDetailed,
    ToolReturned,
    TurnEnded,
    TurnInterrupted,
    TurnStarted,
    TurnWasEmpty,
)
from holdfast.core.events.inbox import InboxConsumed, InboxHandled
from holdfast.core.events.plan import PlanCreated, PlannedTask
from holdfast.core.events.session import RunResumed
from holdfast.core.events.task import TaskCompleted
from holdfast.core.events.work import ReportRefused
from holdfast.core.state import Conversation, OpenMessage, OpenTurn, PermissionRequest
from tests.core.logs import TS, Row, fold_once, row, session_log

OPENED = ConversationOpened(conversation="c", agent="claude", role="coder", task=2)
TURN = TurnStarted(conversation="c", turn="t1")
ASKED = PermissionRequested(
    conversation="c", request="p", title="Edit", kind="edit", paths=["a"], options=Raw(b"[]"), fingerprint="f"
)
ANSWERED = PermissionAnswered(request="p", option="y", by="user")
REPORT = InboxConsumed(cursor=9, message="m", kind="signal.submit_done", sender="c")
REFUSED = ReportRefused(conversation="c", tool="submit_done", attempt=1, error="no summary")
ENDED = TurnEnded(conversation="c", turn="t1", stop_reason="end_turn")
EMPTY = TurnWasEmpty(conversation="c", turn="t1", streak=1)
WORKER = ConversationOpened(conversation="c", role="worker", task="2")
DENIED = PermissionAnswered(request="p", option="n", by="user", message="answer-p", reason="not now")
WHY = '{"text":"Your request was denied: Edit: a\\nThe reason: not now"}'
CALL = ToolCalled(conversation="c", call="k1", tool="edit", turn="t1")

TABLE = (
    row("a conversation opened", OPENED, conversations={"c": Conversation("claude", "coder", "2")}),
    row(
        "a conversation changed state",
        OPENED,
        ConversationStateChanged(conversation="c", state="running"),
        conversations={"c": Conversation("claude", "coder", "2", state="running")},
    ),
    row(
        "a resume token stored",
        ConversationTokenStored(conversation="c", token="tok"),
        conversations={"c": Conversation(token="tok")},
    ),
    row(
        "a rejected token is gone",
        ConversationTokenStored(conversation="c", token="tok"),
        ConversationTokenStored(conversation="c", token=None),
        conversations={"c": Conversation()},
    ),
    row(
        "a session's dollars go with its token",
        ConversationTokenStored(conversation="c", token="one"),
        UsageRecorded(conversation="c", dollars=0.5),
        ConversationTokenStored(conversation="c", token="one"),
        UsageRecorded(conversation="c", dollars=0.25),
        conversations={"c": Conversation(token="one", dollars=0.75, cost=0.75, priced=True)},
    ),
    row(
        "another session has spent nothing yet",
        ConversationTokenStored(conversation="c", token="one"),
        UsageRecorded(conversation="c", dollars=0.5, input_tokens=5, output_tokens=2),
        ConversationTokenStored(conversation="c", token="two"),
        conversations={"c": Conversation(token="two", tokens=7, cost=0.5, priced=True)},
    ),
    row(
        "a turn started",
        TURN,
        conversations={"c": Conversation(last_turn="t1", turns=1, turn=OpenTurn("t1", started=TS))},
    ),
    row(
        "a turn ended",
        TURN,
        TurnEnded(conversation="c", turn="t1"),
        conversations={"c": Conversation(last_turn="t1", turns=1, briefed=True)},
    ),
    row(
        "a turn ended with a message that has an id",
        TURN,
        structs.replace(ENDED, message_id="m-1"),
        conversations={"c": Conversation(last_turn="t1", turns=1, briefed=True, last="end_turn", last_message="m-1")},
    ),
    row(
        "a turn ended without a message after one that had an id",
        *(TURN, structs.replace(ENDED, message_id="m-1"), TURN, ENDED),
        conversations={"c": Conversation(last_turn="t1", turns=2, briefed=True, last="end_turn")},
    ),
    row(
        "a turn with the message of the turn before, as older logs have it",
        *[TURN, structs.replace(ENDED, message_id="m-1")] * 2,
        conversations={"c": Conversation(last_turn="t1", turns=2, briefed=True, last="end_turn")},
    ),
    row(
        "a new session does not have the last message",
        *(TURN, structs.replace(ENDED, message_id="m-1")),
        ConversationAttached(conversation="c", rung="fresh"),
        conversations={"c": Conversation(last_turn="t1", turns=1, briefed=True, last="end_turn", started=True)},
    ),
    row(
        "empty turns in a row",
        *(TURN, ENDED, EMPTY, TURN, ENDED, structs.replace(EMPTY, streak=2)),
        conversations={"c": Conversation(last_turn="t1", turns=2, briefed=True, last="end_turn", empty=2)},
    ),
    row(
        "an empty turn, and one that was not",
        *(TURN, ENDED, EMPTY, TURN, ENDED),
        conversations={"c": Conversation(last_turn="t1", turns=2, briefed=True, last="end_turn")},
    ),
    row(
        "an empty turn, and a resume",
        *(TURN, ENDED, EMPTY, RunResumed(summary="on")),
        conversations={"c": Conversation(last_turn="t1", turns=1, briefed=True, last="end_turn")},
    ),
    row(
        "a call whose input came later",
        *(TURN, CALL, ToolDetailed(conversation="c", call="k1", tool="edit a.py")),
        conversations={
            "c": Conversation(last_turn="t1", turns=1, turn=OpenTurn("t1", started=TS, calls={"k1": "edit a.py"}))
        },
    ),
    row(
        "a report",
        *(OPENED, REPORT),
        conversations={"c": Conversation("claude", "coder", "2", reports=1)},
    ),
    row(
        "reports that were refused, and one that was taken",
        *(OPENED, REFUSED, structs.replace(REFUSED, attempt=2), REPORT, InboxHandled(message=REPORT.message)),
        conversations={"c": Conversation("claude", "coder", "2", reports=1)},
    ),
    row(
        "reports that were refused",
        *(OPENED, REFUSED, structs.replace(REFUSED, attempt=2)),
        conversations={"c": Conversation("claude", "coder", "2", refused=2)},
    ),
    row(
        "a turn interrupted, with its calls",
        TURN,
        CALL,
        TurnInterrupted(conversation="c", turn="t1"),
        conversations={"c": Conversation(last_turn="t1", turns=1, interrupted_turns=1, last="interrupted", cuts=1)},
    ),
    row(
        "a turn that was cancelled did not come to its end either",
        TURN,
        TurnEnded(conversation="c", turn="t1", stop_reason="cancelled"),
        conversations={"c": Conversation(last_turn="t1", turns=1, interrupted_turns=1, last="cancelled", cuts=1)},
    ),
    row(
        "a turn that came to its end is the end of a row of those that did not",
        TURN,
        TurnInterrupted(conversation="c", turn="t1"),
        TURN,
        TurnEnded(conversation="c", turn="t1", stop_reason="end_turn"),
        conversations={"c": Conversation(last_turn="t1", turns=2, interrupted_turns=1, last="end_turn", briefed=True)},
    ),
    row(
        "a run that is resumed begins to count anew",
        TURN,
        TurnInterrupted(conversation="c", turn="t1"),
        RunResumed(summary="on"),
        conversations={"c": Conversation(last_turn="t1", turns=1, interrupted_turns=1, last="interrupted")},
    ),
    row(
        "an agent that is there",
        ConversationAttached(conversation="c", rung="fresh", pid=7, start_time=8, boot_id="b"),
        conversations={"c": Conversation(started=True, pid=7, start_time=8, boot_id="b")},
    ),
    row(
        "an agent that was there",
        ConversationAttached(conversation="c", rung="fresh", pid=7, start_time=8, boot_id="b"),
        ConversationDetached(conversation="c"),
        conversations={"c": Conversation(started=True)},
    ),
    row(
        "a session that has only been told of the past",
        ConversationAttached(conversation="c", rung="history injection"),
        conversations={"c": Conversation(started=True, blank=True)},
    ),
    row(
        "a session that refused what it was told of the past",
        ConversationAttached(conversation="c", rung="history injection"),
        TURN,
        TurnEnded(conversation="c", turn="t1", stop_reason="refused"),
        conversations={
            "c": Conversation(
                last_turn="t1", started=True, turns=1, interrupted_turns=1, cuts=1, last="refused", blank=True
            )
        },
    ),
    row(
        "a session that was told of the past and ended a turn",
        ConversationAttached(conversation="c", rung="history injection"),
        TURN,
        TurnEnded(conversation="c", turn="t1"),
        conversations={"c": Conversation(last_turn="t1", started=True, turns=1, briefed=True)},
    ),
    row(
        "the agent's own commands, the newest list",
        CommandsListed(conversation="c", commands={"a": "one", "b": ""}),
        CommandsListed(conversation="c", commands={"b": "two"}),
        conversations={"c": Conversation(commands={"b": "two"})},
    ),
    row("a mode", ModeChanged(conversation="c", mode="plan"), conversations={"c": Conversation(mode="plan")}),
    row(
        "a question is open until it is answered",
        TURN,
        ASKED,
        permissions={"p": PermissionRequest("c", "Edit", "edit", ["a"], "[]", "f", "t1")},
    ),
    row("an answer closes the question", TURN, ASKED, ANSWERED, permissions={}),
    row(
        "why a worker was denied is a message to its task",
        PlanCreated(tasks=[PlannedTask(id="2")]),
        WORKER,
        ASKED,
        DENIED,
        messages={"denial-p": OpenMessage("denial", "user", WHY, "2")},
    ),
    row(
        "until the task is over",
        PlanCreated(tasks=[PlannedTask(id="2")]),
        WORKER,
        ASKED,
        DENIED,
        TaskCompleted(task_id="2"),
        messages={},
    ),
    row(
        "why another agent was denied is a message to it alone",
        OPENED,
        ASKED,
        DENIED,
        messages={"denial-p": OpenMessage("denial", "user", WHY, None, "c")},
    ),
    row(
        "until its conversation is over",
        *(OPENED, ASKED, DENIED, ConversationStateChanged(conversation="c", state="completed")),
        messages={},
    ),
    row(
        "an answer is kept while its turn goes on",
        TURN,
        ASKED,
        ANSWERED,
        conversations={"c": Conversation(last_turn="t1", turns=1, turn=OpenTurn("t1", started=TS, answers={"f": "y"}))},
    ),
    row(
        "an answer after which nothing is known of the agent waits for it to ask again",
        TURN,
        ASKED,
        ANSWERED,
        ToolReturned(conversation="c", call="k1", status="interrupted"),
        TurnInterrupted(conversation="c", turn="t1"),
        conversations={
            "c": Conversation(
                last_turn="t1", turns=1, interrupted_turns=1, last="interrupted", cuts=1, granted={"f": "y"}
            )
        },
    ),
    row(
        "an answer after which the agent went on is used up",
        TURN,
        ASKED,
        ANSWERED,
        CALL,
        TurnInterrupted(conversation="c", turn="t1"),
        conversations={"c": Conversation(last_turn="t1", turns=1, interrupted_turns=1, last="interrupted", cuts=1)},
    ),
    row(
        "an answer in a turn that ended is used up",
        TURN,
        ASKED,
        ANSWERED,
        TurnEnded(conversation="c", turn="t1"),
        TURN,
        TurnInterrupted(conversation="c", turn="t1"),
        conversations={
            "c": Conversation(last_turn="t1", turns=2, interrupted_turns=1, last="interrupted", cuts=1, briefed=True)
        },
    ),
    row(
        "an answer for a turn that is over waits for the agent to ask again",
        TURN,
        ASKED,
        TurnInterrupted(conversation="c", turn="t1"),
        ANSWERED,
        conversations={
            "c": Conversation(
                last_turn="t1", turns=1, interrupted_turns=1, last="interrupted", cuts=1, granted={"f": "y"}
            )
        },
    ),
    row(
        "asked again, it is used up",
        TURN,
        ASKED,
        TurnInterrupted(conversation="c", turn="t1"),
        ANSWERED,
        ASKED,
        conversations={"c": Conversation(last_turn="t1", turns=1, interrupted_turns=1, last="interrupted", cuts=1)},
    ),
    row(
        "an answer that nobody asked for again is dropped when a turn ends",
        TURN,
        ASKED,
        TurnInterrupted(conversation="c", turn="t1"),
        ANSWERED,
        TURN,
        TurnEnded(conversation="c", turn="t1", stop_reason="end_turn"),
        conversations={"c": Conversation(last_turn="t1", turns=2, interrupted_turns=1, last="end_turn", briefed=True)},
    ),
    row(
        "a call in flight",
        TURN,
        CALL,
        conversations={
            "c": Conversation(last_turn="t1", turns=1, turn=OpenTurn("t1", started=TS, calls={"k1": "edit"}))
        },
    ),
    row(
        "a call returned",
        TURN,
        CALL,
        ToolReturned(conversation="c", call="k1"),
        conversations={"c": Conversation(last_turn="t1", turns=1, turn=OpenTurn("t1", started=TS))},
    ),
    row("a call outside any turn", CALL, conversations={"c": Conversation()}),
    row("a return outside any turn", ToolReturned(conversation="c", call="k1"), conversations={"c": Conversation()}),
)


@pytest.mark.parametrize("case", TABLE, ids=[case.fact for case in TABLE])
def test_fact(case: Row) -> None:
    assert getattr(fold_once(session_log(*case.events)).state, case.field) == case.expected
