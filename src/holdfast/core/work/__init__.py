"""What there is to do: workflows, plans, tasks, and the names of branches and worktrees."""
