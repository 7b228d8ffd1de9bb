"""Runs agents and talks to them: processes, protocol, runtimes, and the agents that ship with Holdfast."""
