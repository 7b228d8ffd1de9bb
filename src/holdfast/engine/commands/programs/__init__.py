"""The programs that agents are or start: our own agents, and the reports of an agent's tools."""
