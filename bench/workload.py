"""A synthetic run: tasks in waves, each with a branch, a conversation and turns. Most events are messages.

The same numbers give the same events. The number of tasks is independent of the number of events, because the size of
the folded state depends on the first and must not depend on the second.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from holdfast.core.events import Draft, Event
from holdfast.core.events.agent import AgentCompleted, AgentSpawned
from holdfast.core.events.branch import BranchCreated, BranchMerged
from holdfast.core.events.budget import UsageRecorded
from holdfast.core.events.checkpoint import Checkpoint
from holdfast.core.events.conversation import (
    ConversationOpened,
    ConversationStateChanged,
    ConversationTokenStored,
    MessageRecorded,
    ToolCalled,
    ToolReturned,
    TurnEnded,
    TurnStarted,
)
from holdfast.core.events.effect import EffectHappened, EffectIntended
from holdfast.core.events.issue import ErrorEncountered, WarningLogged
from holdfast.core.events.plan import Dependency, PlanCreated, PlannedTask, PlannedWave
from holdfast.core.events.task import TaskCompleted, TaskStarted, WaveCompleted, WaveStarted

Group = list[Draft]  # the events of one `append` call

WAVE = 5  # tasks
_TEXT = (
    "The failing test expects the refresh token to be rotated on every use, but the handler returns the old one. "
    "I will read the session store first, then change `rotate()` so that it writes the new token before it answers. "
    'There is a second caller in "api/login.py", which catches KeyError and hides the fault; it needs the same change. '
)
_TOOLS = ("read_file", "edit_file", "run_command", "search", "list_files")


@dataclass(frozen=True)
class Size:
    tasks: int
    events: int


def story(size: Size) -> Iterator[Group]:
    """Yield about `size.events` events after `run.created`."""
    chance = random.Random(size.tasks)
    per_task = size.events // size.tasks
    yield [Draft(_plan(size.tasks))]
    for number in range(size.tasks):
        if number % WAVE == 0:
            yield [Draft(WaveStarted(wave=number // WAVE))]
        yield from _task(number, per_task, chance)
        if number % WAVE == WAVE - 1:
            wave = number // WAVE
            yield [
                Draft(WaveCompleted(wave=wave)),
                Draft(
                    Checkpoint(
                        label=f"wave-{wave}-complete",
                        branch="holdfast/auth-system-k7m2pq/main",
                        commit=f"{chance.getrandbits(160):040x}",
                        plan_step=f"wave-{wave + 1}-start",
                    )
                ),
            ]


def _plan(tasks: int) -> PlanCreated:
    return PlanCreated(
        tasks=[PlannedTask(id=f"task-{n}", summary=_TEXT[n % 50 : n % 50 + 60]) for n in range(tasks)],
        waves=[
            PlannedWave(wave=n // WAVE, task_ids=[f"task-{m}" for m in range(n, min(n + WAVE, tasks))])
            for n in range(0, tasks, WAVE)
        ],
        dependencies=[Dependency(task_id=f"task-{n}", blocked_by=f"task-{n - WAVE}") for n in range(WAVE, tasks)],
    )


def _task(number: int, events: int, chance: random.Random) -> Iterator[Group]:
    task, agent, conversation = f"task-{number}", f"worker-{number}", f"conv-{number}"
    branch = f"holdfast/auth-system-k7m2pq/{task}"

    def by_agent(*events_: Event) -> Group:
        return [Draft(event, agent) for event in events_]

    yield from _effect(f"worktree-{number}", "worktree.add", task, branch)
    yield [
        Draft(BranchCreated(name=branch, base="holdfast/auth-system-k7m2pq/main", task=task)),
        Draft(TaskStarted(task_id=task, summary=_TEXT[:60], agent=agent, files=["src/auth.py", "src/session.py"])),
        Draft(AgentSpawned(name=agent, role="worker", task=task, branch=branch, pid=4000 + number)),
        Draft(ConversationOpened(conversation=conversation, agent=agent, role="worker", task=task)),
    ]
    yield by_agent(ConversationTokenStored(conversation=conversation, token=f"{chance.getrandbits(128):032x}"))
    yield by_agent(ConversationStateChanged(conversation=conversation, state="running"))
    left, turn = events - 16, 0
    while left > 0:
        turn += 1
        for group in _turn(conversation, f"{conversation}-t{turn}", min(left, 70), chance):
            yield by_agent(*group)
            left -= len(group)
    yield from _effect(f"commit-{number}", "commit", task, branch)
    yield [
        Draft(TaskCompleted(task_id=task, files_changed=["src/auth.py", "src/session.py", "tests/test_auth.py"])),
        Draft(AgentCompleted(name=agent, result="done")),
        Draft(BranchMerged(name=branch, target="holdfast/auth-system-k7m2pq/main", conflicts=False)),
    ]


def _effect(effect: str, kind: str, task: str, branch: str) -> Iterator[Group]:
    arguments = {"branch": branch, "path": f"tasks/{task}"}
    yield [Draft(EffectIntended(effect=effect, kind=kind, task=task, arguments=arguments))]
    yield [Draft(EffectHappened(effect=effect, result={"ok": True}))]


def _turn(conversation: str, turn: str, events: int, chance: random.Random) -> Iterator[list[Event]]:
    yield [TurnStarted(conversation=conversation, turn=turn), _message(conversation, turn, "user", chance)]
    for call in range(max(1, (events - 4) // 6)):
        yield [_message(conversation, turn, "thought", chance)]
        for _ in range(3):
            yield [_message(conversation, turn, "agent", chance)]
        yield from _tool(conversation, turn, f"{turn}-c{call}", chance)
        if chance.random() < 0.01:
            yield [WarningLogged(message=_TEXT[:80])]
        elif chance.random() < 0.005:
            yield [ErrorEncountered(error=_TEXT[:90], file="src/auth.py", line=call)]
    yield [
        UsageRecorded(input_tokens=9_000, output_tokens=700, dollars=0.04, conversation=conversation),
        TurnEnded(conversation=conversation, turn=turn, stop_reason="end_turn"),
    ]


def _message(conversation: str, turn: str, speaker: str, chance: random.Random) -> MessageRecorded:
    start, length = chance.randrange(60), chance.randrange(10, 200)
    return MessageRecorded(
        conversation=conversation,
        speaker=speaker,
        text=_TEXT[start : start + length],
        turn=turn,
    )


def _tool(conversation: str, turn: str, call: str, chance: random.Random) -> Iterator[list[Event]]:
    tool = chance.choice(_TOOLS)
    tool_input = msgspec.json.encode({"path": "src/session.py", "line": chance.randrange(900), "limit": 80})
    length = chance.randrange(20, 400)
    output = msgspec.json.encode({"content": _TEXT[:length], "lines": length})
    yield [ToolCalled(conversation=conversation, call=call, tool=tool, turn=turn, input=msgspec.Raw(tool_input))]
    yield [ToolReturned(conversation=conversation, call=call, output=msgspec.Raw(output))]
