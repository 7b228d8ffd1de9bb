"""Demos: a small repository, scripted agents, and processes that are killed."""
