"""An inbox of any bytes, taken in and acted on as a run does: by its owner, from its file, in each of a few scenes.

Every message is consumed once, and then acted on, passed over in words, or left for an agent. What is no message of
its kind is not acted on.
"""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

from msgspec import Raw

from holdfast.core.conversation.permission import PermissionConfig
from holdfast.core.decide.phases import decide
from holdfast.core.events import Event
from holdfast.core.events.conversation import ConversationOpened, PermissionRequested
from holdfast.core.events.inbox import InboxConsumed, InboxHandled, InboxRejected
from holdfast.core.events.issue import WarningLogged
from holdfast.core.events.phase import ApprovalRequested, ResearchRequested
from holdfast.core.events.session import SessionStart
from holdfast.core.events.task import TaskStarted, WaveStarted
from holdfast.core.events.work import CaseSubmitted, ValidationFinished
from holdfast.core.messages.schema import PROMPT_KINDS, MessageKind, is_report
from holdfast.core.messages.signals import ROLES
from holdfast.core.summary.needs import needs_of
from holdfast.engine.agents.permissions import PermissionBroker
from holdfast.engine.inbox.handle import InboxHandler
from holdfast.store.base import START, Batch, InboxEntry
from holdfast.store.files.layout import INBOX, run_folder
from holdfast.store.files.store import FileStore
from holdfast.store.inbox_lines import parse_messages
from holdfast.store.run import open_run
from tests.core.phase_logs import (
    BEGUN,
    BOUNDS,
    LEFT_OUT,
    PIPELINE,
    REVIEWED,
    REVIEWERS,
    completed,
    conversation_events,
    delivered,
    document,
    plan,
    started,
    through,
    turn,
)
from tests.support.events import events_in
from tests.support.memory import in_memory
from tests.support.wait import PATIENCE

_OPTIONS = Raw(b'[{"id":"yes","name":"Yes","kind":"allow_once"},{"id":"no","name":"No","kind":"reject_once"}]')
_PLANNED = (plan("A", "B"), delivered("planning", "submit_plan"), *completed("planning"))


def _at_work(task: str, role: str = "worker") -> tuple[Event, ...]:
    name = f"c-{role}-{task}"
    return (ConversationOpened(conversation=name, agent="a", role=role, task=task), *turn(name, "end_turn"))


SCENES: dict[str, tuple[Event, ...]] = {  # each with somebody who is waited for
    "a wish to be approved": (
        started("product_management"),
        *conversation_events("product_management", "product_manager", "end_turn"),
        document("product_management"),
        delivered("product_management"),
        ApprovalRequested(phase="product_management", round=1),
    ),
    "a document": (*LEFT_OUT, started("architecting"), *conversation_events("architecting", "architect", "end_turn")),
    "a plan, and an answer": (
        *LEFT_OUT,
        *through("architecting"),
        started("planning"),
        *conversation_events("planning", "planner", "end_turn"),
        PermissionRequested(conversation="c-planner", request="p1", title="look", options=_OPTIONS),
        ResearchRequested(research="research-1", conversation="c-planner", topic="t", question="q"),
        *conversation_events("research-1", "researcher", "end_turn"),
    ),
    "tasks": (
        *LEFT_OUT,
        *through("architecting"),
        started("planning"),
        *_PLANNED,
        *completed("designing", "skipped", 0),
        started("implementing"),
        WaveStarted(wave=1),
        *(TaskStarted(task_id=task) for task in "AB"),
        *(event for task in "AB" for event in _at_work(task)),
        CaseSubmitted(task_id="B", iteration=1, case=Raw(b"{}")),
        ValidationFinished(task_id="B", passed=True),
        *_at_work("B", "evaluator"),
    ),
    "a review": (*REVIEWED, *conversation_events("reviewing", REVIEWERS[0], "end_turn")),
}

_HANDED_IN = {"artifact.stored", "preferences.proposed", "phase.delivered"}
MEANINGS = {  # what may come of a message, by its kind
    MessageKind.ANSWER: {"permission.answered", "approval.answered", "phase.failed", "change.requested"},
    MessageKind.CHANGE: {"change.requested"},
    MessageKind.STOP: set[str](),
    MessageKind.REFUSED_REPORT: {"report.refused"},
    "signal.submit_case": {"case.submitted", "learnings.proposed"},
    "signal.submit_verdict": {"verdict.given"},
    "signal.submit_plan": {"plan.created", *_HANDED_IN},
    "signal.submit_document": _HANDED_IN,
    "signal.submit_done": {"case.submitted", *_HANDED_IN},
    "signal.submit_review": {"review.given", "preferences.proposed"},
    "signal.submit_tasks": set[str](),  # in a run that is no interview
    "signal.submit_research": {"research.answered"},
    "signal.request_research": {"research.requested"},
    "signal.report_blocker": {"blocker.reported"},
    "signal.report_progress": {"progress.reported"},
}
assert {f"signal.{tool.tool}" for tools in ROLES.values() for tool in tools} <= MEANINGS.keys()

_SHAPES: dict[str, dict[str, type]] = {  # what a body must have at least
    **{kind: {"text": str} for kind in (*PROMPT_KINDS, MessageKind.CHANGE)},
    MessageKind.ANSWER: {"request": str, "allow": bool},
    MessageKind.STOP: {"epoch": int},
    MessageKind.REFUSED_REPORT: {"role": str, "tool": str, "error": str, "raw": str},
}
_REPORT: dict[str, type] = {"role": str, "signal": dict}


