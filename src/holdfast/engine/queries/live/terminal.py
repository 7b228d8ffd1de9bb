"""How a terminal shows the tmux session of a run."""

from holdfast.engine.agents.tmux import attach_command

__all__ = ["attach_command"]
