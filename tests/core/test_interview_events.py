"""What the events of an interview do to the state."""

import pytest

from holdfast.core.events.conversation import ConversationOpened, TurnEnded, TurnStarted
from holdfast.core.events.plan import PlanAccepted, PlanProposed, ProposedTask, RunPrepared
from holdfast.core.interview import Interview
from tests.core.logs import Row, fold_once, row, session_log

TASK = ProposedTask(id="a", title="A")
PLAN = PlanProposed(revision=1, overview="o", tasks=[TASK], seeds=["t.py"])
CHANGED = PlanProposed(revision=2, overview="o", tasks=[TASK], by="ann")
ACCEPTED = PlanAccepted(revision=1, run_id="r", snapshot="s")
OPENED = ConversationOpened(conversation="c", role="worker")

TABLE = (
    row("a plan", PLAN, interview=Interview(1, "o", [TASK], ["t.py"])),
    row("a change of the user's", PLAN, CHANGED, interview=Interview(2, "o", [TASK], by="ann", unheard=True)),
    row(
        "a change that the interviewer was told of",
        OPENED,
        CHANGED,
        TurnStarted(conversation="c", turn="t", notices=["plan 2"]),
        TurnEnded(conversation="c", turn="t", stop_reason="end_turn"),
        interview=Interview(2, "o", [TASK], by="ann"),
    ),
    row("an accepted plan", PLAN, ACCEPTED, interview=Interview(1, "o", [TASK], ["t.py"], run_id="r", snapshot="s")),
    row(
        "a prepared run",
        PLAN,
        ACCEPTED,
        RunPrepared(run_id="r"),
        interview=Interview(1, "o", [TASK], ["t.py"], run_id="r", snapshot="s", prepared=True),
    ),
    row(
        "a run that could not be prepared: the plan waits for its user",
        PLAN,
        ACCEPTED,
        RunPrepared(run_id="r", problem="no"),
        interview=Interview(1, "o", [TASK], ["t.py"]),
    ),
)


@pytest.mark.parametrize("case", TABLE, ids=[case.fact for case in TABLE])
def test_fact(case: Row) -> None:
    assert getattr(fold_once(session_log(*case.events)).state, case.field) == case.expected
