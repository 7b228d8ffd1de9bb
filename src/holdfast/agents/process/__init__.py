"""Processes that we start for agents: everything they spawn, and their terminals."""
