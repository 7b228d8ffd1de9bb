"""Agents: started, completed, died."""

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
    """The process ended without finishing. A death of the infrastructure does not count as an attempt."""

    type: ClassVar[str] = "agent.died"
    name: str
    reason: str | None = None


FAMILY = (AgentSpawned, AgentCompleted, AgentDied)
