"""Worktrees: created, checked before every write, linked again, removed."""
