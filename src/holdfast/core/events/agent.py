"""Agents: who was set to work, and how it ended with them."""

from typing import ClassVar

from holdfast.core.events.base import Event


class AgentSpawned(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "agent.spawned"
    name: str
    role: str | None = None
    task: str | int | None = None
    branch: str | None = None
    pid: int | None = None


class AgentCompleted(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "agent.completed"
    name: str
    result: str | None = None


class AgentDied(Event, frozen=True, kw_only=True):
    """The process went away without finishing: infrastructure death, which uses up no attempt."""

    type: ClassVar[str] = "agent.died"
    name: str
    reason: str | None = None


FAMILY = (AgentSpawned, AgentCompleted, AgentDied)
