"""Handlers that apply events to the state, one per event type. No handler depends on another."""

from holdfast.core.fold.handlers import (
    chat,
    conversations,
    effects,
    inbox,
    interviews,
    issues,
    limits,
    notices,
    phases,
    preparation,
    rewind,
    runs,
    tasks,
)
from holdfast.core.fold.handlers.base import HANDLERS, Handler

__all__ = [
    "HANDLERS",
    "Handler",
    "chat",
    "conversations",
    "effects",
    "inbox",
    "interviews",
    "issues",
    "limits",
    "notices",
    "phases",
    "preparation",
    "rewind",
    "runs",
    "tasks",
]
