"""What a chat does next, as a table."""

from typing import Any

import pytest

from holdfast.core.decide.actions import ActionKey, AgentPause, RuntimeFacts
from holdfast.core.decide.chat import decide_chat, has_undone_request, has_work_to_do, next_prompt
from holdfast.core.decide.phases import decide
from holdfast.core.messages.schema import MessageKind
from holdfast.core.provider_limit import LimitKind
from holdfast.core.state import Conversation, Effect, EffectStatus, OpenMessage, Rewind, RunState
from holdfast.core.task_state import Task, TaskStage, TaskStatus
from holdfast.core.work.workflow import Bounds, Workflow
from tests.core.situations import describe, situation

BOUNDS = Bounds(idle=60.0)
SAID = OpenMessage(MessageKind.USER)
ACCEPT = OpenMessage(MessageKind.ACCEPT)


def chat(task: Task | None = None, *, worker: Conversation | None = None, **more: Any) -> RunState:
    """A chat with one task, in review after one turn."""
    talking = worker or Conversation("a", "worker", "T-1", state="waiting_for_input", turns=1, last="end_turn")
    own = task or Task(TaskStatus.REVIEW, worker="c", iteration=1)
    return situation({"T-1": own}, **{"workflow": {"chat": True}, "conversations": {"c": talking}, **more})


def stage(of: TaskStage, **more: Any) -> RunState:
    return chat(Task(TaskStatus.IN_PROGRESS, worker="c", stage=of, **more))


INTERRUPTED = Conversation("a", "worker", "T-1", state="waiting_for_input", turns=1, last="interrupted", cuts=1)
LIMITED = Conversation("a", "worker", "T-1", state="waiting_for_input", turns=1, last="refused", limited=True)
NEVER_PROMPTED = Conversation("a", "worker", "T-1")
PEERS = {
    "c": Conversation("a", "worker", "T-1", state="waiting_for_input", turns=1),
    "p": Conversation("b", "peer", "T-1"),
}


@pytest.mark.parametrize(
    ("fact", "state", "expected"),
    [
        ("it is new", situation({"T-1": Task()}), "start T-1"),
        ("its first message was never sent", chat(worker=NEVER_PROMPTED), "converse T-1 (begin)"),
        ("it waits for its user", chat(), ""),
        ("its user said something", chat(messages={"m": SAID}), "converse T-1 (message)"),
        ("an interrupted turn waits for its user", chat(worker=INTERRUPTED), ""),
        ("a message continues it", chat(worker=INTERRUPTED, messages={"m": SAID}), "converse T-1 (message)"),
        ("a turn that met a limit is continued", chat(worker=LIMITED), "converse T-1 (go on)"),
        ("also when its user said more", chat(worker=LIMITED, messages={"m": SAID}), "converse T-1 (message)"),
        ("its user accepts what there is", chat(worker=LIMITED, messages={"m": ACCEPT}), "accept T-1"),
        ("its session died before the task was in review", stage(TaskStage.WORK), "await user T-1"),
        ("its user accepts", chat(messages={"m": ACCEPT}), "accept T-1"),
        ("what was said before that comes first", chat(messages={"m": SAID, "n": ACCEPT}), "converse T-1 (message)"),
        ("what was said after that waits", chat(messages={"m": ACCEPT, "n": SAID}), "accept T-1"),
        ("accepted work is checked", stage(TaskStage.VALIDATE), "validate T-1"),
        ("checked work is committed", stage(TaskStage.EVALUATE), "commit T-1"),
        ("committed work is merged", stage(TaskStage.MERGE), "merge T-1"),
        ("merged work ends the iteration", stage(TaskStage.COMPLETE), "next iteration T-1"),
        ("or the chat", stage(TaskStage.COMPLETE, finishing=True), "complete T-1"),
        (
            "an agent is to be started",
            chat(messages={"m": OpenMessage(MessageKind.RESUME_CONVERSATION, conversation="c")}),
            "resume agent T-1",
        ),
        (
            "a finished chat ends its conversations",
            chat(Task(TaskStatus.COMPLETE, worker="c")),
            "end conversations T-1",
        ),
        (
            "a finished chat gets a message",
            chat(Task(TaskStatus.COMPLETE), conversations={}, messages={"m": SAID}),
            "reopen T-1 (there is a message for it)",
        ),
        ("it is over", chat(Task(TaskStatus.COMPLETE), conversations={}), "stop (all_done)"),
        (
            "a message for another conversation in the same worktree",
            chat(conversations=PEERS, messages={"m": OpenMessage(MessageKind.USER, conversation="p")}),
            "converse T-1 (message)",
        ),
        (
            "nobody knows whether its work was merged",
            chat(effects={"e": Effect("merge", "T-1", status=EffectStatus.UNKNOWN)}),
            "stop (waiting)",
        ),
    ],
)
def test_next_step(fact: str, state: RunState, expected: str) -> None:
    del fact
    assert describe(decide_chat(state, BOUNDS)) == expected


