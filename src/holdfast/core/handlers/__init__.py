"""What each event does to the state: one handler a type. Each knows the state and its line; none knows another."""

from holdfast.core.handlers import conversations, effects, inbox, issues, phases, runs, tasks
from holdfast.core.handlers.base import HANDLERS, Handler

__all__ = ["HANDLERS", "Handler", "conversations", "effects", "inbox", "issues", "phases", "runs", "tasks"]
