"""Decisions without side effects: what a run does next, and how it continues after an interruption."""
