"""The `agent` in the envelope of an event: the agent that the event is about.

An agent is named by its role and its subject. So `task.started.agent`, `agent.spawned.name` and the envelope name the
same agent, across all its processes.
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
from holdfast.core.work import agent_choice

WORKER, EVALUATOR = agent_choice.WORKER, agent_choice.EVALUATOR

_WORKER_EVENTS = (TaskStarted, TaskCompleted, TaskFailed, CaseSubmitted, IterationEnded, LearningsProposed)
_OPTIONAL_TASK_EVENTS = (BlockerReported, ProgressReported)


def agent_name(role: str, subject: str | int | None) -> str:
    """`worker of T-1`; the role alone without a subject."""
    return f"{role} of {subject}" if subject is not None else role


def conversation_agent_name(conversation: Conversation) -> str:
    """The agent of a conversation; without a role, its program."""
    subject = conversation.task if conversation.task is not None else conversation.about
    return agent_name(conversation.role or conversation.agent or "agent", subject)


class Attribution:
    """Attributes events as they are written, starting from a state."""

    def __init__(self, state: RunState) -> None:
        self._agents = {
            name: conversation_agent_name(conversation) for name, conversation in state.conversations.items()
        }
        self._requests = {key: request.conversation for key, request in state.permissions.items()}
        self._rules = self._build_rules()

    def agent_of(self, event: Event) -> str | None:
        rule = self._rules.get(type(event))
        return rule(event) if rule is not None else None

    def _build_rules(self) -> dict[type[Event], Callable[..., str | None]]:
        rules: dict[type[Event], Callable[..., str | None]] = {
            kind: self._agent_of_conversation for kind in TYPES.values() if "conversation" in kind.__struct_fields__
        }
        rules |= dict.fromkeys(_WORKER_EVENTS, lambda event: agent_name(WORKER, event.task_id))
        rules |= dict.fromkeys(_OPTIONAL_TASK_EVENTS, _worker_of_its_task)
        rules |= dict.fromkeys((AgentSpawned, AgentCompleted, AgentDied), attrgetter("name"))
        rules[VerdictGiven] = lambda event: agent_name(EVALUATOR, event.task_id)
        rules[MemoryLoaded] = _memory_reader
        rules[ReviewGiven] = _reviewer
        rules[ConversationOpened] = self._on_opened
        rules[PermissionRequested] = self._on_requested
        rules[PermissionAnswered] = self._on_answered
        return rules

    def _agent_of_conversation(self, event: Event) -> str | None:
        return self._agents.get(event.conversation)  # type: ignore[attr-defined]  # of types that have it

    def _on_opened(self, event: ConversationOpened) -> str:
        subject = event.task if event.task is not None else event.about
        name = self._agents[event.conversation] = agent_name(event.role or event.agent or "agent", subject)
        return name

    def _on_requested(self, event: PermissionRequested) -> str | None:
        self._requests[event.request] = event.conversation
        return self._agents.get(event.conversation)

    def _on_answered(self, event: PermissionAnswered) -> str | None:
        return self._agents.get(self._requests.pop(event.request, ""))


def _reviewer(event: ReviewGiven) -> str | None:
    return agent_name(event.role, event.phase) if event.role != VALIDATORS else None


def _memory_reader(event: MemoryLoaded) -> str | None:
    return agent_name(event.role, event.task_id) if event.role is not None else None


def _worker_of_its_task(event: BlockerReported | ProgressReported) -> str | None:
    return agent_name(WORKER, event.task_id) if event.task_id is not None else None
