"""Worktrees: made, checked before every write, linked again, removed."""
