"""What each event of a chat does to the state."""

import pytest
from msgspec import Raw

from holdfast.core.events.chat import (
    IterationAccepted,
    MessageDeleted,
    MessageEdited,
    OptionChosen,
    RuleAdded,
    RuleRevoked,
    TaskAccepted,
    TaskStateChanged,
)
from holdfast.core.events.conversation import ConversationOpened, TurnEnded, TurnStarted
from holdfast.core.events.inbox import InboxConsumed
from holdfast.core.events.task import TaskStarted
from holdfast.core.state import Conversation, OpenMessage, PermissionRule
from holdfast.core.task_state import Task, TaskStage, TaskStatus
from tests.core.logs import Row, fold_once, row, session_log

OPENED = ConversationOpened(conversation="c", agent="claude", role="peer", task="2")
STARTED = TaskStarted(task_id=2)
SAID = InboxConsumed(
    cursor=9, message="m", kind="user", sender="ann", body=Raw(b'{"text":"go","task":null,"conversation":"c"}')
)
RULE = RuleAdded(rule="r", kind="execute", command="npm test", by="ann")

TABLE = (
    row(
        "the task waits for its user",
        STARTED,
        TaskStateChanged(task_id=2, state="review"),
        tasks={"2": Task(TaskStatus.REVIEW, iteration=1)},
    ),
    row(
        "a state of a newer version changes nothing",
        STARTED,
        TaskStateChanged(task_id=2, state="dreaming"),
        tasks={"2": Task(TaskStatus.IN_PROGRESS, iteration=1)},
    ),
    row(
        "its user accepted the work",
        STARTED,
        TaskAccepted(task_id=2, iteration=1, finish=True),
        tasks={"2": Task(TaskStatus.IN_PROGRESS, stage=TaskStage.VALIDATE, iteration=1, finishing=True)},
    ),
    row(
        "the next iteration began",
        STARTED,
        IterationAccepted(task_id=2, iteration=1, commit="c0ffee"),
        tasks={"2": Task(TaskStatus.IN_PROGRESS, iteration=2, accepted=1)},
    ),
    row(
        "a mode was chosen",
        OPENED,
        OptionChosen(conversation="c", option="mode", value="plan"),
        conversations={"c": Conversation("claude", "peer", "2", options={"mode": "plan"})},
    ),
    row(
        "the agent chooses again",
        OPENED,
        OptionChosen(conversation="c", option="mode", value="plan"),
        OptionChosen(conversation="c", option="mode"),
        conversations={"c": Conversation("claude", "peer", "2")},
    ),
    row("a call is always allowed", RULE, rules={"r": PermissionRule("execute", "npm test", (), "ann")}),
    row("a rule was revoked", RULE, RuleRevoked(rule="r"), rules={}),
    row(
        "a message was changed",
        SAID,
        MessageEdited(message="m", text="stay"),
        messages={"m": OpenMessage("user", "ann", '{"text":"stay","task":null,"conversation":"c"}', None, "c")},
    ),
    row("a message was taken back", SAID, MessageDeleted(message="m"), messages={}),
)


@pytest.mark.parametrize("case", TABLE, ids=[case.fact for case in TABLE])
def test_fact(case: Row) -> None:
    assert getattr(fold_once(session_log(*case.events)).state, case.field) == case.expected


def test_turn_that_its_user_cancelled_is_not_interrupted() -> None:
    turn = TurnStarted(conversation="c", turn="t", messages=["m"])
    ended = TurnEnded(conversation="c", turn="t", stop_reason="cancelled", by="ann")
    found = fold_once(session_log(OPENED, SAID, turn, ended)).state.conversations["c"]
    assert (found.last, found.unheard, found.interrupted_turns) == ("cancelled_by_person", {}, 0)


def test_turn_that_a_stop_cancelled_keeps_its_messages() -> None:
    turn = TurnStarted(conversation="c", turn="t", messages=["m"])
    ended = TurnEnded(conversation="c", turn="t", stop_reason="cancelled")
    found = fold_once(session_log(OPENED, SAID, turn, ended)).state.conversations["c"]
    assert (found.last, [*found.unheard], found.interrupted_turns) == ("cancelled", ["m"], 1)
