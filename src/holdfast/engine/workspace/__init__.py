"""A run's worktrees and branches, and all effects on the repository."""
