"""Reads and changes repositories: facts, and effects with probes. Never touches the user's checkout unasked."""
