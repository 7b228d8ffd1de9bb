"""Workflows, task lists, prompts and checks. This package reads and formats; it has no side effects."""
