"""Workflows, plans, tasks, and the names of branches and worktrees."""
