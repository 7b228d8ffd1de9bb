"""Speaks to agents, and is one: each agent is a process on the other side of the Agent Client Protocol."""
