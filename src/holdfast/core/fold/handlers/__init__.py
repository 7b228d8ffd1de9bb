"""What each event does to the state: one handler a type. Each knows the state and its line; none knows another."""

from holdfast.core.fold.handlers import conversations, effects, inbox, issues, notices, phases, runs, tasks
from holdfast.core.fold.handlers.base import HANDLERS, Handler

__all__ = ["HANDLERS", "Handler", "conversations", "effects", "inbox", "issues", "notices", "phases", "runs", "tasks"]