def receive(data: bytes) -> set[str]:
    """The types of all events that came of it, in any scene."""
    whole = data if data.endswith(b"\n") else data + b"\n"
    with in_memory() as home:
        return asyncio.run(asyncio.wait_for(_in_all_scenes(home, whole), PATIENCE))


async def _in_all_scenes(home: str, inbox: bytes) -> set[str]:
    store, meant = FileStore(home), set[str]()
    for number, scene in enumerate(SCENES.values()):
        run_id = f"run-{number}"
        await store.create(run_id)
        with open(os.path.join(run_folder(home, run_id), INBOX), "wb") as file:
            file.write(inbox)
        meant |= {event.type for event in await _in_scene(store, run_id, inbox, scene)}
    return meant


async def _in_scene(store: FileStore, run_id: str, inbox: bytes, scene: Sequence[Event]) -> list[Event]:
    stopped: list[str] = []
    async with open_run(store, run_id) as run:
        await run.begin_session(SessionStart(), *BEGUN[1:], *scene)
        receiver, before = (
            InboxHandler(run, PermissionBroker(run, PermissionConfig()), PIPELINE, stopped.append),
            run.head.position,
        )
        await run.consume_inbox()
        decide(run.state, PIPELINE, BOUNDS)  # as one does that died before it acted on them
        await receiver.receive()
        await receiver.receive()  # whoever words were left for may be gone by what came after them
        after, epoch, left = run.head.position, run.epoch, dict(run.state.messages)
        await receiver.receive()
        assert run.head.position == after, "what was done is done again"
        list(needs_of(run.state))
        decide(run.state, PIPELINE, BOUNDS)
    done = [event async for event in _written(store, run_id, before)]
    received = list(parse_messages(Batch(START, inbox), set(), set()))
    _must_be_consumed_once(received, done)
    handled = dict(_handled(done))
    for one in received:
        if one.message is not None:
            key, kind, body = one.message.id, one.message.kind, _read(one.message.body)
            assert (key in handled) != (key in left), f"{key} was lost, or is done and left"
            if key in left:
                assert kind in PROMPT_KINDS, f"{key} waits for nobody"
                assert _has_shape(kind, body), f"{key} says nothing"
            else:
                _must_be_meant(kind, body, handled[key])
    asked = {body["epoch"] for body in _bodies(received, MessageKind.STOP)}
    assert not stopped or epoch in asked, "nobody asked it to stop"
    await _must_be_over(store, run_id, left)
    return [event for events in handled.values() for event in events]


async def _written(store: FileStore, run_id: str, after: int) -> AsyncIterator[Event]:
    async for batch in store.log(run_id).read(after):
        for event in events_in(batch.data):
            yield event


def _must_be_consumed_once(received: Sequence[InboxEntry], done: Sequence[Event]) -> None:
    """In the order in which it came; and what is no message is passed over, in words."""
    taken = [event for event in done if isinstance(event, InboxConsumed | InboxRejected)]
    assert [event.cursor for event in taken] == [one.cursor for one in received]
    for one, event in zip(received, taken, strict=True):
        if one.message is None:
            assert isinstance(event, InboxRejected)
            assert event.reason
        else:
            assert isinstance(event, InboxConsumed)
            assert (event.message, event.kind) == (one.message.id, one.message.kind)


def _handled(done: Sequence[Event]) -> Iterator[tuple[str, list[Event]]]:
    """What was done about each message: it comes before that it is handled."""
    events: list[Event] = []
    seen = set[str]()
    for event in done:
        if isinstance(event, InboxHandled):
            assert event.message not in seen, "handled twice"
            seen.add(event.message)
            yield event.message, events
            events = []
        elif not isinstance(event, InboxConsumed | InboxRejected):
            events.append(event)
    assert not events, "something was done for no message"


def _must_be_meant(kind: str, body: Any, events: Sequence[Event]) -> None:
    if not _has_shape(kind, body):
        (only,) = events
        assert isinstance(only, WarningLogged)
        assert only.message is not None
        assert only.message.startswith(f"a message of kind {kind} was ignored: ")
    else:
        assert events or kind in (
            MessageKind.STOP,
            "signal.request_research",
        )  # a question that was asked before is one question
        assert {event.type for event in events} <= {WarningLogged.type, *MEANINGS.get(kind, ())}


def _has_shape(kind: str, body: Any) -> bool:
    """Not all that it takes to be a message of that kind, but by hand: nothing else can be one."""
    shape = _REPORT if kind in MEANINGS and is_report(kind) else _SHAPES.get(kind)
    return shape is not None and isinstance(body, dict) and all(type(body.get(name)) is shape[name] for name in shape)


def _read(body: Raw) -> Any:
    try:
        return json.loads(bytes(body))
    except (ValueError, RecursionError):
        return None


def _bodies(received: Sequence[InboxEntry], kind: str) -> Iterator[dict[str, Any]]:
    for one in received:
        if one.message is not None and one.message.kind == kind and _has_shape(kind, body := _read(one.message.body)):
            yield body


async def _must_be_over(store: FileStore, run_id: str, left: dict[str, Any]) -> None:
    """For whoever comes next: nothing is taken in, or acted on, once more."""
    async with open_run(store, run_id) as run:
        assert run.state.messages == left
        await run.begin_session(SessionStart())
        at = run.head.position
        await InboxHandler(run, PermissionBroker(run, PermissionConfig()), PIPELINE, lambda _: None).receive()
        assert run.head.position == at
