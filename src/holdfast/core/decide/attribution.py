"""Which agent an event is about: the `agent` of its envelope.

An agent is named after its role and what it works on. So `task.started.agent`, `agent.spawned.name` and the envelope
name the same agent, over all processes that played it.
"""

from collections.abc import Callable
from operator import attrgetter

from holdfast.core.decide.phases import VALIDATORS
from holdfast.core.events import TYPES, Event
from holdfast.core.events.agent import AgentCompleted, AgentDied, AgentSpawned
from holdfast.core.events.conversation import ConversationOpened, PermissionAnswered, PermissionRequested
from holdfast.core.events.issue import BlockerReported
from holdfast.core.events.phase import ReviewGiven
from holdfast.core.events.task import TaskCompleted, TaskFailed, TaskStarted
from holdfast.core.events.work import (
    CaseSubmitted,
    IterationEnded,
    LearningsProposed,
    MemoryLoaded,
    ProgressReported,
    VerdictGiven,
)
from holdfast.core.state import Conversation, RunState

WORKER, EVALUATOR = "worker", "evaluator"

_OF_WORKERS = (TaskStarted, TaskCompleted, TaskFailed, CaseSubmitted, IterationEnded, LearningsProposed)
_MAY_NAME_A_TASK = (BlockerReported, ProgressReported)


def agent_name(role: str, subject: str | int | None) -> str:
    """`worker of T-1`; the role alone when it works on nothing that has a name."""
    return f"{role} of {subject}" if subject is not None else role


def agent_in(conversation: Conversation) -> str:
    """The agent of a conversation; one without a role is known by its program."""
    subject = conversation.task if conversation.task is not None else conversation.about
    return agent_name(conversation.role or conversation.agent or "agent", subject)


class Attribution:
    """Follows a log as it is written. It needs of the past what the state has of it."""

    def __init__(self, state: RunState) -> None:
        self._agents = {name: agent_in(conversation) for name, conversation in state.conversations.items()}
        self._requests = {key: asked.conversation for key, asked in state.permissions.items()}
        self._rules = self._made_rules()

    def agent_of(self, event: Event) -> str | None:
        rule = self._rules.get(type(event))
        return rule(event) if rule is not None else None

    def _made_rules(self) -> dict[type[Event], Callable[..., str | None]]:
        rules: dict[type[Event], Callable[..., str | None]] = {
            kind: self._in_conversation for kind in TYPES.values() if "conversation" in kind.__struct_fields__
        }
        rules |= dict.fromkeys(_OF_WORKERS, lambda event: agent_name(WORKER, event.task_id))
        rules |= dict.fromkeys(_MAY_NAME_A_TASK, _worker_of_its_task)
        rules |= dict.fromkeys((AgentSpawned, AgentCompleted, AgentDied), attrgetter("name"))
        rules[VerdictGiven] = lambda event: agent_name(EVALUATOR, event.task_id)
        rules[MemoryLoaded] = _reader
        rules[ReviewGiven] = _reviewer
        rules[ConversationOpened] = self._opened
        rules[PermissionRequested] = self._requested
        rules[PermissionAnswered] = self._answered
        return rules

    def _in_conversation(self, event: Event) -> str | None:
        return self._agents.get(event.conversation)  # type: ignore[attr-defined]  # of types that have it

    def _opened(self, event: ConversationOpened) -> str:
        subject = event.task if event.task is not None else event.about
        name = self._agents[event.conversation] = agent_name(event.role or event.agent or "agent", subject)
        return name

    def _requested(self, event: PermissionRequested) -> str | None:
        self._requests[event.request] = event.conversation
        return self._agents.get(event.conversation)

    def _answered(self, event: PermissionAnswered) -> str | None:
        return self._agents.get(self._requests.pop(event.request, ""))


def _reviewer(event: ReviewGiven) -> str | None:
    return agent_name(event.role, event.phase) if event.role != VALIDATORS else None


def _reader(event: MemoryLoaded) -> str | None:
    return agent_name(event.role, event.task_id) if event.role is not None else None


def _worker_of_its_task(event: BlockerReported | ProgressReported) -> str | None:
    return agent_name(WORKER, event.task_id) if event.task_id is not None else None
