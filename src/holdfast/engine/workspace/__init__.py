"""A run's worktrees and branches, and every effect on the repository."""
