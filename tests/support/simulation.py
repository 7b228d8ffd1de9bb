"""A runner that does nothing but write down what might have come of each step: work without agents, git or time.

It follows `decide` as the real one does, many steps at once, and holds it to what a run must never do.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import NamedTuple

from msgspec import Raw

from holdfast.core.conversation.states import UNFINISHED_TURN_REASONS
from holdfast.core.decide.actions import Action, ActionKey, ActionKind, PromptKind, RuntimeFacts
from holdfast.core.decide.phases import decide
from holdfast.core.decide.tasks import decide as decide_tasks
from holdfast.core.events import Event
from holdfast.core.events.branch import BranchCreated, BranchMerged
from holdfast.core.events.budget import UsageRecorded
from holdfast.core.events.conversation import ConversationOpened, TurnEnded, TurnInterrupted, TurnStarted
from holdfast.core.events.inbox import InboxConsumed, InboxHandled
from holdfast.core.events.issue import BlockerReported
from holdfast.core.events.plan import PlanCreated
from holdfast.core.events.session import RunCreated, RunResumed, SessionStart
from holdfast.core.events.task import TaskCompleted, TaskFailed, TaskStarted, WaveCompleted
from holdfast.core.events.work import (
    CaseSubmitted,
    IterationEnded,
    MergeConflicted,
    TaskCommitted,
    TaskReopened,
    ValidationFinished,
    VerdictGiven,
)
from holdfast.core.fold.fold import Fold
from holdfast.core.messages.addressing import messages_for
from holdfast.core.messages.schema import MessageKind
from holdfast.core.state import Conversation, RunState
from holdfast.core.task_state import Task, TaskStage, TaskStatus
from holdfast.core.work.workflow import Bounds, Workflow
from tests.core.logs import entry, fold_all
from tests.support.plain_decide import plain_decide

SETTLED = (TaskStatus.COMPLETE, TaskStatus.SKIPPED)
MOST_STEPS = 20_000

LUCK: dict[str, tuple[str, ...]] = {
    "turn": ("end_turn", "max_tokens", "refusal", "refused", "cancelled", "interrupted"),
    "report": ("case", "nothing", "blocker"),
    "validation": ("passed", "failed"),
    "verdict": ("accept", "reject", "nothing"),
    "commit": ("made", "nothing to commit"),
    "merge": ("merged", "conflict"),
    "step": ("done", "done", "done", "cannot be done"),
}


_WRITTEN: dict[ActionKind, Callable[[Action], Event]] = {
    ActionKind.START: lambda action: TaskStarted(task_id=action.key.name),
    ActionKind.ACCEPT_WITHOUT_CASE: lambda action: CaseSubmitted(task_id=action.key.name, iteration=1),
    ActionKind.END_ITERATION: lambda action: IterationEnded(
        task_id=action.key.name, iteration=1, reason=action.reason or ""
    ),
    ActionKind.SYNTHESIZE_VERDICT: lambda action: VerdictGiven(
        task_id=action.key.name, iteration=1, accept=False, synthetic=True
    ),
    ActionKind.FAIL: lambda action: TaskFailed(task_id=action.key.name, error=action.reason),
    ActionKind.REOPEN: lambda action: TaskReopened(task_id=action.key.name, reason=action.reason),
    ActionKind.CLOSE_WAVE: lambda action: WaveCompleted(wave=action.wave or 0),
}


class World(NamedTuple):
    """What may happen. Where `luck` leaves one possibility only, it happens every time."""

    workflow: Workflow
    bounds: Bounds
    plans: Sequence[PlanCreated]  # the first, and what it is edited to whenever the run is resumed
    luck: Mapping[str, Sequence[str]]
    crashes: int
    messages: Sequence[str | None]
    seed: int


class Simulation:
    def __init__(self, world: World) -> None:
        self.world = world
        self.log: list[bytes] = []
        self.merged: list[str] = []  # commits
        self._dice = Random(world.seed)
        self._fold = Fold()
        self._session = self._seq = 0
        self._busy: dict[ActionKey, Action] = {}
        self._stuck: set[ActionKey] = set()
        self._numbers: Counter[str] = Counter()
        self._said: set[str] = set()
        self._plans = list(world.plans)
        self._messages = list(world.messages)
        self._crashes = world.crashes
        self._append(SessionStart(), RunCreated(run_id="r", goal="g"), self._first())

    def _first(self) -> Event:
        """What it begins with."""
        return self._plans.pop(0)

    def _edited(self) -> list[Event]:
        """What is found to be otherwise when it is resumed."""
        return [self._plans.pop(0)] if self._plans else []

    @property
    def state(self) -> RunState:
        return self._fold.state

    def run(self) -> str:
        """Until it stops, and nobody is there to resume it."""
        for _ in range(MOST_STEPS):
            actions = self._decide()
            if [action.kind for action in actions] == [ActionKind.STOP]:
                if self._crashes == 0:
                    return actions[0].reason or ""
                self._resume()
                continue
            for action in actions:
                self._set_going(action)
            assert self._busy, "nothing is under way, and nothing is to be done"
            self._hold_to_places()
            self._something_happens()
        raise AssertionError(f"it goes on for ever: {self._decide()}")

    def _decide(self) -> list[Action]:
        world, facts = self.world, RuntimeFacts(frozenset(self._busy), frozenset(self._stuck))
        actions = decide(self.state, world.workflow, world.bounds, facts)
        of_tasks = (self.state, world.workflow, world.bounds, facts.of_kinds("task", "wave"))
        assert decide_tasks(*of_tasks) == plain_decide(*of_tasks)
        if len(self.log) % 11 == 0:
            folded = fold_all(b"".join(self.log))
            assert folded == self.state
            assert decide(folded, world.workflow, world.bounds, facts) == actions
        return actions

    # What it is held to

    def _set_going(self, action: Action) -> None:
        assert action.key not in self._busy, "it is under way"
        assert action.key not in self._stuck, "it cannot be done"
        assert self.state.plan is not None
        if action.kind is ActionKind.START:
            needed = self.state.plan.blocked_by.get(action.key.name, [])
            assert all(self._task(name).status in SETTLED for name in needed), "what it waits for is not settled"
        if action.kind in (ActionKind.COMMIT, ActionKind.MERGE):
            assert self._task(action.key.name).commit not in self.merged, "it was merged before"
        if action.kind is ActionKind.MERGE:
            self._hold_to_order(action.key.name)
        self._busy[action.key] = action

    def _hold_to_places(self) -> None:
        merging = [action for action in self._busy.values() if action.kind is ActionKind.MERGE]
        assert len(merging) <= 1
        alone = (ActionKind.MERGE, ActionKind.COMPLETE)  # no agent is needed for them
        at_work = [action for action in self._busy.values() if action.task is not None and action.kind not in alone]
        assert len(at_work) <= self.world.bounds.parallel

    def _hold_to_order(self, name: str) -> None:
        assert self.state.plan is not None
        (wave,) = [wave.task_ids for wave in self.state.plan.waves.values() if name in wave.task_ids]
        for other in wave[: wave.index(name)]:
            task = self._task(other)
            over = task.status in (*SETTLED, TaskStatus.FAILED) or task.stage is TaskStage.COMPLETE
            assert over or self._cannot_move(other, task), f"{name} merges before {other}"

    def _cannot_move(self, name: str, task: Task) -> bool:
        assert self.state.plan is not None
        if task.status is TaskStatus.PENDING and not self._is_stuck(name):
            needed = self.state.plan.blocked_by.get(name, [])
            return any(self._task(other).status not in SETTLED for other in needed)
        spoken_to = {TaskStage.WORK: task.worker, TaskStage.EVALUATE: task.evaluator}.get(task.stage)
        conversation = self.state.conversations.get(spoken_to or "") or Conversation()
        asked = self.world.bounds.ask_when_interrupted and (
            conversation.turn is not None or conversation.last in UNFINISHED_TURN_REASONS
        )
        return self._is_stuck(name) or asked or conversation.cuts >= self.world.bounds.agent_deaths

    def _is_stuck(self, task: str) -> bool:
        return ActionKey("task", task) in self._stuck

    # What happens

    def _something_happens(self) -> None:
        if self._crashes and self._dice.random() < 0.03:
            self._resume()
        elif self._messages and self._dice.random() < 0.1:
            self._message(self._messages.pop())
        else:
            self._advance(self._busy[self._dice.choice(sorted(self._busy, key=repr))])

    def _advance(self, action: Action) -> None:
        if action.kind in (ActionKind.WORK, ActionKind.EVALUATE):
            over = self._talk(action)
        elif self._luck("step") == "done":
            over = True
            self._append(*self._outcome(action))
        else:
            over = True
            self._stuck.add(action.key)
        if over:
            self._busy.pop(action.key, None)

    def _outcome(self, action: Action) -> list[Event]:
        match action.kind:
            case ActionKind.COMMIT:
                return self._commit(action.key.name)
            case ActionKind.MERGE:
                return self._merge(action.key.name)
            case ActionKind.VALIDATE:
                return [ValidationFinished(task_id=action.key.name, passed=self._luck("validation") == "passed")]
            case ActionKind.COMPLETE:
                return [TaskCompleted(task_id=action.key.name, key=self._task(action.key.name).key)]
            case _:
                return [_WRITTEN[action.kind](action)]

    def _talk(self, action: Action) -> bool:
        """One step of a turn: it begins, something is reported, it ends. True when it has."""
        name, role = action.key.name, "worker" if action.kind is ActionKind.WORK else "evaluator"
        conversation_id = self._conversation_of(name, role)
        if conversation_id is None:
            conversation_id = self._numbered(role)
            self._append(ConversationOpened(conversation=conversation_id, agent="a", role=role, task=name))
            return False
        turn = self.state.conversations[conversation_id].turn
        if turn is None:
            said = messages_for(self.state.messages, name) if role == "worker" else []
            assert self._said.isdisjoint(said), "it was said before"
            self._said.update(said)
            if action.prompt_kind is PromptKind.MESSAGE and not said:
                return True  # another prompt took it along meanwhile
            handled = [InboxHandled(message=message) for message in said]
            self._append(
                TurnStarted(conversation=conversation_id, turn=self._numbered("turn"), messages=said), *handled
            )
            self._append(*(self._case(name) if role == "worker" else self._verdict(name)))
            return False
        last = self._luck("turn")
        spent = UsageRecorded(input_tokens=1)
        if last == "interrupted":
            self._append(TurnInterrupted(conversation=conversation_id, turn=turn.turn), spent)
        else:
            self._append(TurnEnded(conversation=conversation_id, turn=turn.turn, stop_reason=last), spent)
        return True

    def _conversation_of(self, name: str, role: str) -> str | None:
        """Whom the action is about; an evaluator that gave its verdict is the one whose turn is still open."""
        opened = [
            key
            for key, conversation in self.state.conversations.items()
            if (conversation.role, conversation.task) == (role, name)
        ]
        if opened and self.state.conversations[opened[-1]].turn is not None:
            return opened[-1]
        task = self._task(name)
        return task.worker if role == "worker" else task.evaluator

    def _case(self, name: str) -> list[Event]:
        report = self._luck("report")
        if report == "blocker":
            return [BlockerReported(task_id=name, description="no key")]
        wanted = report == "case" and self._task(name).stage is TaskStage.WORK
        return [CaseSubmitted(task_id=name, iteration=1)] if wanted and self.world.workflow.case else []

    def _verdict(self, name: str) -> list[Event]:
        verdict = self._luck("verdict")
        return [] if verdict == "nothing" else [VerdictGiven(task_id=name, iteration=1, accept=verdict == "accept")]

    def _commit(self, name: str) -> list[Event]:
        commit = self._numbered("commit") if self._luck("commit") == "made" else None
        return [BranchCreated(name=f"b/{name}", task=name), TaskCommitted(task_id=name, commit=commit)]

    def _merge(self, name: str) -> list[Event]:
        commit = self._task(name).commit
        if self._luck("merge") == "conflict":
            return [MergeConflicted(task_id=name, files=["x"])]
        assert commit is not None
        self.merged.append(commit)
        if self._crashes and self._dice.random() < 0.2:
            self._resume()  # killed between the merge and the word of it: that is looked up
            return []
        return [BranchMerged(name=f"b/{name}", target="main")]

    def _message(self, task: str | None) -> None:
        body = b'{"task":"%s"}' % task.encode() if task is not None else b"{}"
        number = self._numbered("message")
        self._append(InboxConsumed(cursor=len(self.log), message=number, kind=MessageKind.USER, body=Raw(body)))

    def _resume(self) -> None:
        """All that was under way is gone; what the log knows of is settled, and what failed is tried again."""
        self._crashes -= 1
        self._session, self._seq = self._session + 1, 0
        self._busy.clear()
        self._stuck.clear()
        self._fold = Fold(fold_all(b"".join(self.log)))
        self._append(SessionStart(command="resume"))
        self._settle()
        self._append(RunResumed(summary="on", decision="fix"))
        failed = [name for name, task in self.state.tasks.items() if task.status is TaskStatus.FAILED]
        self._append(*(TaskReopened(task_id=name) for name in failed))
        self._append(*self._edited())

    def _settle(self) -> None:
        for name, conversation in self.state.conversations.items():
            if conversation.turn is not None and self._dice.random() < 0.5:  # at the latest when it is spoken to
                self._append(TurnInterrupted(conversation=name, turn=conversation.turn.turn))
        for name, task in self.state.tasks.items():
            if task.stage is TaskStage.MERGE and task.commit in self.merged:
                self._append(BranchMerged(name=f"b/{name}", target="main"))

    def _append(self, *events: Event) -> None:
        for event in events:
            line = entry(event, self._seq, f"s{self._session}")
            self.log.append(line)
            self._fold.feed(line)
            self._seq += 1

    def _task(self, name: str) -> Task:
        return self.state.tasks[name]

    def _luck(self, kind: str) -> str:
        return self._dice.choice(self.world.luck[kind])

    def _numbered(self, kind: str) -> str:
        self._numbers[kind] += 1
        return f"{kind}-{self._numbers[kind]}"