def test_chat_without_anything_to_do_ends_after_its_idle_time() -> None:
    assert describe(decide_chat(chat(), BOUNDS, RuntimeFacts(idle_s=59.0))) == ""
    assert describe(decide_chat(chat(), BOUNDS, RuntimeFacts(idle_s=60.0))) == "stop (idle)"


def test_one_agent_works_in_a_worktree_at_a_time() -> None:
    busy = RuntimeFacts(frozenset([ActionKey("task", "T-1")]), idle_s=99.0)
    assert decide_chat(chat(messages={"m": SAID}), BOUNDS, busy) == []


def test_chat_whose_agent_cannot_be_started_is_parked() -> None:
    stuck = RuntimeFacts(stuck=frozenset([ActionKey("task", "T-1")]))
    assert describe(decide_chat(chat(messages={"m": SAID}), BOUNDS, stuck)) == "stop (parked)"


@pytest.mark.parametrize("state", [chat(worker=LIMITED), chat(messages={"m": SAID})])
def test_chat_whose_agent_is_paused_waits_or_ends_until_then(state: RunState) -> None:
    near = RuntimeFacts(idle_s=99.0, paused={"a": AgentPause(LimitKind.QUOTA, 60.0, parks=False)})
    assert describe(decide_chat(state, BOUNDS, near)) == ""
    far = RuntimeFacts(paused={"a": AgentPause(LimitKind.QUOTA, 7200.0, parks=True)})
    assert describe(decide_chat(state, BOUNDS, far)) == "stop (quota)"


def test_chat_whose_agent_is_paused_is_idle_when_there_is_nothing_to_send() -> None:
    paused = RuntimeFacts(idle_s=99.0, paused={"a": AgentPause(LimitKind.QUOTA, 7200.0, parks=True)})
    assert describe(decide_chat(chat(), BOUNDS, paused)) == "stop (idle)"


def test_chat_beyond_its_limit_stops() -> None:
    state = chat(messages={"m": SAID})
    state.budget.input_tokens = 7
    assert describe(decide_chat(state, Bounds(tokens=5))) == "stop (token_cap)"


def test_prompt_delivers_what_came_before_the_work_is_accepted() -> None:
    other = OpenMessage(MessageKind.USER, conversation="p")
    state = chat(conversations=PEERS, messages={"m": SAID, "n": other, "o": SAID, "p": ACCEPT, "q": SAID})
    assert next_prompt(state, "T-1", "c") == ["m", "o"]
    assert next_prompt(state, "T-1", "p") == ["n"]


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (chat(), False),
        (chat(worker=INTERRUPTED), False),
        (chat(worker=LIMITED), True),
        (chat(messages={"m": SAID}), True),
        (stage(TaskStage.MERGE), True),
        (chat(Task(TaskStatus.COMPLETE), conversations={}), False),
    ],
)
def test_only_a_chat_with_work_is_resumed_unattended(state: RunState, expected: bool) -> None:
    assert has_work_to_do(state) is expected


@pytest.mark.parametrize(
    ("fact", "state", "expected"),
    [
        ("it waits for its user", chat(), False),
        ("its first message was never sent", situation({"T-1": Task()}), True),
        ("its first turn was rewound", situation({"T-1": Task()}, rewinds=[Rewind(9, 5)]), False),
        (
            "its user said something after that",
            situation({"T-1": Task()}, rewinds=[Rewind(9, 5)], messages={"m": SAID}),
            True,
        ),
        ("its runner died in a turn", stage(TaskStage.WORK), False),
        ("its user said something", chat(messages={"m": SAID}), True),
        ("its user accepted the work", chat(messages={"m": ACCEPT}), True),
        ("accepted work is not merged", stage(TaskStage.MERGE), True),
        (
            "nobody knows whether its work was merged",
            chat(messages={"m": SAID}, effects={"e": Effect("merge", "T-1", status=EffectStatus.UNKNOWN)}),
            False,
        ),
        ("it is over", chat(Task(TaskStatus.COMPLETE), conversations={}), False),
    ],
)
def test_requests_that_are_not_done(fact: str, state: RunState, expected: bool) -> None:
    assert has_undone_request(state) is expected, fact


def test_workflow_decides_whether_it_is_a_chat() -> None:
    flow = Workflow(name="own", about="mine", chat=True)
    assert describe(decide(chat(), flow, Bounds())) == "stop (idle)"
